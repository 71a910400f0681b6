//! Variables that look like settings and are none.

use std::ffi::OsString;

use tracing::{info, warn};

/// Variables that are settings of other implementations of a program, and why they have no effect
/// here, or what to use.
pub type WithoutEffect = (&'static [&'static str], &'static str);

/// Those that no program has.
const EVERYWHERE: WithoutEffect = (
    &["NSM_PPROF_ENABLED", "NSM_PPROF_LISTEN_ON"],
    "no profile is served",
);

/// A variable that looks like a setting and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The setting that may be meant.
    pub meant: Option<String>,
}

/// Those of the variables that begin as settings do and are not known, by name.
pub(crate) fn unknown(
    known: &[&str],
    variables: impl IntoIterator<Item = OsString>,
) -> Vec<UnknownVariable> {
    let mut unknown: Vec<_> = variables
        .into_iter()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("NSM_") && !known.contains(&name.as_str()))
        .map(|name| UnknownVariable {
            meant: nearest(&name, known),
            name,
        })
        .collect();
    unknown.sort_by(|a, b| a.name.cmp(&b.name));
    unknown
}

/// Says in one line which of the variables have no effect here, and warns about each of the others.
pub(crate) fn report(mut unknown: Vec<UnknownVariable>, elsewhere: &[WithoutEffect]) {
    let known = take_known(&mut unknown, elsewhere.iter().chain([&EVERYWHERE]));
    if !known.is_empty() {
        info!("variables that have no effect here: {}", known.join("; "));
    }
    for variable in unknown {
        match variable.meant {
            Some(meant) => warn!(
                variable = variable.name,
                "unknown variable: {meant} may be meant"
            ),
            None => warn!(variable = variable.name, "unknown variable"),
        }
    }
}

/// Takes out those that are known elsewhere, and names them with the reason.
fn take_known<'a>(
    unknown: &mut Vec<UnknownVariable>,
    elsewhere: impl Iterator<Item = &'a WithoutEffect>,
) -> Vec<String> {
    let mut known = Vec::new();
    for (variables, why) in elsewhere {
        let is_known = |it: &mut UnknownVariable| variables.contains(&it.name.as_str());
        let names: Vec<_> = unknown.extract_if(.., is_known).map(|it| it.name).collect();
        if !names.is_empty() {
            known.push(format!("{} ({why})", names.join(", ")));
        }
    }
    known
}

/// The name that differs by so little that it may have been meant.
fn nearest(name: &str, known: &[&str]) -> Option<String> {
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    let nearest = known.iter().min_by_key(|known| distance(known))?;
    // The prefix is no likeness.
    let letters = name.len().saturating_sub("NSM_".len());
    (distance(nearest) <= (letters / 3).max(1)).then(|| (*nearest).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_told_with_what_may_be_meant() {
        let variables = [
            "NSM_REQUEST_TIMEOUT",
            "NSM_REQEUST_TIMEOUT",
            "NSM_SOMETHING",
            "NSM_",
            "PATH",
            "nsm_name",
        ];

        let unknown = unknown(
            &["NSM_NAME", "NSM_REQUEST_TIMEOUT", "TELEMETRY"],
            variables.map(OsString::from),
        );

        let expected = |name: &str, meant: Option<&str>| UnknownVariable {
            name: name.to_owned(),
            meant: meant.map(str::to_owned),
        };
        assert_eq!(
            unknown,
            [
                expected("NSM_", None),
                expected("NSM_REQEUST_TIMEOUT", Some("NSM_REQUEST_TIMEOUT")),
                expected("NSM_SOMETHING", None),
            ]
        );
    }

    #[test]
    fn those_that_are_known_elsewhere_are_told_together_with_the_reason() {
        let elsewhere: [WithoutEffect; 3] = [
            (&["NSM_BRIDGE", "NSM_PORT", "NSM_ID"], "there is no bridge"),
            (&["NSM_DNS"], "names are not resolved"),
            (&["NSM_OTHER"], "it is not set"),
        ];
        let variables = ["NSM_DNS", "NSM_PORT", "NSM_BRIDGE", "NSM_SOMETHING"];
        let mut unknown = unknown(&["NSM_NAME"], variables.map(OsString::from));

        let known = take_known(&mut unknown, elsewhere.iter());

        assert_eq!(
            known,
            [
                "NSM_BRIDGE, NSM_PORT (there is no bridge)",
                "NSM_DNS (names are not resolved)",
            ]
        );
        assert_eq!(unknown.len(), 1);
        assert_eq!(unknown[0].name, "NSM_SOMETHING");
    }
}
