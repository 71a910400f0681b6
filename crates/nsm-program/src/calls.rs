//! The settings of calls and policies that are the same in several programs.

use crate::settings::{GoDuration, parse_bool, positive};

/// How long calls take, and what they ask for stands. A program takes them in with
/// `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
pub struct Calls {
    /// How long a call may take that does not say so itself, and all closes at the end
    #[arg(
        long,
        env = "NSM_REQUEST_TIMEOUT",
        value_name = "DURATION",
        default_value = "15s",
        value_parser = positive
    )]
    pub request_timeout: GoDuration,

    /// How long this program stands for a connection that is not asked for again; clients ask again
    /// when a fifth of that is over
    //
    // A manager's default: it is what the next hop goes by, and the Go forwarder, which has 24h,
    // has a manager between itself and the endpoint.
    #[arg(
        long,
        env = "NSM_MAX_TOKEN_LIFETIME",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = positive
    )]
    pub max_token_lifetime: GoDuration,
}

/// What becomes of policies that cannot be followed. A program that installs policies takes them in
/// with `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
pub struct PolicyRules {
    /// How long a rule of ours that nobody asks for stays once it is dead
    #[arg(
        long,
        env = "NSM_POLICY_ROUTE_GRACE",
        value_name = "DURATION",
        default_value = "15m"
    )]
    pub policy_route_grace: GoDuration,

    /// Whether a policy's traffic is refused while its interface is gone, instead of leaving by
    /// another one
    #[arg(
        long,
        env = "NSM_POLICY_ROUTE_FAIL_CLOSED",
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool,
    )]
    pub policy_route_fail_closed: bool,
}
