//! Behaviours of `update_path`, for clients and servers alike.

use chain_suite::{connection, path, request, send};
use nsm_api::connection::Connection;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::{BoxNetworkService, Call, Error, ErrorKind, UpdatePathLayer};
use tower::ServiceBuilder;

/// A hop named `nse`, and what comes out below it.
fn nse() -> (BoxNetworkService, Recorder) {
    let below = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(UpdatePathLayer::new("nse"))
        .layer(below.clone())
        .service(echo());
    (chain, below)
}

/// What the hop passes on, and what it answers.
async fn through_nse(connection: Connection) -> Result<(Connection, Connection), Error> {
    let (chain, below) = nse();
    let answer = send(&chain, request(connection)).await?;
    Ok((below.last().connection().clone(), answer))
}

fn with_path(id: &str, index: u32, segments: &[(&str, &str)]) -> Connection {
    Connection {
        path: Some(path(index, segments)),
        ..connection(id)
    }
}

#[tokio::test]
async fn a_connection_without_path_and_id_gets_both() {
    let (passed, answer) = through_nse(Connection::default()).await.unwrap();

    assert!(!passed.id.is_empty());
    assert_eq!(passed.path, Some(path(0, &[("nse", &passed.id)])));
    assert_eq!(answer, passed);
}

#[tokio::test]
async fn a_connection_without_path_keeps_its_id() {
    let (passed, answer) = through_nse(connection("mine")).await.unwrap();

    assert_eq!(passed, with_path("mine", 0, &[("nse", "mine")]));
    assert_eq!(answer, passed);
}

#[tokio::test]
async fn two_connections_without_id_get_different_ones() {
    let (one, _) = through_nse(Connection::default()).await.unwrap();
    let (other, _) = through_nse(Connection::default()).await.unwrap();

    assert_ne!(one.id, other.id);
}

#[tokio::test]
async fn at_its_own_segment_a_hop_takes_the_id_from_the_path() {
    let segments = [("nsc", "a"), ("nse", "b"), ("next", "c")];

    let (passed, answer) = through_nse(with_path("other", 1, &segments)).await.unwrap();

    assert_eq!(passed, with_path("b", 1, &segments));
    assert_eq!(answer, passed);
}

#[tokio::test]
async fn an_id_that_contradicts_the_path_is_refused_and_goes_no_further() {
    let (chain, below) = nse();
    let contradiction = with_path("other", 0, &[("nsc", "a")]);

    for call in [request(contradiction.clone()), Call::close(contradiction)] {
        let error = send(&chain, call).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.element(), "update_path");
    }
    assert!(below.calls().is_empty());
}

#[tokio::test]
async fn an_index_past_the_path_is_refused_and_goes_no_further() {
    let (chain, below) = nse();

    for index in [1, 2, u32::MAX] {
        let beyond = with_path("a", index, &[("nsc", "a")]);
        let error = send(&chain, request(beyond)).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.element(), "update_path");
    }
    assert!(below.calls().is_empty());
}

#[tokio::test]
async fn a_path_that_is_too_long_is_refused_and_goes_no_further() {
    let (chain, below) = nse();
    let of = |length| with_path("a", 0, &vec![("nsc", "a"); length]);

    for call in [request(of(65)), Call::close(of(65))] {
        let error = send(&chain, call).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let words = "the path has 65 segments, and 64 are the most";
        assert!(error.report().to_string().contains(words));
    }
    assert!(below.calls().is_empty());
    send(&chain, request(of(64))).await.unwrap();
}

#[tokio::test]
async fn a_next_segment_of_another_name_is_renamed_and_gets_a_new_id() {
    let segments = [("nsc", "a"), ("former", "b"), ("next", "c")];

    let (passed, answer) = through_nse(with_path("a", 0, &segments)).await.unwrap();

    let renamed = [("nsc", "a"), ("nse", passed.id.as_str()), ("next", "c")];
    assert_ne!(passed.id, "b");
    assert_eq!(passed.path, Some(path(1, &renamed)));
    assert_eq!(answer, with_path("a", 0, &renamed));
}

#[tokio::test]
async fn a_path_that_ends_before_the_hop_gets_a_segment() {
    let (passed, answer) = through_nse(with_path("a", 0, &[("nsc", "a")]))
        .await
        .unwrap();

    let appended = [("nsc", "a"), ("nse", passed.id.as_str())];
    assert!(!passed.id.is_empty());
    assert_eq!(passed.path, Some(path(1, &appended)));
    assert_eq!(answer, with_path("a", 0, &appended));
}

#[tokio::test]
async fn a_next_segment_of_the_hops_name_is_the_hops_own() {
    let segments = [("nsc", "a"), ("nse", "b"), ("next", "c")];

    let (passed, answer) = through_nse(with_path("a", 0, &segments)).await.unwrap();

    assert_eq!(passed, with_path("b", 1, &segments));
    assert_eq!(answer, with_path("a", 0, &segments));
}

#[tokio::test]
async fn a_hop_that_is_restarted_under_its_name_gives_the_same_id() {
    let (first, answer) = through_nse(with_path("a", 0, &[("nsc", "a")]))
        .await
        .unwrap();

    let (again, _) = through_nse(answer).await.unwrap();

    assert_eq!(again.id, first.id);
}

#[tokio::test]
async fn a_client_chain_of_the_hops_name_adds_no_segment() {
    let below = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(UpdatePathLayer::new("nse"))
        .layer(UpdatePathLayer::new("nse"))
        .layer(below.clone())
        .service(echo());

    let answer = send(&chain, request(with_path("a", 0, &[("nsc", "a")])))
        .await
        .unwrap();

    let passed = below.last().connection().clone();
    let path = passed.path.unwrap();
    assert_eq!((path.index, path.path_segments.len()), (1, 2));
    assert_eq!((answer.id.as_str(), answer.path.unwrap().index), ("a", 0));
}

#[tokio::test]
async fn a_close_moves_on_in_the_same_way_and_is_answered_as_it_went_down() {
    let (chain, below) = nse();
    let segments = [("nsc", "a"), ("nse", "b")];

    let closed = send(&chain, Call::close(with_path("a", 0, &segments)))
        .await
        .unwrap();

    assert_eq!(*below.last().connection(), with_path("b", 1, &segments));
    assert_eq!(closed, with_path("b", 1, &segments));
}
