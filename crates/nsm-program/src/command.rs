//! The command line: every setting is a variable and a flag.
//!
//! A program declares its settings with clap, each with `env = "NSM_..."` and a flag of the same
//! meaning. From that declaration, and so for every setting, [`configure`] gives
//!
//! * errors of one line, and exit status 2;
//! * `--print-config`: the configuration as it is in effect, one `NSM_X=value` a line;
//! * the variables of the environment that look like settings and are none.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Parser};
use nsm_chain::ErrorChain;

use crate::variables::{self, UnknownVariable};

/// The status of a program that was given settings that it cannot work with.
pub const USAGE: u8 = 2;

/// Variables of the mesh's components that do not begin as all others do.
const WITHOUT_PREFIX: [&str; 4] = ["CLUSTER_NAME", "NODE_NAME", "POD_NAME", "TELEMETRY"];

const PRINT_CONFIG: &str = "print-config";

const STATUSES: &str = "Exit status: 0 when it has ended well, 1 when it cannot go on (for example, \
    when another process listens at its socket), could not close what it had, or has not ended in \
    time, 2 for settings that it \
    cannot work with, 130 when a second signal has ended it at once";

/// A configuration, and what the environment has besides.
#[derive(Debug)]
pub struct Configured<C> {
    /// The configuration.
    pub config: C,
    /// Variables that look like settings and are none.
    pub unknown: Vec<UnknownVariable>,
}

/// What a program's command line and environment ask for.
#[derive(Debug)]
pub enum Asked<C> {
    /// To run.
    Run(Configured<C>),
    /// To print this, and no more: a help, a version, the configuration.
    Print(String),
    /// Nothing that can be done, for this reason, of one line.
    Refused(String),
}

/// Reads the settings of this process.
///
/// What is to be printed is printed, to standard output, and what is wrong is said in one line on
/// standard error.
///
/// # Errors
///
/// The status to end with: success after something was printed, [`USAGE`] after something was
/// wrong.
pub fn configure<C: Parser>() -> Result<Configured<C>, ExitCode> {
    let variables = std::env::vars_os().map(|(name, _)| name);
    match read::<C>(std::env::args_os(), variables) {
        Asked::Run(configured) => Ok(configured),
        Asked::Print(text) => {
            use std::io::Write as _;
            // Whoever reads it may have seen enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            Err(ExitCode::SUCCESS)
        }
        Asked::Refused(reason) => {
            eprintln!("{reason}");
            Err(ExitCode::from(USAGE))
        }
    }
}

/// Reads settings from arguments, the program's name first, and from the environment of the
/// process. `variables` are the names in which unknown settings are looked for.
pub fn read<C: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    variables: impl IntoIterator<Item = OsString>,
) -> Asked<C> {
    let mut command = command::<C>();
    let program = command.get_name().to_owned();
    let matches = match command.try_get_matches_from_mut(arguments) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return Asked::Print(error.render().to_string()),
        Err(error) => return Asked::Refused(one_line(&program, &command, &error)),
    };
    let config = match C::from_arg_matches(&matches) {
        Ok(config) => config,
        Err(error) => return Asked::Refused(one_line(&program, &command, &error)),
    };
    if matches.get_flag(PRINT_CONFIG) {
        return Asked::Print(effective(&command, &matches));
    }
    let known: Vec<_> = command.get_arguments().filter_map(variable).collect();
    let unknown = variables::unknown(&known, variables);
    Asked::Run(Configured { config, unknown })
}

/// What is missing in the declaration of a program's settings, one line for each. A program's tests
/// expect nothing.
///
/// Each setting has a variable, a flag, and a help. The variable begins with `NSM_`, but for those
/// few that do not in the mesh's other components either.
pub fn omissions<C: CommandFactory>() -> Vec<String> {
    let mut command = C::command();
    command.build();
    let mut missing = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if ["help", "version"].contains(&id) {
            continue;
        }
        let variable = variable(argument);
        let is_ours = |name: &str| name.starts_with("NSM_") || WITHOUT_PREFIX.contains(&name);
        if !variable.is_some_and(is_ours) {
            missing.push(format!("{id} has no variable NSM_..."));
        }
        if argument.get_long().is_none() {
            missing.push(format!("{id} has no flag"));
        }
        if argument.get_help().is_none() {
            missing.push(format!("{id} has no help"));
        }
    }
    missing
}

fn command<C: Parser>() -> Command {
    let print_config = Arg::new(PRINT_CONFIG)
        .long(PRINT_CONFIG)
        .action(ArgAction::SetTrue)
        .help("Print the configuration that is in effect, as variables, and exit");
    C::command()
        .styles(Styles::plain())
        .arg(print_config)
        .after_help(STATUSES)
}

