//! resolv.conf(5), as it was and as it is while a proxy answers. Pure; [`file`] writes it.

pub(crate) mod file;

use std::net::IpAddr;

/// The first line of what is ours.
const HEAD: &str =
    "# Written by a client of Network Service Mesh. Below is what stood here, and comes back.\n";
/// What a line of the original begins with.
const KEPT: &[u8] = b"#nsm:";
/// The same of a last line that does not end.
const KEPT_OPEN: &[u8] = b"#nsm~";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResolvConf {
    /// The servers, in the order in which they are asked.
    pub servers: Vec<IpAddr>,
    /// The domains in which short names are searched.
    pub search: Vec<String>,
    /// Options, as they are written.
    options: Vec<String>,
}

impl ResolvConf {
    /// Reads what resolvers read. Of several `search` or `domain` lines the last one counts.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut read = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let keyword = words.next().unwrap_or_default();
            match keyword {
                "nameserver" => read.servers.extend(words.next().and_then(server)),
                "search" => read.search = words.map(str::to_owned).collect(),
                "domain" => read.search = words.take(1).map(str::to_owned).collect(),
                "options" => read.options.extend(words.map(str::to_owned)),
                _ => {}
            }
        }
        read
    }

    /// What stands in the file while `proxy` answers and `domains` are searched besides: the
    /// original as comments, and its search and options.
    pub(crate) fn ours(original: &[u8], proxy: IpAddr, domains: &[String]) -> Vec<u8> {
        let was = Self::parse(original);
        let mut text = HEAD.as_bytes().to_vec();
        for line in original.split_inclusive(|byte| *byte == b'\n') {
            let ends = line.last() == Some(&b'\n');
            text.extend_from_slice(if ends { KEPT } else { KEPT_OPEN });
            text.extend_from_slice(line);
            if !ends {
                text.push(b'\n');
            }
        }
        text.extend_from_slice(format!("nameserver {proxy}\n").as_bytes());
        let mut search = was.search;
        for domain in domains {
            if !search.iter().any(|it| it.eq_ignore_ascii_case(domain)) {
                search.push(domain.clone());
            }
        }
        for (keyword, words) in [("search", search), ("options", was.options)] {
            if !words.is_empty() {
                text.extend_from_slice(format!("{keyword} {}\n", words.join(" ")).as_bytes());
            }
        }
        text
    }
}

/// What stood in the file before it became ours. `None` if it is not.
pub(crate) fn original_of(text: &[u8]) -> Option<Vec<u8>> {
    let rest = text.strip_prefix(HEAD.as_bytes())?;
    let mut original = Vec::new();
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        if let Some(line) = line.strip_prefix(KEPT) {
            original.extend_from_slice(line);
        } else if let Some(line) = line.strip_prefix(KEPT_OPEN) {
            original.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        } else {
            break;
        }
    }
    Some(original)
}

/// A server, without the interface that a link-local one has behind a `%`: such a one cannot be
/// asked from elsewhere.
fn server(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "search default.svc.cluster.local cluster.local\n\
                       nameserver 10.96.0.10\noptions ndots:5\n";

    fn ours(original: &str) -> String {
        let proxy = IpAddr::from([127, 0, 0, 1]);
        let domains = ["example.com".to_owned(), "CLUSTER.local".to_owned()];
        String::from_utf8(ResolvConf::ours(original.as_bytes(), proxy, &domains)).unwrap()
    }

    #[test]
    fn servers_search_and_options_are_read_as_resolvers_read_them() {
        let text = "# nameserver 9.9.9.9\n;search no\ndomain a\nnameserver 10.0.0.1 \n\
                    nameserver fd00::1\nnameserver fe80::1%eth0\nnameserver x\n\
                    search b c\noptions ndots:5 timeout:1\noptions rotate\n";

        let read = ResolvConf::parse(text.as_bytes());

        let servers: Vec<_> = read.servers.iter().map(IpAddr::to_string).collect();
        assert_eq!(servers, ["10.0.0.1", "fd00::1"]);
        assert_eq!(read.search, ["b", "c"]);
        assert_eq!(read.options, ["ndots:5", "timeout:1", "rotate"]);
    }

    #[test]
    fn the_proxy_stands_in_place_of_the_servers_and_the_domains_are_searched_last() {
        let text = ours(POD);

        let lines: Vec<_> = text.lines().filter(|it| !it.starts_with('#')).collect();
        let expected = [
            "nameserver 127.0.0.1",
            "search default.svc.cluster.local cluster.local example.com",
            "options ndots:5",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_original_comes_back_to_the_byte() {
        for original in [
            POD,
            "",
            "\n",
            "nameserver 10.0.0.1",
            "# comment\r\nnameserver 10.0.0.1\n\n\n",
            "#nsm:not ours\n",
        ] {
            let back = original_of(ours(original).as_bytes()).unwrap();
            assert_eq!(String::from_utf8(back).unwrap(), original);
        }
        let binary = b"\xff\xfe\nnameserver 10.0.0.1\n";
        let text = ResolvConf::ours(binary, IpAddr::from([127, 0, 0, 1]), &[]);
        assert_eq!(original_of(&text).unwrap(), binary);
    }

    #[test]
    fn a_file_without_our_head_is_an_original() {
        assert_eq!(original_of(POD.as_bytes()), None);
        assert_eq!(original_of(b"#nsm:nameserver 10.0.0.1\n"), None);
    }
}
