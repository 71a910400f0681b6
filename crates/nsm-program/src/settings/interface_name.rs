//! Names of network interfaces.

use std::fmt;
use std::str::FromStr;

use super::as_text;

/// A name that the kernel lets an interface have: 1 to 15 bytes, none of them `/`, `:`, `%` or a
/// blank, and not `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InterfaceName(String);

/// Why a text is no name of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceNameError {
    /// Nothing at all.
    #[error("the name of an interface is empty")]
    Empty,
    /// More than the kernel's field holds.
    #[error("the name of an interface has {bytes} bytes, and may have 15")]
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// A character that no interface's name has.
    #[error("the name of an interface has {0:?}, and may not")]
    Character(char),
    /// A name of a folder.
    #[error("no interface can be called . or ..")]
    Dots,
}

impl InterfaceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InterfaceName {
    type Err = InterfaceNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let odd = |c: char| "/:%".contains(c) || c.is_whitespace() || c.is_control();
        match name {
            "" => Err(InterfaceNameError::Empty),
            "." | ".." => Err(InterfaceNameError::Dots),
            name if name.len() > 15 => Err(InterfaceNameError::TooLong { bytes: name.len() }),
            name => match name.chars().find(|c| odd(*c)) {
                Some(c) => Err(InterfaceNameError::Character(c)),
                None => Ok(Self(name.to_owned())),
            },
        }
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

as_text!(InterfaceName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_the_kernel_takes_are_taken() {
        for name in ["a", "nsm-1", "eth0.100", "fifteen-bytes-x", "..."] {
            assert_eq!(name.parse::<InterfaceName>().unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "a/b", "a:b", "a%d", "a\tb", "a\u{a0}b"] {
            assert!(name.parse::<InterfaceName>().is_err(), "{name:?}");
        }
    }
}
