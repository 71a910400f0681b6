//! The values that settings have, in the syntax of the mesh's Go components.
//!
//! Each is read with [`FromStr`](std::str::FromStr), shown with [`Display`](std::fmt::Display) in a
//! form that is read as the same again, and is text for serde. So a field of such a type is all
//! that clap needs:
//!
//! ```
//! use clap::Parser;
//! use nsm_program::settings::{GoDuration, List, Map, ServiceUrl, parse_bool, positive};
//!
//! #[derive(Parser)]
//! struct Config {
//!     /// How long dialling may take
//!     #[arg(long, env = "NSM_DIAL_TIMEOUT", default_value = "5s", value_parser = positive)]
//!     dial_timeout: GoDuration,
//!
//!     /// Labels of this client
//!     #[arg(long, env = "NSM_LABELS", default_value = "")]
//!     labels: Map,
//!
//!     /// What to connect to
//!     #[arg(long, env = "NSM_NETWORK_SERVICES", default_value = "")]
//!     network_services: List<ServiceUrl>,
//!
//!     /// Whether policies are installed
//!     #[arg(
//!         long,
//!         env = "NSM_POLICY_ROUTE",
//!         default_value = "true",
//!         default_missing_value = "true",
//!         num_args = 0..=1,
//!         require_equals = true,
//!         action = clap::ArgAction::Set,
//!         value_parser = parse_bool,
//!     )]
//!     policy_route: bool,
//! }
//!
//! let config = Config::parse_from(["nsc", "--dial-timeout=200ms", "--policy-route=F"]);
//! assert_eq!(config.dial_timeout.as_millis(), 200);
//! assert!(!config.policy_route);
//! ```

mod boolean;
mod collection;
mod duration;
mod host_port;
mod log_level;
mod service_url;

pub use boolean::{BoolError, parse_bool};
pub use collection::{List, ListError, Map, MapError};
pub use duration::{DurationError, GoDuration, positive};
pub use host_port::{HostPort, HostPortError, ListenOn};
pub use log_level::{LogLevel, LogLevelError};
pub use service_url::{ServiceUrl, ServiceUrlError};

/// Makes a type that has `FromStr` and `Display` text for serde.
macro_rules! as_text {
    ($type:ident $(<$($parameter:tt : $bound:path),*; $(const $constant:ident: $kind:ty)?>)?) => {
        impl $(<$($parameter: $bound,)* $(const $constant: $kind)?>)? serde::Serialize
            for $type $(<$($parameter,)* $($constant)?>)?
        where
            Self: std::fmt::Display,
        {
            fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de, $($($parameter: $bound,)* $(const $constant: $kind)?)?> serde::Deserialize<'de>
            for $type $(<$($parameter,)* $($constant)?>)?
        where
            Self: std::str::FromStr<Err: std::fmt::Display>,
        {
            fn deserialize<Z: serde::Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
use as_text;
