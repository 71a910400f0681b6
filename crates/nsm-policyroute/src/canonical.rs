//! Policies on the way to their connections: what an endpoint may publish.

use crate::field::{optional, protocol};
use crate::policy::{Limits, PolicyError, parse};
use ipnet::IpNet;
use nsm_api::connectioncontext::{PolicyRoute, Route};
use std::net::IpAddr;

/// Validates policies that are not yet a connection's, and spells them as every forwarder reads
/// them. The mesh's Go forwarders know no names of protocols and read no address that stands for its
/// prefix: protocols are numbers here, and a source or a destination has its length.
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
///     from: "10.0.0.1".to_owned(),
///     proto: "tcp".to_owned(),
///     ..PolicyRoute::default()
/// };
/// let [policy] = &nsm_policyroute::canonical(&[policy])?[..] else { unreachable!() };
/// assert_eq!((policy.from.as_str(), policy.proto.as_str()), ("10.0.0.1/32", "6"));
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
        let routes = policy.routes.iter().map(|route| Route {
            prefix: with_length(&route.prefix),
            next_hop: route.next_hop.clone(),
        });
        Ok(PolicyRoute {
            from: with_length(&policy.from),
            proto: proto.map_or_else(String::new, |number| number.to_string()),
            routes: routes.collect(),
            ..policy.clone()
        })
    });
    spelled.collect()
}

/// A prefix as it was, and an address alone as the prefix that it is.
fn with_length(text: &str) -> String {
    match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address).to_string(),
        Err(_) => text.to_owned(),
    }
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
    fn an_address_alone_gets_its_length_and_a_prefix_keeps_its_own() {
        let spelled = |from: &str| {
            let routes = vec![Route {
                prefix: from.to_owned(),
                next_hop: String::new(),
            }];
            let policy = PolicyRoute {
                routes,
                ..policy(from, "")
            };
            let policy = canonical(&[policy]).unwrap().remove(0);
            assert_eq!(policy.routes[0].prefix, policy.from);
            policy.from
        };

        assert_eq!(spelled("10.0.0.1"), "10.0.0.1/32");
        assert_eq!(spelled("fd00::1"), "fd00::1/128");
        assert_eq!(spelled("172.16.2.201/24"), "172.16.2.201/24");
        assert_eq!(canonical(&[policy("", "6")]).unwrap()[0].from, "");
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
