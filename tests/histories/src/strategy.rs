//! Which histories there are, and how often.

use crate::content::{Content, Pick, SELECTORS};
use crate::play::History;
use crate::small_world::CONNECTIONS;
use crate::step::{Deleted, Foreign, ForeignHop, LeftBehind, LinkEvent, LookAlike, Step};
use nsm_netlink::fault::Effect;
use nsm_netlink::{Errno, Family, OpKind};
use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;
use std::time::Duration;

/// Histories of at most so many steps.
pub fn histories(steps: usize) -> impl Strategy<Value = History> {
    let fail_closed = prop_oneof![4 => Just(false), 1 => Just(true)];
    (fail_closed, vec(step(), 1..=steps))
        .prop_map(|(fail_closed, steps)| History { fail_closed, steps })
}

fn step() -> BoxedStrategy<Step> {
    prop_oneof![
        20 => (connection(), content())
            .prop_map(|(connection, content)| Step::Request { connection, content }),
        16 => connection().prop_map(|connection| Step::Refresh { connection }),
        6 => connection().prop_map(|connection| Step::Close { connection }),
        4 => prop_oneof![2 => Just(false), 1 => Just(true)]
            .prop_map(|links_lost| Step::Restart { links_lost }),
        8 => (0..3_usize, link_event()).prop_map(|(link, event)| Step::Link { link, event }),
        4 => (0..2_usize, family(), any::<bool>())
            .prop_map(|(link, family, there)| Step::Address { link, family, there }),
        8 => deleted().prop_map(Step::Deleted),
        10 => foreign().prop_map(Step::Foreign),
        3 => (0..16_usize).prop_map(|which| Step::ForeignGone { which }),
        5 => left_behind().prop_map(Step::LeftBehind),
        7 => fault(),
        7 => select(&[5_u64, 14, 15, 20, 40][..])
            .prop_map(|minutes| Step::Wait(Duration::from_secs(60 * minutes))),
    ]
    .boxed()
}

/// The first connections more often, so that others meet them.
fn connection() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..2_usize, 3 => 0..CONNECTIONS.len()]
}

fn family() -> impl Strategy<Value = Family> {
    select(&Family::ALL[..])
}

fn content() -> impl Strategy<Value = Content> {
    let sources = prop_oneof![3 => Just(&Family::ALL[..]), 1 => Just(&Family::ALL[..1])];
    let policies = prop_oneof![1 => vec(policy(), 0..=0), 12 => vec(policy(), 1..=3)];
    (prop_oneof![3 => Just(0), 2 => Just(1)], sources, policies).prop_map(
        |(link, sources, policies)| Content {
            link,
            sources,
            policies,
        },
    )
}

fn policy() -> impl Strategy<Value = Pick> {
    let selector = prop_oneof![2 => 0..2_usize, 3 => 0..SELECTORS.len()];
    (
        selector,
        family(),
        weighted(0.6, 0..3_usize),
        weighted(0.3, 0..3_usize),
    )
        .prop_map(|(selector, family, default, narrow)| Pick {
            selector,
            family,
            default,
            narrow,
        })
}

fn link_event() -> impl Strategy<Value = LinkEvent> {
    use LinkEvent::{Deleted, Down, Flapped, Remade, Up};
    prop_oneof![
        1 => Just(Deleted),
        4 => Just(Remade),
        2 => Just(Down),
        3 => Just(Flapped),
        4 => Just(Up),
    ]
}

fn deleted() -> impl Strategy<Value = Deleted> {
    let which = || 0..8_usize;
    prop_oneof![
        3 => which().prop_map(|which| Deleted::Rule { which }),
        3 => which().prop_map(|which| Deleted::Route { which }),
        2 => which().prop_map(|which| Deleted::TableFlushed { which }),
        2 => Just(Deleted::RulesFlushed),
    ]
}

fn foreign() -> impl Strategy<Value = Foreign> {
    let how = select(
        &[
            LookAlike::Before,
            LookAlike::Unmarked,
            LookAlike::OutOfRange,
        ][..],
    );
    let hop = prop_oneof![
        1 => Just(ForeignHop::None),
        2 => (0..2_usize).prop_map(ForeignHop::Ours),
        3 => Just(ForeignHop::Own),
    ];
    let route = (family(), 0..8_usize, weighted_bool(3, 1), 0..3_usize, hop);
    prop_oneof![
        4 => (0..8_usize, how).prop_map(|(which, how)| Foreign::LookAlike { which, how }),
        2 => (family(), 0..8_usize)
            .prop_map(|(family, table)| Foreign::RuleOnTable { family, table }),
        5 => route.prop_map(|(family, table, default, link, hop)| Foreign::Route {
            family, table, default, link, hop
        }),
        1 => family().prop_map(|family| Foreign::MarkedElsewhere { family }),
    ]
}

fn left_behind() -> impl Strategy<Value = LeftBehind> {
    let route = of((0..2_usize, 0..3_usize));
    (
        0..10_usize,
        0..8_usize,
        weighted_bool(2, 1),
        weighted_bool(1, 6),
        route,
    )
        .prop_map(|(which, table, in_place, conditional, route)| LeftBehind {
            which,
            table,
            in_place,
            conditional,
            route,
        })
}

fn fault() -> impl Strategy<Value = Step> {
    use OpKind::{AddRoute, AddRule, DelRoute, DelRule, DumpLinks, DumpRoutes, DumpRules};
    let write = || select(&[AddRule, AddRoute, DelRule, DelRoute][..]);
    let dump = || prop_oneof![3 => Just(DumpRules), 2 => Just(DumpRoutes), 1 => Just(DumpLinks)];
    // Not those that say that what is asked for is so already.
    let errno = || {
        use Errno::{EBUSY, EINVAL, ENETDOWN, ENOBUFS, ENOMEM, EPERM};
        select(&[EPERM, ENOMEM, EBUSY, EINVAL, ENOBUFS, ENETDOWN][..]).prop_map(Effect::Errno)
    };
    let kill = select(&[Effect::KillBefore, Effect::KillAfter][..]);
    prop_oneof![
        6 => (write(), 1..4_usize, errno()),
        4 => (prop_oneof![write(), dump()], 1..4_usize, Just(Effect::LostAck)),
        3 => (dump(), 1..5_usize, errno()),
        3 => (write(), 1..3_usize, kill),
    ]
    .prop_map(|(op, nth, effect)| Step::Fault { op, nth, effect })
}

fn weighted_bool(yes: u32, no: u32) -> impl Strategy<Value = bool> {
    prop_oneof![yes => Just(true), no => Just(false)]
}
