//! Policies, and which connections they are for.

use std::collections::BTreeMap;
use std::sync::Arc;

use nsm_api::connectioncontext::PolicyRoute;

/// The labels of a connection, or those that a policy is for.
pub(super) type Labels = BTreeMap<String, String>;

/// A policy of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Policy {
    /// It is for connections that have all of these.
    pub(super) labels: Labels,
    /// As it goes onto the wire.
    pub(super) policy: PolicyRoute,
}

/// Whether there are all of these labels, with these values.
pub(super) fn contains(labels: &Labels, all: &Labels) -> bool {
    all.iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

/// Policies that every forwarder can install, in the order of their file, each for all connections
/// or for those with certain labels. Cheap to clone.
///
/// The file is a YAML list (`NSM_PBR_CONFIG_PATH`):
///
/// ```
/// use nsm_endpoint::PolicyList;
///
/// let text = "
/// - from: 172.16.2.201/24
///   proto: tcp
///   dstport: 6666
///   routes:
///   - prefix: 172.16.3.0/24
///     nexthop: 172.16.2.200
/// - { proto: 17, dstport: 6667-6670, labels: { app: voice, tier: 1 } }
/// ";
/// let list = PolicyList::parse("config.yaml", text)?;
/// let voice = [("app", "voice"), ("tier", "1"), ("zone", "a")];
/// let voice = voice.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
/// assert_eq!(list.policies_for(&voice).count(), 2);
///
/// let no_labels = Default::default();
/// let mut others = list.policies_for(&no_labels);
/// assert_eq!(others.next().unwrap().proto, "6");
/// assert_eq!(others.next(), None);
///
/// let wrong = PolicyList::parse("config.yaml", "- { proto: 17, dstPort: 80 }").unwrap_err();
/// assert!(wrong.to_string().starts_with("config.yaml:1:16: unknown field `dstPort`"));
/// # Ok::<(), nsm_endpoint::PolicyFileError>(())
/// ```
///
/// Values are text or numbers, protocols names or numbers. An empty file has no policies. A key
/// that there is not, an item or a value that is missing, and a value that no forwarder can
/// install are errors: a policy with less in it than was meant takes more traffic than was meant.
/// Policies that are equal are one.
///
/// A policy with `labels` is for connections that have all of these, with these values; one without
/// is for all. A connection gets every policy that is for it, and a forwarder takes no more than
/// 1024 of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyList(Arc<[Policy]>);

impl PolicyList {
    /// Those of a file. One that comes along with an equal one in any case is left out.
    pub(super) fn new(policies: Vec<Policy>) -> Self {
        let comes_along = |(index, policy): &(usize, &Policy)| {
            let others = policies.iter().enumerate();
            let mut equal = others.filter(|(_, other)| other.policy == policy.policy);
            equal.any(|(at, other)| {
                contains(&policy.labels, &other.labels)
                    && (at < *index || other.labels != policy.labels)
            })
        };
        let kept = policies.iter().enumerate().filter(|it| !comes_along(it));
        Self(kept.map(|(_, policy)| policy.clone()).collect())
    }

    /// The policies of a connection with these labels, as they go onto the wire.
    pub fn policies_for(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> impl Iterator<Item = &PolicyRoute> {
        let selected = self.0.iter().filter(|it| contains(labels, &it.labels));
        selected.map(|it| &it.policy)
    }

    /// How many policies there are, whomever they are for.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
