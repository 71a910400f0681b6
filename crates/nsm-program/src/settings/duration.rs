//! Durations, as Go writes them.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::time::Duration;

use super::as_text;

const NANOSECOND: u128 = 1;
const MICROSECOND: u128 = 1_000;
const MILLISECOND: u128 = 1_000_000;
const SECOND: u128 = 1_000_000_000;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;

/// What a duration of Go can hold: 292 years.
const LONGEST: u128 = i64::MAX as u128;

/// A duration in Go's syntax: `300ms`, `1.5h`, `1h2m3.5s`, `0`.
///
/// Numbers with a unit each (`ns`, `us` or `µs`, `ms`, `s`, `m`, `h`), in any order, and a sign
/// before them. No setting of the mesh's programs means anything below zero, so that is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(Duration);

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Not a sequence of numbers with units.
    #[error("no duration, such as 300ms, 1.5h or 1h2m3.5s")]
    Syntax,
    /// A number without a unit.
    #[error("a unit is missing after {number} (ns, us, ms, s, m, h)")]
    MissingUnit {
        /// The number.
        number: String,
    },
    /// A unit that Go has none of.
    #[error("unknown unit {unit:?} (ns, us, ms, s, m, h)")]
    UnknownUnit {
        /// The unit.
        unit: String,
    },
    /// More than a duration of Go can hold.
    #[error("longer than 292 years")]
    TooLong,
    /// Below zero.
    #[error("below zero")]
    Negative,
    /// Zero, where something must happen after it.
    #[error("must be more than zero")]
    Zero,
}

impl GoDuration {
    /// The duration in whole seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(Duration::from_secs(seconds as u64))
    }

    /// The duration as the standard library has it.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// Reads a duration that is more than zero.
///
/// # Errors
///
/// Those of [`GoDuration`], and [`DurationError::Zero`].
pub fn positive(text: &str) -> Result<GoDuration, DurationError> {
    let duration: GoDuration = text.parse()?;
    if duration.is_zero() {
        return Err(DurationError::Zero);
    }
    Ok(duration)
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, magnitude) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let nanoseconds = match magnitude {
            "0" => 0,
            "" => return Err(DurationError::Syntax),
            parts => sum(parts)?,
        };
        match u64::try_from(nanoseconds) {
            _ if nanoseconds > LONGEST => Err(DurationError::TooLong),
            Ok(nanoseconds) if negative && nanoseconds > 0 => Err(DurationError::Negative),
            Ok(nanoseconds) => Ok(Self(Duration::from_nanos(nanoseconds))),
            Err(_) => Err(DurationError::TooLong),
        }
    }
}

/// The sum of numbers with units, in nanoseconds.
fn sum(mut rest: &str) -> Result<u128, DurationError> {
    let mut sum: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Syntax);
        }
        let number = &rest[..rest.len() - after.len()];
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = match unit {
            "" => {
                let number = number.to_owned();
                return Err(DurationError::MissingUnit { number });
            }
            "ns" => NANOSECOND,
            // The micro sign and the Greek letter.
            "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            unknown => {
                let unit = unknown.to_owned();
                return Err(DurationError::UnknownUnit { unit });
            }
        };
        let whole: u128 = match whole {
            "" => 0,
            // More digits than fit are more than any duration.
            digits => digits.parse().map_err(|_| DurationError::TooLong)?,
        };
        let part = whole
            .checked_mul(unit)
            .and_then(|part| part.checked_add(fraction_of(fraction, unit)));
        sum = part
            .and_then(|part| sum.checked_add(part))
            .filter(|sum| *sum <= LONGEST + 1)
            .ok_or(DurationError::TooLong)?;
        rest = after;
    }
    Ok(sum)
}

/// So many digits behind the point of a unit, rounded down. Those beyond a nanosecond's share of an
/// hour change nothing.
fn fraction_of(digits: &str, unit: u128) -> u128 {
    let mut nanoseconds = 0;
    let mut scale = 1;
    for digit in digits.bytes().take(18) {
        nanoseconds = nanoseconds * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    nanoseconds * unit / scale
}

/// The digits that a text starts with, and what follows them.
fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// As Go shows it: `1h2m3.5s`, and below a second in the largest unit that gives a whole part.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        if nanoseconds == 0 {
            return f.pad("0s");
        }
        let (unit, name) = match nanoseconds {
            0..MICROSECOND => (NANOSECOND, "ns"),
            MICROSECOND..MILLISECOND => (MICROSECOND, "\u{b5}s"),
            MILLISECOND..SECOND => (MILLISECOND, "ms"),
            _ => (SECOND, "s"),
        };
        let (hours, minutes) = (nanoseconds / HOUR, nanoseconds % HOUR / MINUTE);
        let rest = nanoseconds % MINUTE;
        let mut text = String::new();
        if hours > 0 {
            text = format!("{hours}h");
        }
        if hours > 0 || minutes > 0 {
            text += &format!("{minutes}m");
        }
        text += &(rest / unit).to_string();
        let fraction = rest % unit;
        if fraction > 0 {
            let width = unit.ilog10() as usize;
            let digits = format!("{fraction:0width$}");
            text += &format!(".{}", digits.trim_end_matches('0'));
        }
        text += name;
        f.pad(&text)
    }
}

