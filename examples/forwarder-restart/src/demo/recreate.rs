//! The recovery that policyroute is held against: what stands is deleted and made anew.
//!
//! It does what forwarders did when the fault was reported. Rules are recognised by their selector
//! alone, whoever made them; they are deleted by it alone, and their tables are emptied; each policy
//! gets the lowest table that looks free, and a rule without a priority. Connections do this at the
//! same time, and nothing keeps them apart.

use nsm_api::connection::Connection;
use nsm_api::connectioncontext::PolicyRoute;
use nsm_chain::{
    BoxError, BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready,
};
use nsm_netlink::{
    Errno, Family, Kernel, KernelError, Namespace, Netns, Op, Placement, Refusal, Route, Rtnl,
    Rule, Selector,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use tower::{Layer, Service};

/// The mark of whoever does not mark what he makes (`RTPROT_UNSPEC`).
const UNMARKED: u8 = 0;
/// `RTPROT_BOOT`: what routes without a mark get from the usual libraries.
const BOOT: u8 = 3;
/// The tables that are handed out: small ids, which others like too.
const TABLES: RangeInclusive<u32> = 1..=252;

/// Puts [`Recreate`] into a chain.
#[derive(Debug, Clone)]
pub struct RecreateLayer {
    pod: Arc<Pod>,
}

/// Where policies are installed.
#[derive(Debug)]
struct Pod {
    netns: Netns,
    /// Stands for the kernel's own lock: each of its requests is one step, and some of them are
    /// taken in several here.
    request: Mutex<()>,
}

impl RecreateLayer {
    /// Installs policies in this pod.
    pub fn new(netns: Netns) -> Self {
        Self {
            pod: Arc::new(Pod {
                netns,
                request: Mutex::new(()),
            }),
        }
    }
}

impl<S> Layer<S> for RecreateLayer {
    type Service = Recreate<S>;

    fn layer(&self, inner: S) -> Recreate<S> {
        Recreate {
            pod: Arc::clone(&self.pod),
            inner,
        }
    }
}

/// Makes rules and tables of the policies of each answer, after it has deleted those that stand.
#[derive(Debug, Clone)]
pub struct Recreate<S> {
    pod: Arc<Pod>,
    inner: S,
}

impl<S: NetworkService> Service<Call> for Recreate<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let pod = Arc::clone(&self.pod);
        let requested = matches!(call.operation, Operation::Request(_));
        Box::pin(async move {
            let connection = inner.call(call).await?;
            if !requested {
                return Ok(connection);
            }
            let work = tokio::task::spawn_blocking(move || {
                install(&pod, &connection).map(|()| connection)
            });
            let done = work
                .await
                .map_err(|lost| Error::new(ErrorKind::Internal, "recreate", lost))?;
            done.map_err(|error| Error::new(ErrorKind::Internal, "recreate", error))
        })
    }
}

fn install(pod: &Pod, connection: &Connection) -> Result<(), BoxError> {
    let name = connection
        .kernel_mechanism()
        .and_then(|it| it.interface_name());
    let mut kernel = pod.netns.open()?;
    let device = kernel.index_of(name.unwrap_or_default())?;
    let policies = connection
        .policies()
        .iter()
        .map(|policy| wanted(policy, device));
    let policies: Vec<Wanted> = policies.collect::<Result<_, _>>()?;
    let mut recreation = Recreation {
        kernel,
        request: &pod.request,
    };
    recreation.forget(&policies)?;
    for policy in &policies {
        recreation.create(policy)?;
    }
    Ok(())
}

/// A policy with a source, as those of the demo are.
struct Wanted {
    selector: Selector,
    /// Of table 0, as long as it has none.
    routes: Vec<Route>,
}

fn wanted(policy: &PolicyRoute, device: u32) -> Result<Wanted, BoxError> {
    let from = policy.from.parse()?;
    let selector = Selector {
        from: Some(from),
        ..Selector::any(Family::of_net(&from))
    };
    let mut routes = Vec::new();
    for route in &policy.routes {
        let via = Some(route.next_hop.parse()?);
        routes.push(Route::unicast(0, route.prefix.parse()?, device, via, BOOT));
    }
    Ok(Wanted { selector, routes })
}

