//! Random lives of a namespace against a model of what has to stand at each moment.

use crate::cases;
use policyroute_suite::{Draft, Machine, Pod, PolicyDraft, Process, connection, policy};
use std::collections::{BTreeMap, BTreeSet};

cases![whatever_happens_what_the_claims_want_stands_and_nothing_else];

const LIVES: u64 = 12;
const STEPS: usize = 40;
const LINKS: [&str; 3] = ["nsm-0", "nsm-1", "nsm-2"];

async fn whatever_happens_what_the_claims_want_stands_and_nothing_else<M: Machine>(pod: Pod<M>) {
    LINKS.iter().for_each(|link| pod.add_link(link));
    let before = pod.snapshot().rules;
    for seed in 1..=LIVES {
        let mut life = Life::new(&pod, seed);
        for step in 0..STEPS {
            life.step().await;
            life.holds(step);
        }
        life.end().await;
        assert_eq!(pod.snapshot().rules, before, "seed {seed}");
        assert_eq!(pod.our_routes(), [], "seed {seed}");
    }
}

/// What can be selected: how a rule of it reads, whether it is IPv4, and the policy.
fn selected(which: usize) -> (&'static str, bool, PolicyDraft) {
    let [v4, v6] = ["10.1.0.1", "2001:db8::1"].map(|from| policy().from(from));
    match which {
        0 => ("31745: from 10.1.0.1", true, v4),
        1 => (
            "31734: from 10.1.0.1 ipproto tcp dport 443",
            true,
            v4.tcp(443),
        ),
        2 => (
            "32033: from 10.2.0.0/16",
            true,
            policy().from("10.2.0.7/16"),
        ),
        3 => ("30017: from 2001:db8::1", false, v6),
        _ => (
            "30006: from 2001:db8::1 ipproto udp dport 53",
            false,
            v6.udp(53),
        ),
    }
}

/// Where it can lead: prefixes as they are written and as they read, and next hops.
fn led(v4: bool, which: usize) -> &'static [(&'static str, &'static str, &'static str)] {
    match (v4, which) {
        (true, 0) => &[("0.0.0.0/0", "default", "172.16.1.1")],
        (true, 1) => &[("0.0.0.0/0", "default", "")],
        (true, _) => &[
            ("0.0.0.0/0", "default", "172.16.1.2"),
            ("10.9.8.7/16", "10.9.0.0/16", ""),
        ],
        (false, 0) => &[("::/0", "default", "fe80::1")],
        (false, 1) => &[("::/0", "default", "::")],
        (false, _) => &[
            ("::/0", "default", "fe80::2"),
            ("2001:db8:9::/48", "2001:db8:9::/48", ""),
        ],
    }
}

/// A connection as it was requested last: its interface, and what it selects with where it leads.
#[derive(Debug, Clone)]
struct Claim {
    id: usize,
    link: usize,
    policies: BTreeMap<usize, usize>,
}

impl Claim {
    fn draft(&self) -> Draft {
        let policies = self.policies.iter().map(|(selector, content)| {
            let (_, v4, policy) = selected(*selector);
            let routes = led(v4, *content).iter();
            routes.fold(policy, |policy, (prefix, _, via)| policy.route(prefix, via))
        });
        connection(&format!("c{}", self.id))
            .by(LINKS[self.link])
            .policies(policies)
    }
}

struct Life<'p, M: Machine> {
    pod: &'p Pod<M>,
    process: Process<M>,
    /// In the order in which they were made.
    claims: Vec<Claim>,
    seed: u64,
    random: u64,
}

impl<'p, M: Machine> Life<'p, M> {
    fn new(pod: &'p Pod<M>, seed: u64) -> Self {
        let process = Process::start(pod);
        Self {
            pod,
            process,
            claims: Vec::new(),
            seed,
            random: seed,
        }
    }

