//! Names of network interfaces.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A name that the kernel lets a network interface have, and takes for nothing else.
///
/// It refuses an empty name, one of more than 15 bytes, the folders' names, slash, colon and white
/// space (`dev_valid_name`, net/core/dev.c). It looks at bytes, and 0xA0 alone is a blank to it
/// (lib/ctype.c), also as a part of a letter such as `à`. It takes a `%` for a pattern to make a name
/// from, and `all` and `default` for every interface where it keeps their settings
/// (`net/ipv4/conf`). Names are parts of paths and of lines of a log, so control characters are
/// refused too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InterfaceName(String);

/// Why a text is no name of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InterfaceNameError {
    /// Nothing at all, or more than the kernel has room for.
    #[error("it has {0} bytes, and a name of an interface has 1 to 15")]
    Length(usize),
    /// The name of a folder, or of all interfaces.
    #[error("it stands for something else than an interface")]
    Reserved,
    /// A character that no name has.
    #[error("it has a {0:?}")]
    Character(char),
}

impl InterfaceName {
    /// The longest name has so many bytes (`IFNAMSIZ` without the zero behind it).
    pub const LONGEST: usize = 15;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is a name.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub fn check(name: &str) -> Result<(), InterfaceNameError> {
        if !(1..=Self::LONGEST).contains(&name.len()) {
            return Err(InterfaceNameError::Length(name.len()));
        }
        if matches!(name, "." | ".." | "all" | "default") {
            return Err(InterfaceNameError::Reserved);
        }
        match name.chars().find(|c| is_refused(*c)) {
            Some(c) => Err(InterfaceNameError::Character(c)),
            None => Ok(()),
        }
    }
}

fn is_refused(c: char) -> bool {
    let is_blank = || c.encode_utf8(&mut [0; 4]).as_bytes().contains(&0xa0);
    matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control() || is_blank()
}

impl FromStr for InterfaceName {
    type Err = InterfaceNameError;

    fn from_str(name: &str) -> Result<Self, InterfaceNameError> {
        Self::check(name)?;
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_to_fifteen_bytes_and_nothing_that_the_kernel_refuses() {
        for good in ["n", "nsm-1", "eth0.100", "...", "fifteen-letters", "ö@é"] {
            assert_eq!(good.parse::<InterfaceName>().unwrap().as_str(), good);
        }
        let wrong = |name: &str| InterfaceName::check(name).unwrap_err();
        assert_eq!(wrong(""), InterfaceNameError::Length(0));
        assert_eq!(wrong("sixteen-letters-"), InterfaceNameError::Length(16));
        assert_eq!(wrong("öööööööö"), InterfaceNameError::Length(16));
        for reserved in [".", "..", "all", "default"] {
            assert_eq!(wrong(reserved), InterfaceNameError::Reserved);
        }
        for (bad, c) in [
            ("a/b", '/'),
            ("eth0:1", ':'),
            ("nsm%d", '%'),
            ("a b", ' '),
            ("a\n", '\n'),
            ("a\0b", '\0'),
            ("a\u{a0}b", '\u{a0}'),
            ("aàb", 'à'),
            ("\u{420}", '\u{420}'),
        ] {
            assert_eq!(wrong(bad), InterfaceNameError::Character(c), "{bad:?}");
        }
    }
}
