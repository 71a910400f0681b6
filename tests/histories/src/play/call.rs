//! A call of a client, and what the model says of its answer.

use super::{Client, Play, Played, held};
use crate::content::Content;
use crate::small_world::CONNECTIONS;
use crate::step::Step;
use crate::turn::Turn;
use crate::wants::{self, Want};
use nsm_chain::ErrorKind;
use policyroute_suite::Machine;

/// What a client does.
pub(super) enum Call<'a> {
    Request(&'a Content),
    Refresh,
    Close,
}

impl<M: Machine> Play<M> {
    pub(super) async fn call(&mut self, step: &Step, connection: usize, call: Call<'_>) -> Played {
        let (id, who) = CONNECTIONS[connection];
        let at = who as usize;
        let client = self.clients[connection].clone();
        let known = client.content.as_ref().filter(|_| client.open);
        let nothing = Content::nothing();
        let content = match (&call, &client.content) {
            (Call::Request(content), _) => *content,
            (Call::Refresh, Some(content)) => content,
            // There is nothing to ask for again.
            (Call::Refresh, None) => return Ok(()),
            (Call::Close, known) => known.as_ref().unwrap_or(&nothing),
        };
        self.tally.step(step);
        let begun = self.look()?;
        let answer = match call {
            Call::Request(_) | Call::Refresh => self.elements[at].request(id, known, content).await,
            Call::Close => self.elements[at].close(id, client.content.as_ref()).await,
        };
        let seen = self.see(at, begun, answer)?;
        let had = |content: Option<&Content>| -> Vec<Want> {
            content
                .and_then(|content| wants::wants(content).ok())
                .unwrap_or_default()
        };
        let wanted = wants::wants(content);
        if self.faults.is_killed() {
            let turn = match (&call, wanted) {
                (Call::Close, _) => Turn::close(self.models[at].claims(), id),
                (_, Ok(wants)) => {
                    let interface = content.interface();
                    let claim = crate::claims::Claim {
                        connection: id,
                        interface,
                        wants,
                    };
                    Turn::request(self.models[at].claims(), claim, &had(known))
                }
                (_, Err(_)) => Turn::timer(self.models[at].claims()),
            };
            self.say(connection, &call, None);
            self.tally.killed();
            let problems = self.models[at].killed(&turn, &[who.owner()], &seen);
            self.faults.revive();
            self.start_anew();
            return held(problems);
        }
        let model = &mut self.models[at];
        let refusal = match call {
            Call::Request(_) | Call::Refresh => model.refusal(content.interface(), &wanted, &seen),
            Call::Close => None,
        };
        let problems = match call {
            Call::Request(_) | Call::Refresh => {
                model.requested(id, content.interface(), wanted, &had(known), &seen)
            }
            Call::Close => model.closed(id, &had(client.content.as_ref()), &seen),
        };
        let fails = seen.answer.as_ref().err().map(|(kind, _)| *kind);
        let excused = problems.is_empty() || seen.hit.is_some();
        self.say(connection, &call, refusal.or(fails.filter(|_| excused)));
        let client = &mut self.clients[connection];
        match (&call, &seen.answer) {
            (Call::Close, _) => client.open = false,
            (_, Ok(())) => {
                *client = Client {
                    content: Some(content.clone()),
                    open: true,
                }
            }
            (_, Err(_)) => {}
        }
        self.tally.called(&self.models, at, &seen);
        held(problems)?;
        self.holds(at)
    }

    fn say(&mut self, connection: usize, call: &Call<'_>, error: Option<ErrorKind>) {
        match call {
            Call::Request(content) => self.script.request(connection, content, error),
            Call::Refresh => self.script.refresh(connection, error),
            Call::Close => self.script.close(connection, error),
        }
    }
}