    async fn step(&mut self) {
        match self.below(10) {
            0..4 => self.request().await,
            4 => self.close().await,
            5 => {
                let link = LINKS[self.below(LINKS.len())];
                self.pod.remake_link(link);
                self.refresh().await;
            }
            6 => {
                let rules = self.pod.our_rules();
                if !rules.is_empty() {
                    self.pod.delete_rule(&rules[self.below(rules.len())]);
                }
                self.refresh().await;
            }
            7 => {
                let routes = self.pod.our_routes();
                if !routes.is_empty() {
                    self.pod.delete_route(&routes[self.below(routes.len())]);
                }
                self.refresh().await;
            }
            8 => self.restart().await,
            _ => {
                self.refresh().await;
                self.pod.asked.take();
                self.refresh().await;
                assert_eq!(self.pod.asked.take().writes(), 0, "seed {}", self.seed);
            }
        }
    }

    /// A first request, or one that changes what a connection wants.
    async fn request(&mut self) {
        let (id, link) = (self.below(4), self.below(LINKS.len()));
        let count = 1 + self.below(4);
        let policies = (0..count).map(|_| (self.below(5), self.below(3))).collect();
        let claim = Claim { id, link, policies };
        self.process.request(&claim.draft()).await.unwrap();
        match self.claims.iter_mut().find(|other| other.id == id) {
            Some(other) => *other = claim,
            None => self.claims.push(claim),
        }
    }

    async fn close(&mut self) {
        if !self.claims.is_empty() {
            let claim = {
                let at = self.below(self.claims.len());
                self.claims.remove(at)
            };
            self.process.close(&claim.draft()).await.unwrap();
        }
    }

    async fn refresh(&mut self) {
        if !self.claims.is_empty() {
            let at = self.below(self.claims.len());
            let claim = &self.claims[at];
            self.process.request(&claim.draft()).await.unwrap();
        }
    }

    /// All come back, in any order.
    async fn restart(&mut self) {
        self.process = Process::start(self.pod);
        let mut away = std::mem::take(&mut self.claims);
        while !away.is_empty() {
            let claim = away.remove(self.below(away.len()));
            self.process.request(&claim.draft()).await.unwrap();
            self.claims.push(claim);
        }
    }

    async fn end(&mut self) {
        while !self.claims.is_empty() {
            self.close().await;
        }
        assert_eq!(self.process.namespaces_held(), 0, "seed {}", self.seed);
    }

    /// Holds what stands against what the claims want together: of two that want a prefix
    /// differently the later one holds it.
    #[track_caller]
    fn holds(&self, step: usize) {
        let mut wanted: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
        for claim in &self.claims {
            for (selector, content) in &claim.policies {
                let (rule, v4, _) = selected(*selector);
                let table = wanted.entry(rule).or_default();
                for (_, prefix, via) in led(v4, *content) {
                    let via = match *via {
                        "" | "::" => String::new(),
                        via => format!(" via {via}"),
                    };
                    table.insert(prefix, format!("{prefix}{via} dev {}", LINKS[claim.link]));
                }
            }
        }
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut tables = BTreeSet::new();
        let lines = self.pod.ours();
        for line in &lines {
            let (rule, rest) = line.split_once(" -> ").unwrap_or(("", line));
            let (table, routes) = rest.split_once(": ").unwrap_or((rest, ""));
            assert!(
                tables.insert(table),
                "{self:?} step {step}: a shared table in {lines:#?}"
            );
            let other = found.insert(rule, routes.split(", ").collect());
            assert_eq!(
                other, None,
                "{self:?} step {step}: a double rule in {lines:#?}"
            );
        }
        let wanted: BTreeMap<&str, BTreeSet<&str>> = wanted
            .iter()
            .map(|(rule, table)| (*rule, table.values().map(String::as_str).collect()))
            .collect();
        assert_eq!(found, wanted, "{self:?} step {step}");
    }

    /// A number below a limit: a step of a linear congruential generator (Knuth's MMIX).
    fn below(&mut self, limit: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.random >> 33) as usize % limit
    }
}

impl<M: Machine> std::fmt::Debug for Life<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}, claims {:?}", self.seed, self.claims)
    }
}