impl Deref for GoDuration {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

as_text!(GoDuration);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanoseconds(text: &str) -> u128 {
        text.parse::<GoDuration>().unwrap().as_nanos()
    }

    #[test]
    fn durations_of_go_are_read() {
        for (text, expected) in [
            ("0", 0),
            ("+0", 0),
            ("-0", 0),
            ("0s", 0),
            ("-0h", 0),
            ("5s", 5 * SECOND),
            ("+5s", 5 * SECOND),
            ("1478s", 1478 * SECOND),
            ("5.0s", 5 * SECOND),
            ("5.6s", 5 * SECOND + 600 * MILLISECOND),
            ("5.s", 5 * SECOND),
            (".5s", 500 * MILLISECOND),
            ("1.004s", SECOND + 4 * MILLISECOND),
            ("100.00100s", 100 * SECOND + MILLISECOND),
            ("10ns", 10),
            ("11us", 11 * MICROSECOND),
            ("12\u{b5}s", 12 * MICROSECOND),
            ("12\u{3bc}s", 12 * MICROSECOND),
            ("200ms", 200 * MILLISECOND),
            ("1h2m3.5s", HOUR + 2 * MINUTE + 3500 * MILLISECOND),
            ("3s1h", HOUR + 3 * SECOND),
            ("10.5s4m", 4 * MINUTE + 10_500 * MILLISECOND),
            ("1.5h", 90 * MINUTE),
            ("0.3333333333333333333h", 20 * MINUTE - 1),
            ("0.100000000000000000000h", 6 * MINUTE),
            ("52763797000ns", 52_763_797_000),
            ("9223372036854775807ns", LONGEST),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_words() {
        let unit = |unit: &str| DurationError::UnknownUnit { unit: unit.into() };
        let missing = |number: &str| DurationError::MissingUnit {
            number: number.into(),
        };
        for (text, expected) in [
            ("", DurationError::Syntax),
            ("+", DurationError::Syntax),
            ("--5s", DurationError::Syntax),
            (" 5s", DurationError::Syntax),
            (".s", DurationError::Syntax),
            (".", DurationError::Syntax),
            ("s", DurationError::Syntax),
            ("\u{660}s", DurationError::Syntax),
            ("3", missing("3")),
            ("1h5", missing("5")),
            ("5s ", unit("s ")),
            ("5S", unit("S")),
            ("2d", unit("d")),
            ("1e3s", unit("e")),
            ("9223372036854775808ns", DurationError::TooLong),
            ("2562048h", DurationError::TooLong),
            (
                "99999999999999999999999999999999999999999h",
                DurationError::TooLong,
            ),
            ("-1ns", DurationError::Negative),
            ("-1h", DurationError::Negative),
        ] {
            assert_eq!(text.parse::<GoDuration>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_as_go_shows_them() {
        for text in [
            "0s",
            "1ns",
            "1.1\u{b5}s",
            "2.2ms",
            "3.3s",
            "4m5s",
            "4m5.001s",
            "5h6m7.001s",
            "8m0.000000001s",
            "1h0m0s",
            "2562047h47m16.854775807s",
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn zero_is_refused_where_something_must_come_after_it() {
        assert_eq!(positive("0"), Err(DurationError::Zero));
        assert_eq!(positive("1ns").unwrap().as_nanos(), 1);
    }

    #[test]
    fn a_duration_is_text_for_serde() {
        let duration: GoDuration = serde_json::from_str("\"90s\"").unwrap();
        assert_eq!(serde_json::to_string(&duration).unwrap(), "\"1m30s\"");
        assert!(serde_json::from_str::<GoDuration>("90").is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(nanoseconds in 0..=i64::MAX as u64) {
            let duration = GoDuration(Duration::from_nanos(nanoseconds));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+.0-9a-zµ ]{0,12}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