/// The configuration in effect, as clap has it: from flags, variables and defaults.
fn effective(command: &Command, matches: &ArgMatches) -> String {
    let mut text = String::new();
    for argument in command.get_arguments() {
        let Some(variable) = variable(argument) else {
            continue;
        };
        let line = match matches.get_raw(argument.get_id().as_str()) {
            Some(values) => {
                let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
                format!("{variable}={}", on_one_line(&values.join(",")))
            }
            None => format!("# {variable} is not set"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

fn variable(argument: &Arg) -> Option<&str> {
    argument.get_env()?.to_str()
}

/// An error of clap on one line, with the variable that it is about.
fn one_line(program: &str, command: &Command, error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let about = text(ContextKind::InvalidArg).and_then(|flag| {
        let of = |argument: &&Arg| argument.to_string() == flag;
        command.get_arguments().find(of)
    });
    if let (ErrorKind::ValueValidation | ErrorKind::InvalidValue, Some(argument)) =
        (error.kind(), about)
    {
        let names = match (variable(argument), argument.get_long()) {
            (Some(variable), Some(flag)) => format!("{variable} (--{flag})"),
            _ => argument.to_string(),
        };
        let value = text(ContextKind::InvalidValue).unwrap_or_default();
        let why = match (
            std::error::Error::source(error),
            error.get(ContextKind::ValidValue),
        ) {
            (Some(source), _) => ErrorChain(source).to_string(),
            (None, Some(ContextValue::Strings(values))) => format!("one of {}", values.join(", ")),
            (None, _) => "a value is wanted".to_owned(),
        };
        return format!(
            "{program}: {names} cannot be {value:?}: {}",
            on_one_line(&why)
        );
    }
    let rendered = error.render().to_string();
    let first = rendered.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let words: Vec<_> = first.split_whitespace().collect();
    format!(
        "{program}: {} (--help tells what there is)",
        words.join(" ")
    )
}

/// Shows what would end or garble a line by its escape.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{GoDuration, List, positive};

    #[derive(Debug, Parser)]
    #[command(name = "sample", version)]
    struct Sample {
        /// The name
        #[arg(long, env = "NSM_SAMPLE_NAME", default_value = "sample")]
        name: String,
        /// How long to wait
        #[arg(long, env = "NSM_SAMPLE_TIMEOUT", default_value = "5s", value_parser = positive)]
        timeout: GoDuration,
        /// Durations
        #[arg(long, env = "NSM_SAMPLE_LIST", default_value = "")]
        list: List<GoDuration>,
        /// A file
        #[arg(long, env = "NSM_SAMPLE_FILE")]
        file: Option<String>,
        /// How to tell
        #[arg(long, env = "NSM_SAMPLE_FORMAT", default_value = "text", value_parser = ["text", "json"])]
        format: String,
    }

    fn asked(arguments: &[&str]) -> Asked<Sample> {
        let arguments = ["sample"].iter().chain(arguments).map(OsString::from);
        read(arguments, ["NSM_SAMPLE_LOST".into()])
    }

    fn refusal(arguments: &[&str]) -> String {
        match asked(arguments) {
            Asked::Refused(reason) => reason,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    fn printed(arguments: &[&str]) -> String {
        match asked(arguments) {
            Asked::Print(text) => text,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line_that_names_the_setting() {
        for (arguments, words) in [
            (
                &["--timeout=5"][..],
                "sample: NSM_SAMPLE_TIMEOUT (--timeout) cannot be \"5\": a unit is missing after 5 (ns, us, ms, s, m, h)",
            ),
            (
                &["--timeout=-5s"],
                "sample: NSM_SAMPLE_TIMEOUT (--timeout) cannot be \"-5s\": below zero",
            ),
            (
                &["--list=1s,2d"],
                "sample: NSM_SAMPLE_LIST (--list) cannot be \"1s,2d\": item 2 of the list, \"2d\": unknown unit \"d\" (ns, us, ms, s, m, h)",
            ),
            (
                &["--timeout=a\nb"],
                "sample: NSM_SAMPLE_TIMEOUT (--timeout) cannot be \"a\\nb\": no duration, such as 300ms, 1.5h or 1h2m3.5s",
            ),
            (
                &["--format=xml"],
                "sample: NSM_SAMPLE_FORMAT (--format) cannot be \"xml\": one of text, json",
            ),
            (
                &["--tiemout=5s"],
                "sample: unexpected argument '--tiemout' found (--help tells what there is)",
            ),
            (
                &["more"],
                "sample: unexpected argument 'more' found (--help tells what there is)",
            ),
        ] {
            assert_eq!(refusal(arguments), words);
        }
        assert!(!refusal(&["--name"]).contains('\n'));
    }

    #[test]
    fn the_configuration_in_effect_is_printed_as_variables() {
        assert_eq!(
            printed(&["--print-config", "--timeout=1m", "--name=a\nb"]),
            "NSM_SAMPLE_NAME=a\\nb\n\
             NSM_SAMPLE_TIMEOUT=1m\n\
             NSM_SAMPLE_LIST=\n\
             # NSM_SAMPLE_FILE is not set\n\
             NSM_SAMPLE_FORMAT=text\n"
        );
    }

    #[test]
    fn a_bad_value_is_refused_before_the_configuration_is_printed() {
        assert!(refusal(&["--print-config", "--timeout=0"]).ends_with("must be more than zero"));
    }

    #[test]
    fn help_and_version_are_printed() {
        let help = printed(&["--help"]);
        for words in [
            "How long to wait",
            "[env: NSM_SAMPLE_TIMEOUT=]",
            "--print-config",
            "Exit status: 0",
        ] {
            assert!(help.contains(words), "{help}");
        }
        assert!(printed(&["--version"]).starts_with("sample "));
    }

    #[test]
    fn what_is_left_of_the_environment_comes_with_the_configuration() {
        let Asked::Run(configured) = asked(&["--timeout=1m"]) else {
            panic!("not configured");
        };

        assert_eq!(configured.config.timeout.as_secs(), 60);
        assert_eq!(configured.unknown.len(), 1);
        assert_eq!(configured.unknown[0].name, "NSM_SAMPLE_LOST");
    }

    #[test]
    fn a_declaration_that_lacks_something_is_told() {
        #[derive(Debug, Parser)]
        struct Careless {
            #[arg(env = "OTHER")]
            _place: Option<String>,
        }

        assert!(omissions::<Sample>().is_empty());
        assert_eq!(
            omissions::<Careless>(),
            [
                "_place has no variable NSM_...",
                "_place has no flag",
                "_place has no help"
            ]
        );
    }
}
