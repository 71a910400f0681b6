//! Who may ping in a namespace without privilege (`net.ipv4.ping_group_range`, icmp(7)).
//!
//! The mesh's clients find out by that whether a connection works.

use nix::unistd::getegid;
use nsm_netlink::Netns;
use std::fs;
use std::io;

const FILE: &str = "/proc/sys/net/ipv4/ping_group_range";

/// Groups by number, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range(u32, u32);

/// Every group there is.
const ALL: Range = Range(0, 2_147_483_647);

/// Lets every group ping, or where the kernel refuses that, our own: the numbers have to be mapped
/// in our user namespace, and where only one is, all is too much. What stands is not written again.
///
/// # Errors
/// When the namespace cannot be entered, or the file cannot be read or written.
pub fn allow(netns: &Netns) -> io::Result<()> {
    // A file of /proc/sys/net is that of the namespace in which it is opened.
    netns.enter(|| {
        let standing = parse(&fs::read_to_string(FILE)?);
        if standing == Some(ALL) {
            return Ok(());
        }
        match write(ALL) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            written => return written,
        }
        let own = getegid().as_raw();
        if standing.is_some_and(|Range(first, last)| first <= own && own <= last) {
            return Ok(());
        }
        write(Range(own, own))
    })?
}

fn write(Range(first, last): Range) -> io::Result<()> {
    fs::write(FILE, format!("{first} {last}"))
}

fn parse(text: &str) -> Option<Range> {
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last)), None) => Some(Range(first, last)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_numbers() {
        assert_eq!(parse("0\t2147483647\n"), Some(ALL));
        assert_eq!(parse("1 0\n"), Some(Range(1, 0)));
        for text in ["", "1", "1 2 3", "a b", "-1 5"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
