//! Whether and how the client feels that its connections carry packets.

use nsm_program::settings::{GoDuration, parse_bool, positive};

/// Whether and how the client pings through its connections, to ask for another endpoint when
/// nothing comes back.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Liveness")]
pub struct LivenessSettings {
    /// Whether connections are pinged through
    #[arg(
        long,
        env = "NSM_LIVENESS_CHECK_ENABLED",
        value_name = "BOOL",
        default_value = "true",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool
    )]
    pub liveness_check_enabled: bool,

    /// How long after an answer the next is asked for
    #[arg(
        long,
        env = "NSM_LIVENESS_CHECK_INTERVAL",
        value_name = "DURATION",
        default_value = "200ms",
        value_parser = positive
    )]
    pub liveness_check_interval: GoDuration,

    /// How long an answer may take; three that are missing in a row count
    #[arg(
        long,
        env = "NSM_LIVENESS_CHECK_TIMEOUT",
        value_name = "DURATION",
        default_value = "1s",
        value_parser = positive
    )]
    pub liveness_check_timeout: GoDuration,
}
