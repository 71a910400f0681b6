//! The report for machines.

use crate::figures::{Cell, Figures, Verdict};
use serde::Serialize;
use std::io::{self, Write};

/// Prints the figures as one JSON object on one line.
///
/// # Errors
/// When it cannot be written.
pub fn print(out: &mut impl Write, figures: &Figures) -> io::Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        ok: bool,
        void: bool,
        measurements: Vec<Row<'a>>,
    }
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        cell: &'a Cell,
        faults: Vec<String>,
    }
    let verdict = figures.verdict();
    let rows = figures.cells.iter().map(|cell| Row {
        cell,
        faults: cell.faults(),
    });
    let report = Report {
        ok: verdict == Verdict::Well,
        void: verdict == Verdict::Void,
        measurements: rows.collect(),
    };
    serde_json::to_writer(&mut *out, &report)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tests::cell;
    use crate::flow::Name;
    use crate::stream::Stream;

    #[test]
    fn the_json_is_one_object_on_one_line() {
        let cells = [Name::Control, Name::Refresh];
        let cells = cells.map(|flow| cell(flow, Stream::ALL[0], u64::from(flow == Name::Control)));
        let figures = Figures {
            cells: cells.to_vec(),
        };
        let mut out = Vec::new();

        print(&mut out, &figures).unwrap();

        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let first = &json["measurements"][0];
        assert_eq!((&json["ok"], &json["void"]), (&true.into(), &false.into()));
        assert_eq!(first["flow"], "control-delete-then-add");
        assert_eq!(
            (&first["family"], &first["sending"]),
            (&"IPv4".into(), &"udp".into())
        );
        assert_eq!(first["leaked"]["eth0"], 1);
    }
}