/// The rules and tables of one connection, made anew.
///
/// `nsm-netlink` names the full identity of what it deletes, the priority of what it adds, and
/// replaces nothing. Where the recovery leaves that to the kernel, what the kernel would choose is
/// read first and named then.
struct Recreation<'a> {
    kernel: Rtnl,
    request: &'a Mutex<()>,
}

impl Recreation<'_> {
    /// Deletes the rules that look like those of the policies, and empties their tables.
    fn forget(&mut self, policies: &[Wanted]) -> Result<(), KernelError> {
        let mut found = BTreeMap::new();
        for policy in policies {
            let family = policy.selector.family;
            for rule in self.kernel.rules(family)?.items {
                if rule.selector == policy.selector {
                    // Of two rules that look up one table, one is forgotten.
                    found.insert((family, rule.table), &policy.selector);
                }
            }
        }
        for ((family, table), selector) in found {
            self.delete_first(selector)?;
            for route in self.kernel.routes(family, table..=table)?.items {
                self.write(Op::DelRoute(route))?;
            }
        }
        Ok(())
    }

    /// Makes a table, then the rule that looks it up.
    fn create(&mut self, policy: &Wanted) -> Result<(), KernelError> {
        let table = self.lowest_free_table()?;
        // Whoever waits has a turn between one request to the kernel and the next.
        thread::yield_now();
        for route in &policy.routes {
            self.replace(&Route {
                table,
                ..route.clone()
            })?;
        }
        self.add(policy.selector.clone(), table)
    }

    /// The lowest id that no rule looks up at the moment.
    fn lowest_free_table(&mut self) -> Result<u32, KernelError> {
        let mut taken = BTreeSet::new();
        for family in Family::ALL {
            taken.extend(
                self.kernel
                    .rules(family)?
                    .items
                    .iter()
                    .map(|rule| rule.table),
            );
        }
        let free = TABLES.into_iter().find(|id| !taken.contains(id));
        Ok(free.unwrap_or(*TABLES.end()))
    }

    /// `RTM_DELRULE` with no more than a selector takes the first rule that agrees in that.
    fn delete_first(&mut self, selector: &Selector) -> Result<(), KernelError> {
        let _one_request = lock(self.request);
        let rules = self.kernel.rules(selector.family)?.items;
        let first = rules
            .into_iter()
            .find(|rule| rule.selector.from == selector.from);
        first.map_or(Ok(()), |rule| self.write(Op::DelRule(rule)))
    }

    /// `RTM_NEWRULE` without a priority gets one less than the second rule has
    /// (`fib_default_rule_pref`, net/core/fib_rules.c).
    fn add(&mut self, selector: Selector, table: u32) -> Result<(), KernelError> {
        let _one_request = lock(self.request);
        let rules = self.kernel.rules(selector.family)?.items;
        let priority = rules
            .get(1)
            .map_or(0, |second| second.priority.saturating_sub(1));
        self.write(Op::AddRule(Rule::lookup(
            priority, selector, table, UNMARKED,
        )))
    }

    /// `RTM_NEWROUTE` with `NLM_F_REPLACE` takes the place of whatever stands for the prefix.
    fn replace(&mut self, route: &Route) -> Result<(), KernelError> {
        let _one_request = lock(self.request);
        let standing = self
            .kernel
            .routes(route.family(), route.table..=route.table)?
            .items;
        self.write(Op::AddRoute(route.clone(), Placement::Append))?;
        let replaced = standing.into_iter().filter(|it| it.prefix == route.prefix);
        replaced.map(Op::DelRoute).try_for_each(|op| self.write(op))
    }

    /// Writes, and takes what is there or gone already for done.
    fn write(&mut self, op: Op) -> Result<(), KernelError> {
        for result in self.kernel.execute(std::slice::from_ref(&op))? {
            match result {
                Ok(())
                | Err(Refusal {
                    errno: Errno::EEXIST | Errno::ENOENT | Errno::ESRCH,
                    ..
                }) => {}
                Err(source) => {
                    return Err(KernelError::Refused {
                        op: op.kind(),
                        source,
                    });
                }
            }
        }
        Ok(())
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
