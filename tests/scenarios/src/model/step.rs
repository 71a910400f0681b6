//! What happens: the steps.

use super::words::Time;
use super::{Ask, Expectation, Fault, NewElement, NewPod, Place, Watch};
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::time::Duration;

/// One step.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Spanned<StepFields>")]
pub struct Step {
    /// Where it is written.
    pub place: Place,
    /// The pod that it happens in, where it is not the first (or the one of the steps around it).
    pub pod: Option<String>,
    /// What happens.
    pub action: Action,
}

/// What a step does.
#[derive(Debug)]
pub enum Action {
    /// Something that somebody else does, as shell commands inside the pod.
    Run {
        /// The commands.
        script: String,
        /// Whether they must fail instead of succeed.
        fails: bool,
    },
    /// Remembers the rules and routes of the pod under a name.
    Snapshot(String),
    /// The client asks for a connection.
    Request(Ask),
    /// The client asks again.
    Refresh(Ask),
    /// The client ends a connection.
    Close(Ask),
    /// All elements start anew and remember nothing.
    Restart,
    /// A further pod appears.
    Pod(NewPod),
    /// A pod's namespace ends.
    Destroy(String),
    /// A further element comes to work in the same pods.
    Element(NewElement),
    /// Time passes.
    Wait(Duration),
    /// Branches run at the same time.
    Parallel(Vec<Vec<Step>>),
    /// Steps run several times.
    Repeat(Repeat),
    /// A later kernel operation goes wrong.
    Fault(Fault),
    /// Steps run under observation.
    Watch(Watch),
    /// What must stand now.
    Expect(Box<Expectation>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFields {
    r#in: Option<String>,
    fails: Option<bool>,
    run: Option<String>,
    snapshot: Option<String>,
    request: Option<Ask>,
    refresh: Option<Ask>,
    close: Option<Ask>,
    restart: Option<Nothing>,
    pod: Option<NewPod>,
    destroy: Option<String>,
    element: Option<NewElement>,
    wait: Option<Time>,
    parallel: Option<Vec<Vec<Step>>>,
    repeat: Option<Repeat>,
    fault: Option<Fault>,
    watch: Option<Watch>,
    expect: Option<Box<Expectation>>,
}

/// `{}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl TryFrom<Spanned<StepFields>> for Step {
    type Error = String;

    fn try_from(step: Spanned<StepFields>) -> Result<Self, String> {
        let place = Place {
            line: step.referenced.line(),
            column: step.referenced.column(),
        };
        let fields = step.value;
        if fields.fails.is_some() && fields.run.is_none() {
            return Err("`fails` stands beside `run` only".to_owned());
        }
        let fails = fields.fails.unwrap_or(false);
        let mut actions = [
            fields.run.map(|script| Action::Run { script, fails }),
            fields.snapshot.map(Action::Snapshot),
            fields.request.map(Action::Request),
            fields.refresh.map(Action::Refresh),
            fields.close.map(Action::Close),
            fields.restart.map(|Nothing {}| Action::Restart),
            fields.pod.map(Action::Pod),
            fields.destroy.map(Action::Destroy),
            fields.element.map(Action::Element),
            fields.wait.map(|time| Action::Wait(time.0)),
            fields.parallel.map(Action::Parallel),
            fields.repeat.map(Action::Repeat),
            fields.fault.map(Action::Fault),
            fields.watch.map(Action::Watch),
            fields.expect.map(Action::Expect),
        ]
        .into_iter()
        .flatten();
        let action = actions.next().ok_or("a step that says nothing to do")?;
        if actions.next().is_some() {
            return Err("a step does one thing: make two of it".to_owned());
        }
        if let Action::Request(Ask {
            interface: None, ..
        }) = action
        {
            return Err("a request names its `interface`".to_owned());
        }
        Ok(Self {
            place,
            pod: fields.r#in,
            action,
        })
    }
}

/// Steps that run several times.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// How often.
    pub times: u32,
    /// What.
    pub steps: Vec<Step>,
}

/// Visits the steps and the steps inside of them, in the order of the file.
pub fn each_step<'a>(steps: &'a [Step], visit: &mut impl FnMut(&'a Step)) {
    for step in steps {
        visit(step);
        match &step.action {
            Action::Parallel(branches) => {
                branches.iter().for_each(|branch| each_step(branch, visit));
            }
            Action::Repeat(Repeat { steps, .. }) | Action::Watch(Watch { steps, .. }) => {
                each_step(steps, visit);
            }
            _ => {}
        }
    }
}
