//! A history as a scenario file, for whoever has to understand it: `cargo run -p scenarios -- FILE`.

use crate::content::{Content, PolicyText};
use crate::judge::Problem;
use crate::model::Model;
use crate::picture::Picture;
use crate::record::{Record, Write};
use crate::small_world::{CONNECTIONS, LINKS, Who};
use nsm_chain::ErrorKind;
use nsm_netlink::OpKind;
use nsm_netlink::fault::Effect;
use std::fmt::Write as _;
use std::time::Duration;

/// The steps of a history so far, as they were done.
#[derive(Debug, Clone)]
pub struct Script {
    fail_closed: bool,
    steps: Vec<String>,
    /// What the element wrote in the last of them.
    writes: Vec<String>,
}

impl Script {
    /// Nothing has been done yet.
    pub fn new(fail_closed: bool) -> Self {
        Self {
            fail_closed,
            steps: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// An element has worked.
    pub fn wrote(&mut self, record: &Record) {
        let line = |(op, outcome): &Write| match outcome {
            Ok(()) => op.to_string(),
            Err(refusal) => format!("{op}: {refusal}"),
        };
        self.writes = record.writes().map(line).collect();
    }

    /// A connection was asked for. `error` is what it must fail with.
    pub fn request(&mut self, connection: usize, content: &Content, error: Option<ErrorKind>) {
        let policies: Vec<String> = content.policies().iter().map(policy).collect();
        let sources: Vec<String> = content
            .source_addresses()
            .iter()
            .map(|source| quoted(source))
            .collect();
        let fields = format!(
            ", interface: {}, sources: [{}], policies: [{}]",
            content.interface(),
            sources.join(", "),
            policies.join(", ")
        );
        self.call("request", connection, &fields, error);
    }

    /// It was asked for again.
    pub fn refresh(&mut self, connection: usize, error: Option<ErrorKind>) {
        self.call("refresh", connection, "", error);
    }

    /// It was closed.
    pub fn close(&mut self, connection: usize, error: Option<ErrorKind>) {
        self.call("close", connection, "", error);
    }

    fn call(&mut self, call: &str, connection: usize, fields: &str, error: Option<ErrorKind>) {
        let (id, who) = CONNECTIONS[connection];
        let element = if who == Who::First {
            ""
        } else {
            ", element: second"
        };
        let error = error.map(|kind| format!(", error: {}", quoted(&kind.to_string())));
        let error = error.unwrap_or_default();
        self.steps
            .push(format!("{call}: {{ id: {id}{element}{fields}{error} }}"));
    }

    /// Somebody else did something.
    pub fn run(&mut self, commands: &str) {
        let lines: Vec<&str> = commands.lines().collect();
        self.steps.push(match lines.as_slice() {
            [one] => format!("run: {one}"),
            several => format!("run: |\n      {}", several.join("\n      ")),
        });
    }

    /// Both elements started anew.
    pub fn restart(&mut self) {
        self.steps.push("restart: {}".to_owned());
    }

    /// Time passed.
    pub fn wait(&mut self, time: Duration) {
        self.steps.push(format!("wait: {}s", time.as_secs()));
    }

    /// Something is to go wrong in the kernel.
    pub fn fault(&mut self, op: OpKind, nth: usize, effect: Effect) {
        let op = match op {
            OpKind::AddRule => "add_rule",
            OpKind::DelRule => "del_rule",
            OpKind::AddRoute => "add_route",
            OpKind::DelRoute => "del_route",
            OpKind::DumpRules => "dump_rules",
            OpKind::DumpRoutes => "dump_routes",
            OpKind::DumpLinks | OpKind::DumpAddresses | OpKind::DumpNeighbours => "link",
        };
        let effect = match effect {
            Effect::Errno(errno) => format!("errno: {errno:?}"),
            Effect::LostAck => "lost_ack: true".to_owned(),
            Effect::KillBefore => "kill: before".to_owned(),
            Effect::KillAfter => "kill: after".to_owned(),
            other => {
                self.steps.push(format!(
                    "# a fault that no file can say: {other:?} at {op} {nth}"
                ));
                return;
            }
        };
        self.steps.push(format!(
            "fault: {{ op: {op}, nth: {nth}, {effect}, optional: true }}"
        ));
    }

    /// The whole as a file. `problems` are those of the last step, after which this stands.
    pub fn file(&self, problems: &[Problem], first: &Model, after: &Picture) -> String {
        let mut file = String::from("name: a random history that does not hold\nwhy: |\n");
        for line in problems.iter().flat_map(|problem| problem.text.lines()) {
            let _ = writeln!(file, "  {line}");
        }
        for write in &self.writes {
            let _ = writeln!(file, "  # {write}");
        }
        let range = |who: Who| who.owner().tables;
        let _ = writeln!(
            file,
            "config: {{ tables: {}, fail_closed: {} }}",
            range(Who::First),
            self.fail_closed
        );
        let _ = writeln!(file, "links: [{}]\nsteps:", LINKS.join(", "));
        let _ = writeln!(
            file,
            "  - element: {{ name: second, config: {{ protocol: {}, tables: {}, fail_closed: {} }} }}",
            Who::Second.owner().protocol,
            range(Who::Second),
            self.fail_closed
        );
        let (last, former) = self
            .steps
            .split_last()
            .map_or(("", &[][..]), |(l, f)| (l, f));
        for step in former {
            push(&mut file, step);
        }
        push(&mut file, "snapshot: before");
        let idle = problems
            .iter()
            .any(|problem| problem.text.contains("all was right"));
        match idle && !last.starts_with("run") {
            true => push(
                &mut file,
                &format!("watch: {{ events: 0, steps: [ {{ {last} }} ] }}"),
            ),
            false => push(&mut file, last),
        }
        push(&mut file, &expectation(first, after));
        file
    }
}

fn push(file: &mut String, step: &str) {
    let bullet = if step.starts_with('#') { "" } else { "- " };
    let _ = writeln!(file, "  {bullet}{step}");
}

/// What of the first element must stand in the end, as far as claims say it.
fn expectation(model: &Model, picture: &Picture) -> String {
    let claims = model.claims();
    let mut policies = Vec::new();
    for selector in claims.selectors() {
        let content = claims.content(selector, picture);
        if content.is_empty() || selector.from.is_none() {
            // Without a `from` a file cannot say the family.
            continue;
        }
        let routes = content.iter().map(|(prefix, (dev, via))| {
            let via = via.map(|via| format!(" via {via}")).unwrap_or_default();
            let dev = picture.link_name(*dev).unwrap_or_default();
            quoted(&format!("{prefix}{via} dev {dev}"))
        });
        let field = |name: &str, value: Option<String>| {
            value
                .map(|value| format!(", {name}: {}", quoted(&value)))
                .unwrap_or_default()
        };
        policies.push(format!(
            "{{ from: {}{}{}, routes: [{}] }}",
            quoted(&selector.from.map(|net| net.to_string()).unwrap_or_default()),
            field("proto", selector.proto.map(|proto| proto.to_string())),
            field("dstport", selector.dport.map(|ports| ports.to_string())),
            routes.collect::<Vec<_>>().join(", ")
        ));
    }
    if policies.is_empty() {
        return "# What the problem says must not be so.".to_owned();
    }
    format!(
        "expect:\n      policies:\n        - {}",
        policies.join("\n        - ")
    )
}

fn policy(policy: &PolicyText) -> String {
    let mut fields: Vec<String> = [
        ("from", &policy.from),
        ("proto", &policy.proto),
        ("dstport", &policy.dstport),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| format!("{name}: {}", quoted(value)))
    .collect();
    let routes: Vec<String> = policy
        .routes
        .iter()
        .map(|(prefix, hop)| match hop.as_str() {
            "" => format!("{{ prefix: {} }}", quoted(prefix)),
            hop => format!("{{ prefix: {}, nexthop: {} }}", quoted(prefix), quoted(hop)),
        })
        .collect();
    if !routes.is_empty() {
        fields.push(format!("routes: [{}]", routes.join(", ")));
    }
    format!("{{ {} }}", fields.join(", "))
}

/// Colons in IPv6 addresses mean something in YAML.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
