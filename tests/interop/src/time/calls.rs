//! What a driver is asked when it is timed.

use super::Error;
use crate::driver::{Answers, Driver, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

/// How long anything may take. The longest takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long it took.
#[derive(Debug)]
pub(crate) struct Timed {
    /// All of it, in microseconds.
    pub(crate) us: f64,
    pub(crate) each: Vec<f64>,
}

/// One after another, again and again.
pub(crate) fn series(driver: &mut Driver, ops: &[Value], repeat: usize) -> Result<Timed, Error> {
    ask(
        driver,
        &json!({"op": "series", "ops": ops, "repeat": repeat}),
    )
}

/// All at once.
pub(crate) fn parallel(driver: &mut Driver, ops: &[Value]) -> Result<Timed, Error> {
    ask(driver, &json!({"op": "parallel", "ops": ops}))
}

/// A time is one of calls that have all succeeded.
fn ask(driver: &mut Driver, line: &Value) -> Result<Timed, Error> {
    let Answers { us, answers } = match driver.ask(line, PATIENCE)? {
        Outcome::Answered(answers) => answers,
        Outcome::Endless => {
            let limit = format_args!("no answer within {PATIENCE:?}");
            return Err(driver.error(line, limit));
        }
        Outcome::Crashed => return Err(driver.error(line, "the process ended")),
    };
    if let Some(failed) = answers.iter().find(|answer| !answer.ok) {
        let cause = failed.error.as_deref().unwrap_or("no cause was told");
        return Err(driver.error(line, cause));
    }
    Ok(Timed {
        us,
        each: answers.iter().map(|answer| answer.us).collect(),
    })
}
