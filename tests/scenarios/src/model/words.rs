//! Values that are written as a word or a few.

use super::prefix;
use ipnet::IpNet;
use nsm_netlink::{Errno, Family};
use regex::Regex;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// A value that its own type knows how to read.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String", bound = "T: FromStr<Err: fmt::Display>")]
pub struct Parsed<T>(pub T);

impl<T: FromStr<Err: fmt::Display>> TryFrom<String> for Parsed<T> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|error| format!("{text:?}: {error}"))
    }
}

/// A length of time: `20m`, `1h30m`, `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no time: write 500ms, 20s, 15m or 1h30m");
        let mut rest = text.as_str();
        let mut sum = Duration::ZERO;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, behind) = rest.split_at(digits);
            let unit = behind
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(behind.len());
            let (unit, behind) = behind.split_at(unit);
            let number: u32 = number.parse().map_err(|_| wrong())?;
            sum += match unit {
                "ms" => Duration::from_millis(1),
                "s" => Duration::from_secs(1),
                "m" => Duration::from_secs(60),
                "h" => Duration::from_secs(60 * 60),
                _ => return Err(wrong()),
            } * number;
            rest = behind;
        }
        if text.is_empty() {
            Err(wrong())
        } else {
            Ok(Self(sum))
        }
    }
}

/// A regular expression that a message must contain a match of.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(Regex);

impl Pattern {
    /// Whether a message matches.
    pub fn matches(&self, message: &str) -> bool {
        self.0.is_match(message)
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // The error of `regex` draws an arrow over several lines; its last line says the reason.
        Regex::new(&text).map(Self).map_err(|error| {
            let error = error.to_string();
            let reason = error
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ");
            format!("{text:?} is no regular expression: {reason}")
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.0)
    }
}

/// A number or a range of numbers, both ends included: `30000`, `30000-32321`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct NumberRange {
    /// The lowest.
    pub first: u32,
    /// The highest.
    pub last: u32,
}

impl NumberRange {
    /// Whether the range holds a number.
    pub fn contains(self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

impl TryFrom<String> for NumberRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!(
                "{text:?} is neither a number nor a range such as 30000-32321"
            )),
        }
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// The name of an error, as errno(3) has it: `EPERM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ErrnoName(pub Errno);

impl TryFrom<String> for ErrnoName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // EHWPOISON, 133, is the last of Linux.
        (1..=133)
            .map(Errno::from_raw)
            .find(|errno| *errno != Errno::UnknownErrno && format!("{errno:?}") == text)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no name of an error such as EPERM"))
    }
}

/// A route: `PREFIX|default [via NEXTHOP] dev LINK`, or `unreachable PREFIX|default`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct RouteText {
    /// The destination, masked; `None` is the default route of whichever family.
    pub to: Option<IpNet>,
    /// The next hop; `None` is on-link.
    pub via: Option<IpAddr>,
    /// The link's name; `None` where the route is unreachable.
    pub dev: Option<String>,
}

impl RouteText {
    /// The family, as far as the text tells it.
    pub fn family(&self) -> Option<Family> {
        let next_hop = self.via.as_ref().map(Family::of);
        self.to.as_ref().map(Family::of_net).or(next_hop)
    }

    /// Whether the route is of type `unreachable`.
    pub fn is_unreachable(&self) -> bool {
        self.dev.is_none()
    }
}

impl TryFrom<String> for RouteText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("{text:?}: {what}; a route is `PREFIX|default [via NEXTHOP] dev LINK`")
        };
        let mut unreachable = false;
        let (mut to, mut via, mut dev) = (None, None, None);
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| wrong("incomplete"));
            match word {
                "unreachable" => unreachable = true,
                "via" => via = Some(value()?.parse().map_err(|_| wrong("no next hop"))?),
                "dev" => dev = Some(value()?.to_owned()),
                destination if to.is_none() => to = Some(destination),
                _ => return Err(wrong(word)),
            }
        }
        let to = match to {
            None => return Err(wrong("no destination")),
            // `0.0.0.0/0` and `::/0` tell their family, `default` does not.
            Some("default") => None,
            Some(text) => Some(prefix(text).map_err(|_| wrong("no prefix"))?.trunc()),
        };
        if unreachable != dev.is_none() || unreachable && via.is_some() {
            return Err(wrong("no link"));
        }
        Ok(Self { to, via, dev })
    }
}

impl fmt::Display for RouteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unreachable() {
            f.write_str("unreachable ")?;
        }
        match &self.to {
            None => f.write_str("default")?,
            Some(net) if net.prefix_len() == 0 => f.write_str("default")?,
            Some(net) if net.prefix_len() == net.max_prefix_len() => write!(f, "{}", net.addr())?,
            Some(net) => write!(f, "{net}")?,
        }
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        match &self.dev {
            Some(dev) => write!(f, " dev {dev}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: TryFrom<String>>(text: &str) -> Result<T, T::Error> {
        T::try_from(text.to_owned())
    }

    #[test]
    fn a_time_is_a_sum_of_numbers_with_units() {
        let seconds = |text| read::<Time>(text).map(|time| time.0.as_millis());
        assert_eq!(seconds("20m"), Ok(1_200_000));
        assert_eq!(seconds("1h30m"), Ok(5_400_000));
        assert_eq!(seconds("1s500ms"), Ok(1_500));
        for wrong in ["", "20", "m", "20 m", "1d", "-1s"] {
            assert!(seconds(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_route_is_written_as_ip_route_prints_it() {
        for text in [
            "default via 172.16.1.254 dev nsm-0",
            "10.50.0.0/16 dev eth0",
            "172.16.1.100 dev nsm-1",
            "2004::/120 via 2004::6 dev nsm-1",
            "unreachable default",
        ] {
            assert_eq!(read::<RouteText>(text).unwrap().to_string(), text);
        }
        assert_eq!(
            read::<RouteText>("::/0 dev a").unwrap().family(),
            Some(Family::V6)
        );
        assert_eq!(
            read::<RouteText>("default via fe80::1 dev a")
                .unwrap()
                .family(),
            Some(Family::V6)
        );
        assert_eq!(read::<RouteText>("default dev a").unwrap().family(), None);
    }

    #[test]
    fn the_words_of_a_route_stand_in_any_order() {
        let route = read::<RouteText>("dev nsm-0 default via 172.16.1.254").unwrap();
        assert_eq!(route.to_string(), "default via 172.16.1.254 dev nsm-0");
    }

    #[test]
    fn a_route_with_a_word_too_many_or_too_few_is_refused() {
        for text in [
            "",
            "default",
            "default via",
            "default dev a metric 5",
            "x dev a",
            "dev a",
        ] {
            assert!(read::<RouteText>(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn errors_are_called_by_their_names() {
        assert_eq!(read("EHOSTUNREACH"), Ok(ErrnoName(Errno::EHOSTUNREACH)));
        assert!(read::<ErrnoName>("113").is_err());
        assert!(read::<ErrnoName>("UnknownErrno").is_err());
    }

    #[test]
    fn a_bad_regular_expression_is_told_on_one_line() {
        assert_eq!(
            read::<Pattern>("a(").unwrap_err(),
            "\"a(\" is no regular expression: unclosed group"
        );
    }
}
