//! Drives the element by lines of JSON, as `tests/interop/go/drive` drives the Go one.

#![cfg(target_os = "linux")]

mod chain;
mod protocol;

use chain::{Answered, Chain};
use clap::Parser;
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{BoxNetworkService, Call};
use nsm_netlink::{Owner, TableRange};
use nsm_policyroute::Config;
use protocol::{Answer, Content, Line, Op, Reply, microseconds};
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// Drives the element by lines of JSON on its input, and answers by lines of JSON.
#[derive(Debug, Parser)]
struct Arguments {
    /// The mark of the element's rules and routes
    #[arg(long, default_value = "78")]
    protocol: NonZeroU8,

    /// The tables that it hands out
    #[arg(long, default_value = "20000-24999")]
    tables: TableRange,

    /// Put back what others remove at once. The Go element has nothing of the kind
    #[arg(long)]
    watch: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let config = Config {
        watch: arguments.watch,
        ..Config::new(Owner {
            protocol: arguments.protocol,
            tables: arguments.tables,
        })
    };
    // As the programs have it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let chain = {
        let _runtime = runtime.enter();
        Arc::new(Chain::new(config))
    };
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let reply = match serde_json::from_str(&line?) {
            Ok(line) => runtime.block_on(reply(&chain, line)),
            Err(error) => Reply::Bad {
                bad: error.to_string(),
            },
        };
        serde_json::to_writer(&mut out, &reply)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    // Work that goes on is not waited for: the one who drives has ended it.
    runtime.shutdown_background();
    Ok(())
}

async fn reply(chain: &Arc<Chain>, line: Line) -> Reply {
    match line {
        Line::Request(content) => Reply::One(request(chain, content).await),
        Line::Close(content) => {
            let (answer, _) = Prepared::new(Op::Close(content)).run(chain).await;
            Reply::One(answer)
        }
        Line::Series { ops, repeat } => {
            let rounds = std::iter::repeat_n(ops, repeat).flatten();
            series(chain, rounds.map(Prepared::new).collect()).await
        }
        Line::Parallel { ops } => {
            parallel(chain, ops.into_iter().map(Prepared::new).collect()).await
        }
    }
}

/// A call that has only to be made.
struct Prepared(Call);

impl Prepared {
    fn new(op: Op) -> Self {
        Self(match op {
            Op::Close(content) => Call::close(content.answered()),
            Op::Request(content) => {
                let mut call = Call::request(NetworkServiceRequest {
                    connection: Some(content.asked()),
                    ..NetworkServiceRequest::default()
                });
                call.extensions.insert(Answered(content.answered()));
                call
            }
        })
    }

    async fn run(self, chain: &Chain) -> (Answer, Option<Connection>) {
        let service: BoxNetworkService = chain.service.clone();
        let begin = Instant::now();
        let answer = service.oneshot(self.0).await;
        let time = begin.elapsed();
        let (connection, error) = match answer {
            Ok(connection) => (Some(connection), None),
            Err(error) => (None, Some(error.report().to_string())),
        };
        (Answer::after(time, error, chain.closed()), connection)
    }
}

/// A request of which the answer is looked at.
async fn request(chain: &Chain, content: Content) -> Answer {
    let given = content.answered();
    let (mut answer, connection) = Prepared::new(Op::Request(content)).run(chain).await;
    answer.altered = connection.is_some_and(|connection| connection.context != given.context);
    answer
}

async fn series(chain: &Chain, calls: Vec<Prepared>) -> Reply {
    let mut answers = Vec::with_capacity(calls.len());
    let begin = Instant::now();
    for call in calls {
        answers.push(call.run(chain).await.0);
    }
    Reply::Many {
        us: microseconds(begin.elapsed()),
        answers,
    }
}

async fn parallel(chain: &Arc<Chain>, calls: Vec<Prepared>) -> Reply {
    let start = Arc::new(Barrier::new(calls.len() + 1));
    let mut running = JoinSet::new();
    for (place, call) in calls.into_iter().enumerate() {
        let (chain, start) = (Arc::clone(chain), Arc::clone(&start));
        running.spawn(async move {
            start.wait().await;
            (place, call.run(&chain).await.0)
        });
    }
    let begin = Instant::now();
    start.wait().await;
    let mut answers = running.join_all().await;
    let us = microseconds(begin.elapsed());
    answers.sort_by_key(|(place, _)| *place);
    Reply::Many {
        us,
        answers: answers.into_iter().map(|(_, answer)| answer).collect(),
    }
}
