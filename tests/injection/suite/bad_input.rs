//! What makes no sense is refused before anything is touched.

use crate::world::{World, policy};
use injection_suite::Answer;
use nsm_api::connectioncontext::{ConnectionContext, IpNeighbor, Route};
use nsm_chain::ErrorKind;

crate::cases![
    nothing_is_touched_for_a_context_that_makes_no_sense,
    a_refresh_with_a_context_that_makes_no_sense_leaves_the_connection_as_it_was,
    names_that_lead_elsewhere_are_refused_before_the_kernel_is_asked,
    names_of_fifteen_bytes_and_of_any_letters_serve,
];

type Spoil = fn(&mut ConnectionContext);

const SPOILED: [Spoil; 7] = [
    |context| context.mtu = 67,
    |context| ip(context).src_ip_addrs.push("172.16.1.2/40".to_owned()),
    // A source that policies would not see either.
    |context| {
        ip(context).src_ip_addrs.push("010.1.0.1/32".to_owned());
        ip(context).policies = vec![policy("")];
    },
    |context| ip(context).dst_ip_addrs.push("224.0.0.5/32".to_owned()),
    |context| {
        ip(context).src_routes.push(Route {
            prefix: "10.0.0.0/8".to_owned(),
            next_hop: "2001:db8::1".to_owned(),
        });
    },
    |context| {
        ip(context).ip_neighbors.push(IpNeighbor {
            ip: "172.16.1.9".to_owned(),
            hardware_address: "x".to_owned(),
        });
    },
    |context| context.ethernet_context.get_or_insert_default().src_mac = "ff".to_owned(),
];

fn ip(context: &mut ConnectionContext) -> &mut nsm_api::connectioncontext::IpContext {
    context.ip_context.get_or_insert_default()
}

async fn nothing_is_touched_for_a_context_that_makes_no_sense() {
    let world = World::new();
    for spoil in SPOILED {
        let mut client = world.client("nsc-0", "nsm-1", 1);
        world
            .far_end
            .change("nsc-0", |answer| spoil(&mut answer.context));
        let quiet = world.quiet();

        let error = client.request(&world.forwarder).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        quiet.was_kept(&world);
    }
}

async fn a_refresh_with_a_context_that_makes_no_sense_leaves_the_connection_as_it_was() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    for spoil in SPOILED {
        let mut good: Option<Answer> = None;
        world.far_end.change("nsc-0", |answer| {
            good = Some(answer.clone());
            spoil(&mut answer.context);
        });
        let quiet = world.quiet();

        client.request(&world.forwarder).await.unwrap_err();

        quiet.was_kept(&world);
        world.far_end.answer("nsc-0", good.unwrap());
    }
    client.request(&world.forwarder).await.unwrap();
}

async fn names_that_lead_elsewhere_are_refused_before_the_kernel_is_asked() {
    let world = World::new();
    let quiet = world.quiet();
    for name in [
        "../../etc",
        "/",
        ".",
        "..",
        "nsm/1",
        "nsm 1",
        " ",
        "nsm\n1",
        "nsm\u{a0}1",
        "0123456789abcdef",
        "01234567890123\u{f6}",
        "all",
        "default",
        "nsm%d",
        "nsm:1",
        // Their last byte is a blank to the kernel.
        "voil\u{e0}",
        "\u{420}",
    ] {
        let mut client = world.client("nsc-0", name, 1);

        let error = client.request(&world.forwarder).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.report().to_string().contains(&format!("{name:?}")));
    }
    quiet.was_kept(&world);
}

async fn names_of_fifteen_bytes_and_of_any_letters_serve() {
    let world = World::new();
    for name in [
        "0123456789abcde",
        "n",
        "...",
        "eth0.100",
        "\u{f6}@\u{e9}",
        "\u{43f}\u{43e}\u{434}",
    ] {
        let client = world.connected("nsc-0", name, 1).await;

        assert_eq!(world.pod.names(), [name]);
        let talks = world
            .pod
            .talks_to("2001:db8:1::2", &world.endpoint, "2001:db8:1::1");
        assert!(talks, "{name}");
        client.close(&world.forwarder).await.unwrap();
        assert!(world.pod.names().is_empty());
    }
}
