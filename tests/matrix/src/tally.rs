//! How many cells each flow has had.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by matrix and flow. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<(String, String), usize>>>);

impl Tally {
    /// Counts cells of a flow.
    pub fn add(&self, matrix: &str, flow: &str, cells: usize) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts
            .entry((matrix.to_owned(), flow.to_owned()))
            .or_default() += cells;
    }
}

/// A line for each flow, and one for each matrix with the sum.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = BTreeMap::<&str, usize>::new();
        for ((matrix, flow), count) in counts.iter() {
            writeln!(f, "{count:7} {matrix}: {flow}")?;
            *sums.entry(matrix).or_default() += count;
        }
        for (matrix, sum) in sums {
            writeln!(f, "{sum:7} {matrix}: all flows")?;
        }
        Ok(())
    }
}
