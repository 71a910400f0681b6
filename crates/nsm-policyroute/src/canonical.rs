//! Policies on the way to their connections: what an endpoint may publish.

use crate::field::{optional, protocol};
use crate::policy::{Limits, PolicyError, parse};
use nsm_api::connectioncontext::PolicyRoute;

/// Validates policies that are not yet a connection's, and spells them as every forwarder reads
/// them: protocols are numbers, whose names the mesh's Go forwarders do not know.
///
/// What depends on the connection is left open: it counts as having a source address of each
/// family, and the limits are the defaults.
///
/// # Errors
/// The first policy and field that this middleware would refuse.
///
/// ```
/// use nsm_api::connectioncontext::PolicyRoute;
///
/// let policy = PolicyRoute {
///     proto: "tcp".to_owned(),
///     dst_port: "80".to_owned(),
///     ..PolicyRoute::default()
/// };
/// let [policy] = &nsm_policyroute::canonical(&[policy])?[..] else { unreachable!() };
/// assert_eq!(policy.proto, "6");
/// # Ok::<(), nsm_policyroute::PolicyError>(())
/// ```
pub fn canonical(policies: &[PolicyRoute]) -> Result<Vec<PolicyRoute>, PolicyError> {
    // Of the prefixes for documentation (RFC 5737, RFC 3849): no policy can depend on them.
    let sources = ["192.0.2.1", "2001:db8::1"].map(str::to_owned);
    parse(policies, &sources, &Limits::DEFAULT)?;
    let spelled = policies.iter().enumerate().map(|(index, policy)| {
        let proto = optional(&policy.proto, protocol).map_err(|reason| PolicyError {
            index,
            field: "proto".to_owned(),
            reason,
        })?;
        Ok(PolicyRoute {
            proto: proto.map_or_else(String::new, |number| number.to_string()),
            ..policy.clone()
        })
    });
    spelled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(from: &str, proto: &str) -> PolicyRoute {
        PolicyRoute {
            from: from.to_owned(),
            proto: proto.to_owned(),
            ..PolicyRoute::default()
        }
    }

    #[test]
    fn a_protocol_is_spelled_as_its_number_and_all_else_as_it_was() {
        let spelled = |proto: &str| {
            let mut policies = canonical(&[policy("172.16.2.201/24", proto)]).unwrap();
            let policy = policies.pop().unwrap();
            assert_eq!(policy.from, "172.16.2.201/24");
            policy.proto
        };

        assert_eq!(spelled("UDP"), "17");
        assert_eq!(spelled("06"), "6");
        assert_eq!(spelled(""), "");
    }

    #[test]
    fn what_only_the_connection_can_tell_is_no_error() {
        assert_eq!(
            canonical(&[policy("", "6"), policy("", "")]).unwrap().len(),
            2
        );
    }

    #[test]
    fn a_policy_that_the_middleware_would_refuse_is_refused() {
        let error = canonical(&[policy("10.0.0.1", ""), policy("10.0.0.1", "262")]).unwrap_err();

        assert_eq!((error.index, error.field.as_str()), (1, "proto"));
    }
}
