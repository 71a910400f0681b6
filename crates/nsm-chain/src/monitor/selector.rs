//! Which connections a subscriber hears of.

use nsm_api::connection::{Connection, MonitorScopeSelector, PathSegment};

/// Selects the connection of that segment: what a hop watches at the hop behind is its own segment.
pub fn of_segment(segment: &PathSegment) -> MonitorScopeSelector {
    MonitorScopeSelector {
        path_segments: vec![PathSegment {
            name: segment.name.clone(),
            id: segment.id.clone(),
            ..PathSegment::default()
        }],
        network_services: Vec::new(),
    }
}

/// Whether a selector selects a connection: its segments follow one another somewhere in the path,
/// where an empty name, id or token fits any, and its service is one of those that are named. What
/// is empty selects all.
pub fn selects(selector: &MonitorScopeSelector, connection: &Connection) -> bool {
    let services = &selector.network_services;
    if !services.is_empty() && !services.contains(&connection.network_service) {
        return false;
    }
    let wanted = selector.path_segments.as_slice();
    if wanted.is_empty() {
        return true;
    }
    let path = connection.path.as_ref();
    let segments = path.map_or(&[][..], |path| path.path_segments.as_slice());
    segments.windows(wanted.len()).any(|window| {
        let mut pairs = wanted.iter().zip(window);
        pairs.all(|(wanted, segment)| fits(wanted, segment))
    })
}

fn fits(wanted: &PathSegment, segment: &PathSegment) -> bool {
    let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
    fits(&wanted.name, &segment.name)
        && fits(&wanted.id, &segment.id)
        && fits(&wanted.token, &segment.token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connection::Path;

    fn segment(name: &str, id: &str) -> PathSegment {
        PathSegment {
            name: name.to_owned(),
            id: id.to_owned(),
            ..PathSegment::default()
        }
    }

    fn selector(segments: &[(&str, &str)], services: &[&str]) -> MonitorScopeSelector {
        MonitorScopeSelector {
            path_segments: segments
                .iter()
                .map(|(name, id)| segment(name, id))
                .collect(),
            network_services: services.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    #[test]
    fn segments_follow_one_another_and_an_empty_field_fits_any() {
        let hops = [("nsc", "a"), ("forwarder", "b"), ("nse", "c")];
        let connection = Connection {
            network_service: "smtp".to_owned(),
            path: Some(Path {
                index: 1,
                path_segments: hops.map(|(name, id)| segment(name, id)).into(),
            }),
            ..Connection::default()
        };
        for (segments, services, selected) in [
            (&[][..], &[][..], true),
            (&[], &["smtp"], true),
            (&[], &["http", "smtp"], true),
            (&[], &["http"], false),
            (&[("nsc", "a")], &[], true),
            (&[("", "b")], &[], true),
            (&[("nse", "")], &["smtp"], true),
            (&[("nse", "")], &["http"], false),
            (&[("nsc", "b")], &[], false),
            (&[("nsc", ""), ("", "b"), ("nse", "")], &[], true),
            (&[("nsc", ""), ("nse", "")], &[], false),
            (&[("", ""), ("", ""), ("", ""), ("", "")], &[], false),
        ] {
            let selector = selector(segments, services);
            assert_eq!(selects(&selector, &connection), selected, "{selector:?}");
        }
        let without_path = Connection::default();
        assert!(selects(&selector(&[], &[]), &without_path));
        assert!(!selects(&selector(&[("", "")], &[]), &without_path));
    }
}
