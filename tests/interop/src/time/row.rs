//! What was measured.

use serde::Serialize;

/// One thing, measured on both sides in turn.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// How many of what the name says.
    pub(crate) n: usize,
    pub(crate) unit: Unit,
    /// Round by round.
    pub(crate) go: Vec<f64>,
    pub(crate) ours: Vec<f64>,
    /// What was right afterwards, of how much, in the worst round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) right: Option<Right>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Microseconds,
    Kibibytes,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Right {
    pub(crate) go: usize,
    pub(crate) ours: usize,
    pub(crate) of: usize,
}

impl Row {
    pub(crate) fn new(name: &'static str, n: usize, unit: Unit) -> Self {
        Self {
            name,
            n,
            unit,
            go: Vec::new(),
            ours: Vec::new(),
            right: None,
        }
    }

    /// One of which is counted what is right afterwards.
    pub(crate) fn of(name: &'static str, n: usize, unit: Unit, of: usize) -> Self {
        let (go, ours) = (of, of);
        Self {
            right: Some(Right { go, ours, of }),
            ..Self::new(name, n, unit)
        }
    }

    /// Whether all that ours was asked for stands afterwards, or is gone.
    pub(crate) fn is_right(&self) -> bool {
        self.right.is_none_or(|right| right.ours == right.of)
    }

    /// Ours by Go's, round by round, the smallest first. Both of a round are moments apart.
    pub(crate) fn ratios(&self) -> Vec<f64> {
        let pairs = self.ours.iter().zip(&self.go);
        sorted(pairs.map(|(ours, go)| ours / go).collect())
    }
}

/// The middle one; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let values = sorted(values.to_vec());
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}
