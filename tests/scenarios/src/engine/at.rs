//! Where the play is.

use std::fmt;

/// Where the play is.
#[derive(Clone, Default)]
pub(super) struct At<'s> {
    /// The pod that steps happen in which do not say another.
    pub(super) pod: Option<&'s str>,
    /// The numbers of the steps around, from 1.
    pub(super) steps: Vec<usize>,
    /// The rounds of the repeats around: which, and of how many.
    pub(super) rounds: Vec<(u32, u32)>,
    /// Whether other branches run at the same time.
    pub(super) in_parallel: bool,
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.steps.iter().map(usize::to_string).collect();
        write!(f, "step {}", numbers.join("."))?;
        for (round, times) in &self.rounds {
            write!(f, ", round {round} of {times}")?;
        }
        Ok(())
    }
}
