//! What an event of the hop behind says of one connection of ours.

use nsm_api::connection::{Connection, ConnectionEvent, ConnectionEventType, PathSegment, State};

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing of the connection.
    Nothing,
    /// That it is in this state.
    State(State),
    /// That it is not known there, or was closed.
    Unknown,
}

/// What an event of the hop behind says of the connection whose path has that segment of ours.
pub(crate) fn heard(event: &ConnectionEvent, own: &PathSegment) -> Heard {
    let of_ours = event.connections.values().find(|it| has(it, own));
    match (event.r#type(), of_ours) {
        (ConnectionEventType::Delete, Some(_)) => Heard::Unknown,
        (ConnectionEventType::InitialStateTransfer, None) => Heard::Unknown,
        (_, None) => Heard::Nothing,
        (_, Some(connection)) => Heard::State(connection.state()),
    }
}

/// Whether a connection goes through our segment, and comes to the hop that tells of it from there:
/// that hop has the segment behind ours, or is in a process of ours that shares it.
fn has(connection: &Connection, own: &PathSegment) -> bool {
    let Some(path) = &connection.path else {
        return false;
    };
    let mut segments = path.path_segments.iter();
    let ours = segments.position(|it| it.id == own.id && it.name == own.name);
    let index = path.index as usize;
    ours.is_some_and(|ours| index == ours || index == ours + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connection::Path;

    fn segment(name: &str) -> PathSegment {
        PathSegment {
            name: name.to_owned(),
            id: format!("{name}-id"),
            ..PathSegment::default()
        }
    }

    fn event(kind: ConnectionEventType, told: Option<(u32, State)>) -> ConnectionEvent {
        let connection = told.map(|(index, state)| Connection {
            id: "there".to_owned(),
            state: state.into(),
            path: Some(Path {
                index,
                path_segments: ["nsc", "forwarder", "nse", "far"].map(segment).into(),
            }),
            ..Connection::default()
        });
        ConnectionEvent {
            r#type: kind.into(),
            connections: connection
                .into_iter()
                .map(|it| (it.id.clone(), it))
                .collect(),
        }
    }

    #[test]
    fn an_event_speaks_of_our_connection_if_our_segment_leads_to_the_hop_that_tells() {
        use ConnectionEventType::{Delete, InitialStateTransfer, Update};
        for (kind, told, says) in [
            (Update, Some((2, State::Down)), Heard::State(State::Down)),
            (Update, Some((1, State::Up)), Heard::State(State::Up)),
            (Update, Some((3, State::Down)), Heard::Nothing),
            (Update, Some((0, State::Down)), Heard::Nothing),
            (Update, None, Heard::Nothing),
            (
                InitialStateTransfer,
                Some((2, State::RefreshRequested)),
                Heard::State(State::RefreshRequested),
            ),
            (InitialStateTransfer, None, Heard::Unknown),
            (Delete, Some((2, State::Up)), Heard::Unknown),
            (Delete, None, Heard::Nothing),
        ] {
            let event = event(kind, told);
            assert_eq!(heard(&event, &segment("forwarder")), says, "{event:?}");
        }
        let of_another = event(Update, Some((2, State::Down)));
        let stranger = PathSegment {
            id: "other".to_owned(),
            ..segment("forwarder")
        };
        assert_eq!(heard(&of_another, &stranger), Heard::Nothing);
    }
}
