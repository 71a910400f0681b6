//! The hops around the one that handles a message.
//!
//! The index comes from a peer and may point anywhere: where it points past the segments there
//! is no hop, and the answer is `None`.

use crate::connection::{Connection, Path, PathSegment};

impl Path {
    /// The hop before this one, towards the client. The client's own hop has none.
    pub fn previous_segment(&self) -> Option<&PathSegment> {
        self.segment(self.index.checked_sub(1)?)
    }

    /// The hop that handles the message now.
    pub fn current_segment(&self) -> Option<&PathSegment> {
        self.segment(self.index)
    }

    /// The hop after this one, towards the endpoint. It is known once that hop has answered.
    pub fn next_segment(&self) -> Option<&PathSegment> {
        self.segment(self.index.checked_add(1)?)
    }

    fn segment(&self, index: u32) -> Option<&PathSegment> {
        self.path_segments.get(usize::try_from(index).ok()?)
    }
}

/// An absent path has no segments.
impl Connection {
    /// [`Path::previous_segment`] of the connection's path.
    pub fn previous_segment(&self) -> Option<&PathSegment> {
        self.path.as_ref()?.previous_segment()
    }

    /// [`Path::current_segment`] of the connection's path.
    pub fn current_segment(&self) -> Option<&PathSegment> {
        self.path.as_ref()?.current_segment()
    }

    /// [`Path::next_segment`] of the connection's path.
    pub fn next_segment(&self) -> Option<&PathSegment> {
        self.path.as_ref()?.next_segment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the previous, current and next hop of the path nsc, nsmgr, nse.
    fn around(index: u32) -> [Option<String>; 3] {
        let segment = |name: &str| PathSegment {
            name: name.to_owned(),
            ..PathSegment::default()
        };
        let path = Path {
            index,
            path_segments: ["nsc", "nsmgr", "nse"].map(segment).into(),
        };
        let connection = Connection {
            path: Some(path),
            ..Connection::default()
        };
        [
            connection.previous_segment(),
            connection.current_segment(),
            connection.next_segment(),
        ]
        .map(|segment| segment.map(|segment| segment.name.clone()))
    }

    #[test]
    fn the_index_tells_the_hops_around() {
        let names = |names: [&str; 3]| names.map(|n| (n != "-").then(|| n.to_owned()));
        assert_eq!(around(0), names(["-", "nsc", "nsmgr"]));
        assert_eq!(around(1), names(["nsc", "nsmgr", "nse"]));
        assert_eq!(around(2), names(["nsmgr", "nse", "-"]));
    }

    #[test]
    fn an_index_past_the_segments_points_at_nothing() {
        // Just behind the last segment, that one is still the previous hop.
        assert_eq!(around(3), [Some("nse".to_owned()), None, None]);
        assert_eq!(around(4), [None, None, None]);
        assert_eq!(around(u32::MAX), [None, None, None]);
    }

    #[test]
    fn an_absent_or_empty_path_has_no_hops() {
        for path in [None, Some(Path::default())] {
            let connection = Connection {
                path,
                ..Connection::default()
            };
            assert_eq!(connection.previous_segment(), None);
            assert_eq!(connection.current_segment(), None);
            assert_eq!(connection.next_segment(), None);
        }
    }
}
