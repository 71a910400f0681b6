//! Calls that are wrong in one thing, and what is to be answered.

use e2e::{Mesh, RawPeer, Sent, assert_status, first_request, mechanism_of};
use nsm_api::connection::{Mechanism, PathSegment};
use nsm_api::mechanism::{INTERFACE_NAME, NETNS_URL};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_netlink::Netns;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use tonic::Code::{
    self, FailedPrecondition, Internal, InvalidArgument, NotFound, ResourceExhausted, Unimplemented,
};

/// A bad call, and how it is to be answered.
pub struct Bad<'a> {
    /// What is wrong with it.
    pub what: &'a str,
    sent: Sent<'a>,
    code: Code,
    words: &'a str,
}

impl<'a> Bad<'a> {
    pub fn new(what: &'a str, sent: Sent<'a>, code: Code, words: &'a str) -> Self {
        Self {
            what,
            sent,
            code,
            words,
        }
    }

    /// That it is answered so.
    #[track_caller]
    pub fn is_refused(&self, peer: &RawPeer) {
        let status = peer.call(&self.sent);
        assert_status(self.what, &status, self.code, self.words);
    }
}

/// A request that is changed.
pub fn changed(
    netns: &impl AsFd,
    change: impl FnOnce(&mut NetworkServiceRequest),
) -> Sent<'static> {
    let mut request = first_request("raw-0", netns);
    change(&mut request);
    Sent::request(&request)
}

/// The same, with the change in its path.
fn with_path(netns: &Netns, change: impl FnOnce(&mut u32, &mut Vec<PathSegment>)) -> Sent<'static> {
    changed(netns, |request| {
        let path = request.connection.as_mut().unwrap().path.as_mut().unwrap();
        change(&mut path.index, &mut path.path_segments);
    })
}

/// What every program refuses of a peer. Calls that would be good but for one thing bring the pod.
pub fn bad_everywhere(pod: &Netns) -> Vec<Bad<'_>> {
    let good = || changed(pod, |_| {});
    let expires = "nsm-client-token-expires";
    let unending = || good().with(pod).header("nsm-client-token", "");
    let mut too_large = good();
    too_large.body = vec![0, 0xff, 0xff, 0xff, 0xff];
    let mut cut = good();
    cut.body.truncate(7);
    let mut compressed = good();
    compressed.body[0] = 1;
    let thousands = with_path(pod, |_, segments| {
        segments.resize_with(5000, PathSegment::default);
    });
    let beyond = with_path(pod, |index, _| *index = 7);
    let contradiction = with_path(pod, |_, segments| segments[0].id = "other".to_owned());
    let memif = changed(pod, |request| {
        "MEMIF".clone_into(&mut mechanism_of(request).r#type);
    });
    let unknown = changed(pod, |request| {
        "smtp".clone_into(&mut request.connection.as_mut().unwrap().network_service);
    });
    let name = changed(pod, |request| {
        let parameters = &mut mechanism_of(request).parameters;
        parameters.insert(INTERFACE_NAME.to_owned(), "../../etc".to_owned());
    });
    let no_mechanism = changed(pod, |request| request.mechanism_preferences.clear());
    let method = Sent::bytes("/networkservice.NetworkService/Ask", &[]);
    let service = Sent::bytes("/registry.NetworkServiceRegistry/Find", &[]);
    let garbage = Sent::bytes(e2e::REQUEST, &[0xff; 64]);
    let garbage_close = Sent::bytes(e2e::CLOSE, &[0xff; 64]);
    vec![
        Bad::new("garbage", garbage, Internal, "decode"),
        Bad::new("garbage to close", garbage_close, Internal, "decode"),
        Bad::new("half a message", cut, Internal, "EOF"),
        Bad::new("compressed", compressed, Internal, "compress"),
        Bad::new("4 GiB", too_large, ResourceExhausted, "too large"),
        Bad::new("method", method, Unimplemented, ""),
        Bad::new("registry", service, Unimplemented, "is not served here"),
        Bad::new("5000 hops", thousands, InvalidArgument, "64 are the most"),
        Bad::new(
            "index",
            beyond,
            InvalidArgument,
            "outside of the 1 segments",
        ),
        Bad::new(
            "id",
            contradiction,
            InvalidArgument,
            "and in its path \"other\"",
        ),
        Bad::new("memif", memif.with(pod), InvalidArgument, "MEMIF"),
        Bad::new(
            "no mechanism",
            no_mechanism,
            InvalidArgument,
            "no mechanism",
        ),
        Bad::new("service", unknown.with(pod), NotFound, "\"smtp\""),
        Bad::new("name", name.with(pod), InvalidArgument, "../../etc"),
        Bad::new(
            "timeout",
            good().header("grpc-timeout", "soon"),
            InvalidArgument,
            "grpc-timeout",
        ),
        Bad::new(
            "no token",
            unending(),
            InvalidArgument,
            "nsm-client-token is missing",
        ),
        Bad::new(
            "no end",
            unending().header(expires, ""),
            InvalidArgument,
            "has not said when",
        ),
        Bad::new(
            "bad end",
            good().with(pod).header(expires, "soon"),
            InvalidArgument,
            "RFC 3339",
        ),
        Bad::new(
            "never sent",
            good().header("grpc-timeout", "1S"),
            FailedPrecondition,
            "has sent no descriptor inode://",
        ),
    ]
}

