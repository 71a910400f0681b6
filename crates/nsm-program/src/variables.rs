//! Variables that look like settings and are none.

use std::ffi::OsString;

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
}
