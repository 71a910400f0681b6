//! Names of interfaces.

use thiserror::Error;

/// Why a text is no name for an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InterfaceNameError {
    /// Empty, or longer than the kernel takes.
    #[error("it has {0} bytes, and a name has 1 to 15")]
    Length(usize),
    /// The name of a folder.
    #[error("it is the name of a folder")]
    Folder,
    /// A character that no name may have.
    #[error("it has a {0:?}")]
    Character(char),
}

/// Whether the kernel lets an interface have this name and no other.
///
/// It refuses an empty name, one of 16 bytes, the folders' names, slash, colon and blanks
/// (`dev_valid_name` in net/core/dev.c), and takes a `%` for a pattern to make a name from. It looks
/// at bytes, and 0xA0 alone is a blank to it (lib/ctype.c), also as a part of a letter such as `à`.
/// Names are parts of paths and lines of logs, so control characters are refused too.
pub(crate) fn check(name: &str) -> Result<(), InterfaceNameError> {
    if !(1..=15).contains(&name.len()) {
        return Err(InterfaceNameError::Length(name.len()));
    }
    if name == "." || name == ".." {
        return Err(InterfaceNameError::Folder);
    }
    let bad = |c: &char| {
        let mut bytes = [0; 4];
        matches!(c, '/' | ':' | '%')
            || c.is_whitespace()
            || c.is_control()
            || c.encode_utf8(&mut bytes).as_bytes().contains(&0xa0)
    };
    match name.chars().find(bad) {
        Some(c) => Err(InterfaceNameError::Character(c)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_to_fifteen_bytes_and_nothing_that_the_kernel_refuses() {
        for good in ["n", "nsm-1", "eth0.100", "...", "fifteen-letters", "ö@é"] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
        assert_eq!(check(""), Err(InterfaceNameError::Length(0)));
        assert_eq!(
            check("sixteen-letters-"),
            Err(InterfaceNameError::Length(16))
        );
        for folder in [".", ".."] {
            assert_eq!(check(folder), Err(InterfaceNameError::Folder));
        }
        for (bad, c) in [
            ("a/b", '/'),
            ("eth0:1", ':'),
            ("nsm%d", '%'),
            ("a b", ' '),
            ("a\n", '\n'),
            ("a\0b", '\0'),
            ("a\u{a0}b", '\u{a0}'),
            ("voil\u{e0}", '\u{e0}'),
            ("\u{420}", '\u{420}'),
        ] {
            assert_eq!(check(bad), Err(InterfaceNameError::Character(c)), "{bad:?}");
        }
    }
}
