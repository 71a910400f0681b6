//! Services that are aware of each other.

use std::fmt;
use std::str::FromStr;

use nsm_chain::excluded_prefixes::Member;
use nsm_program::settings::{List, ListError, ServiceUrl, ServiceUrlError};
use thiserror::Error;

/// Groups of services that may give one client the same addresses: `[URL,URL],[URL]`. The empty text
/// is no group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwarenessGroups(Vec<List<ServiceUrl>>);

/// Why a text is no list of groups.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AwarenessGroupsError {
    /// Something else than a group in brackets.
    #[error("{0:?} is no group in brackets: [URL,URL],[URL] is wanted")]
    Brackets(String),
    /// A group that cannot be read.
    #[error("group {place}")]
    Group {
        /// The group, counted from 1.
        place: usize,
        /// What is wrong with it.
        #[source]
        source: ListError<ServiceUrlError>,
    },
}

impl AwarenessGroups {
    /// The same, for connections.
    pub fn members(&self) -> impl Iterator<Item = Vec<Member>> {
        let member = |url: &ServiceUrl| Member {
            network_service: url.network_service().to_owned(),
            mechanism: url.mechanism().map(str::to_owned),
            interface: url.interface().map(|name| name.as_str().to_owned()),
            labels: url.labels().clone(),
        };
        let groups = self.0.iter();
        groups.map(move |group| group.iter().map(member).collect())
    }
}

impl FromStr for AwarenessGroups {
    type Err = AwarenessGroupsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |rest: &str| AwarenessGroupsError::Brackets(rest.to_owned());
        let mut groups = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let inside = rest.strip_prefix('[').and_then(|it| it.split_once(']'));
            let (group, behind) = inside.ok_or_else(|| wrong(rest))?;
            let place = groups.len() + 1;
            let group = group
                .parse()
                .map_err(|source| AwarenessGroupsError::Group { place, source })?;
            groups.push(group);
            let behind = behind.trim_start();
            rest = match behind.strip_prefix(',') {
                Some(next) if !next.trim_start().is_empty() => next.trim_start(),
                None if behind.is_empty() => "",
                _ => return Err(wrong(behind)),
            };
        }
        Ok(Self(groups))
    }
}

impl fmt::Display for AwarenessGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, group) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { "," };
            write!(f, "{separator}[{group}]")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_chain::ErrorChain;

    #[test]
    fn groups_are_lists_in_brackets() {
        let text = "[kernel://a/nsm-1?app=web,b@c],[d]";
        let groups: AwarenessGroups = " [kernel://a/nsm-1?app=web, b@c] , [d] ".parse().unwrap();

        assert_eq!(groups.to_string(), text);
        let members: Vec<_> = groups.members().collect();
        assert_eq!(members.len(), 2);
        assert_eq!(members[0][0].mechanism.as_deref(), Some("KERNEL"));
        assert_eq!(members[0][0].interface.as_deref(), Some("nsm-1"));
        assert_eq!(members[0][0].labels["app"], "web");
        assert_eq!(members[0][1].network_service, "b@c");
        assert_eq!("".parse(), Ok(AwarenessGroups::default()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("a,b", "\"a,b\" is no group in brackets"),
            ("[a],b", "\"b\" is no group in brackets"),
            ("[a", "\"[a\" is no group in brackets"),
            ("[a],", "\",\" is no group in brackets"),
            ("[a][b]", "\"[b]\" is no group in brackets"),
            ("[a],[b#]", "group 2: item 1 of the list, \"b#\""),
        ] {
            let error = text.parse::<AwarenessGroups>().unwrap_err();
            let error = ErrorChain(&error).to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