/// What is refused as somebody's network namespace.
pub struct Others {
    file: File,
    socket: UnixStream,
    null: File,
    mount: File,
    own: Netns,
}

impl Others {
    pub fn new(mesh: &Mesh) -> Self {
        Self {
            file: File::create(mesh.file("file")).unwrap(),
            socket: UnixStream::pair().unwrap().0,
            null: File::open("/dev/null").unwrap(),
            mount: File::open("/proc/self/ns/mnt").unwrap(),
            own: Netns::from_fd(&mesh.node).unwrap(),
        }
    }

    /// What a forwarder refuses beside [`bad_everywhere`].
    pub fn bad<'a>(&'a self, pod: &'a Netns) -> Vec<Bad<'a>> {
        fn no_namespace<'a>(what: &'a str, fd: &'a impl AsFd) -> Bad<'a> {
            let sent = changed(fd, |_| {}).with(fd);
            let words = "the file is no namespace: pass /proc/PID/ns/net";
            Bad::new(what, sent, FailedPrecondition, words)
        }
        let mount = changed(&self.mount, |_| {}).with(&self.mount);
        let own = changed(&self.own, |_| {}).with(&self.own);
        let without = |url: Option<&str>| {
            changed(pod, |request| {
                let parameters = &mut mechanism_of(request).parameters;
                parameters.remove(NETNS_URL);
                parameters.extend(url.map(|url| (NETNS_URL.to_owned(), url.to_owned())));
            })
        };
        let nothing = "without the client's network namespace: send its descriptor";
        let of_this_machine = without(Some("file:///proc/1/ns/net"));
        let one_of_two = changed(&self.null, |request| {
            request
                .mechanism_preferences
                .insert(0, Mechanism::default());
        });
        vec![
            no_namespace("file", &self.file),
            no_namespace("socket", &self.socket),
            no_namespace("device", &self.null),
            Bad::new(
                "mount",
                mount,
                FailedPrecondition,
                "of the mount kind: pass /proc/PID/ns/net",
            ),
            Bad::new(
                "own",
                own,
                FailedPrecondition,
                "the forwarder's own network namespace",
            ),
            Bad::new("none", without(None), FailedPrecondition, nothing),
            Bad::new(
                "none named",
                without(None).with(pod),
                FailedPrecondition,
                nothing,
            ),
            Bad::new("path", of_this_machine, FailedPrecondition, nothing),
            Bad::new(
                "the other one is named",
                one_of_two.with(pod).with(&self.null),
                FailedPrecondition,
                "the file is no namespace",
            ),
        ]
    }
}
