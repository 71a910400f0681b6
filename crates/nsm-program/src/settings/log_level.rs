//! How much is logged.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;

use super::as_text;

/// How much is logged, by the names of the Go components (logrus).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// As `Error`: a panic of ours is always logged.
    Panic,
    /// As `Error`: nothing is logged at a graver level.
    Fatal,
    /// What failed.
    Error,
    /// Also what may need attention.
    Warn,
    /// Also the life of connections.
    Info,
    /// Also each step of a call.
    Debug,
    /// Everything.
    Trace,
}

/// A text that names no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of panic, fatal, error, warn, info, debug, trace")]
pub struct LogLevelError;

impl LogLevel {
    /// The most verbose level of `tracing` that is logged.
    pub fn filter(self) -> LevelFilter {
        match self {
            Self::Panic | Self::Fatal | Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

impl FromStr for LogLevel {
    type Err = LogLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "panic" => Ok(Self::Panic),
            "fatal" => Ok(Self::Fatal),
            "error" => Ok(Self::Error),
            "warn" | "warning" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(LogLevelError),
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Panic => "panic",
            Self::Fatal => "fatal",
            Self::Error => "error",
            Self::Warn => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        })
    }
}

as_text!(LogLevel);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_in_any_case_and_shown_as_they_are_read() {
        for (text, level) in [
            ("panic", LogLevel::Panic),
            ("FATAL", LogLevel::Fatal),
            ("Error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("WARNING", LogLevel::Warn),
            ("INFO", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("tRaCe", LogLevel::Trace),
        ] {
            assert_eq!(text.parse(), Ok(level));
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        for text in ["", "verbose", "info ", "3"] {
            assert_eq!(text.parse::<LogLevel>(), Err(LogLevelError));
        }
    }
}
