//! Paths of files in URLs (RFC 3986, section 3.3).

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The file that the path of a URL names. `None` for what names none: a path that is not absolute
/// or ends with a slash, a query or a fragment behind it, a percent sign without two hexadecimal
/// digits, and a zero byte.
pub(crate) fn decode(text: &str) -> Option<PathBuf> {
    if !text.starts_with('/') || text.ends_with('/') || text.contains(['?', '#']) {
        return None;
    }
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    (!path.contains(&0)).then(|| PathBuf::from(OsString::from_vec(path)))
}

/// Shows a path as [`decode`] reads it. What has a meaning in a URL or in a list of them is encoded.
pub(crate) struct Encoded<'a>(pub(crate) &'a Path);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.as_os_str().as_bytes() {
            match byte {
                b'A'..=b'Z'
                | b'a'..=b'z'
                | b'0'..=b'9'
                | b'/'
                | b'-'
                | b'.'
                | b'_'
                | b'~'
                | b':'
                | b'@'
                | b'+' => write!(f, "{}", char::from(*byte))?,
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_what_it_displays() {
        for path in [
            "/run/nsm.sock",
            "/a b/100%/x,y=z?#",
            "/\u{fc}/\u{1}\n",
            "/a//b",
        ] {
            let shown = Encoded(Path::new(path)).to_string();
            assert!(!shown.contains([' ', ',', '?', '#', '\n']), "{shown}");
            assert_eq!(decode(&shown), Some(PathBuf::from(path)), "{shown}");
        }
        let no_text = PathBuf::from(OsString::from_vec(vec![b'/', 0xff]));
        assert_eq!(Encoded(&no_text).to_string(), "/%FF");
        assert_eq!(decode("/%fF"), Some(no_text));
        assert_eq!(decode("/%2e%2E/%41"), Some(PathBuf::from("/../A")));
    }

    #[test]
    fn what_cannot_be_a_path_is_none() {
        for text in [
            "", "a", "/", "/a/", "/a?b", "/a#b", "/a%", "/a%2", "/a%2x", "/a%+1", "/a%00b", "/a\0b",
        ] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
