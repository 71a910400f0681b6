//! What came of the matrix, for readers and for programs.

use super::behaviour::Behaviour;
use super::runner::Ended;
use super::{Outcome, Trial};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The names.
pub(super) fn list(out: &mut impl Write, trials: &[Trial]) -> io::Result<()> {
    trials
        .iter()
        .try_for_each(|trial| writeln!(out, "{}", trial.name()))
}

/// A table of cells and behaviours. Below it stand the reasons.
pub(super) fn table(out: &mut impl Write, results: &[Ended]) -> io::Result<()> {
    let mut reasons: Vec<&str> = Vec::new();
    let mut rows = BTreeMap::<_, BTreeMap<_, String>>::new();
    for ended in results {
        let text = match &ended.outcome {
            Outcome::Holds => "ok".to_owned(),
            Outcome::Failed(_) => "FAILED".to_owned(),
            Outcome::Impossible(reason) => {
                let known = reasons.iter().position(|it| it == reason);
                let number = known.unwrap_or_else(|| {
                    reasons.push(reason);
                    reasons.len() - 1
                });
                format!("no [{}]", number + 1)
            }
        };
        let row = rows.entry(ended.trial.cell.name()).or_default();
        row.insert(ended.trial.behaviour.name(), text);
    }
    write!(out, "{:8}{:11}{:10}", "client", "forwarder", "endpoint")?;
    for behaviour in Behaviour::ALL {
        write!(out, "{:width$}", behaviour.name(), width = width(behaviour))?;
    }
    writeln!(out)?;
    let mut cells: Vec<_> = results.iter().map(|it| it.trial.cell).collect();
    cells.dedup();
    for cell in cells {
        let [client, forwarder, endpoint] = cell.languages().map(|it| it.name());
        write!(out, "{client:8}{forwarder:11}{endpoint:10}")?;
        let row = &rows[&cell.name()];
        for behaviour in Behaviour::ALL {
            let text = row.get(behaviour.name()).map_or("-", String::as_str);
            write!(out, "{text:width$}", width = width(behaviour))?;
        }
        writeln!(out)?;
    }
    for (number, reason) in reasons.iter().enumerate() {
        writeln!(out, "\n[{}] {reason}", number + 1)?;
    }
    for ended in results {
        if let Outcome::Failed(why) = &ended.outcome {
            writeln!(out, "\n{}:\n{why}", ended.trial.name())?;
        }
    }
    Ok(())
}

fn width(behaviour: Behaviour) -> usize {
    behaviour.name().len() + 2
}

/// One JSON object on one line.
pub(super) fn json(out: &mut impl Write, results: &[Ended]) -> io::Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        ok: bool,
        trials: Vec<Row<'a>>,
    }
    #[derive(Serialize)]
    struct Row<'a> {
        client: &'a str,
        forwarder: &'a str,
        endpoint: &'a str,
        behaviour: &'a str,
        outcome: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<&'a str>,
        seconds: f64,
    }
    let rows = results.iter().map(|ended| {
        let [client, forwarder, endpoint] = ended.trial.cell.languages().map(|it| it.name());
        let (outcome, why) = match &ended.outcome {
            Outcome::Holds => ("ok", None),
            Outcome::Impossible(reason) => ("impossible", Some(*reason)),
            Outcome::Failed(why) => ("failed", Some(why.as_str())),
        };
        Row {
            client,
            forwarder,
            endpoint,
            behaviour: ended.trial.behaviour.name(),
            outcome,
            why,
            seconds: ended.took.as_secs_f64(),
        }
    });
    let trials: Vec<_> = rows.collect();
    let report = Report {
        ok: trials.iter().all(|row| row.outcome != "failed"),
        trials,
    };
    serde_json::to_writer(&mut *out, &report)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::super::cell::Cell;
    use super::*;
    use std::time::Duration;

    fn ended(behaviour: Behaviour, outcome: Outcome) -> Ended {
        Ended {
            trial: Trial {
                cell: Cell::all()[1],
                behaviour,
            },
            outcome,
            took: Duration::from_millis(1500),
        }
    }

    fn results() -> Vec<Ended> {
        vec![
            ended(Behaviour::Connect, Outcome::Holds),
            ended(Behaviour::Refresh, Outcome::Impossible("it forgets")),
            ended(Behaviour::Close, Outcome::Failed("it stays".to_owned())),
            ended(Behaviour::Descriptors, Outcome::Impossible("it forgets")),
        ]
    }

    #[test]
    fn a_reason_stands_once_below_the_table_and_a_failure_by_its_name() {
        let mut out = Vec::new();
        table(&mut out, &results()).unwrap();

        let text = String::from_utf8(out).unwrap();
        let row = text.lines().nth(1).unwrap();
        let words: Vec<_> = row.split_whitespace().collect();
        let behaviours = [
            "ok", "no", "[1]", "-", "-", "-", "-", "-", "FAILED", "no", "[1]",
        ];
        assert_eq!(words[..3], ["go", "go", "rust"]);
        assert_eq!(words[3..], behaviours);
        assert_eq!(text.matches("it forgets").count(), 1);
        let name = "go_client_go_forwarder_rust_endpoint::close:\nit stays";
        assert!(text.contains(name), "{text}");
    }

    #[test]
    fn the_json_is_one_object_on_one_line_and_not_ok_with_a_failure() {
        let mut out = Vec::new();
        json(&mut out, &results()).unwrap();

        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["ok"], false);
        assert_eq!(json["trials"][1]["why"], "it forgets");
        assert_eq!(json["trials"][2]["outcome"], "failed");
        assert_eq!(json["trials"][2]["seconds"], 1.5);
    }
}
