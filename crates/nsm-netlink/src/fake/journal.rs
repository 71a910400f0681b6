use super::Shared;
use crate::{Op, OpKind, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One operation that somebody sent to the fake kernel through [`Kernel`](crate::Kernel), with what
/// became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What was asked.
    pub op: Op,
    /// What the kernel said.
    pub outcome: Result<(), Refusal>,
}

/// What the journal is made of. It lies behind the namespace's lock.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) bursts: Vec<Vec<Write>>,
    pub(super) dumps: BTreeMap<OpKind, usize>,
    pub(super) opens: usize,
}

/// Everything that came in through the [`Kernel`](crate::Kernel) trait, the refused writes too.
///
/// What a test does to the namespace from outside is not in it.
#[derive(Debug, Clone)]
pub struct Journal {
    pub(super) shared: Arc<Shared>,
}

impl Journal {
    /// All operations, in order.
    pub fn writes(&self) -> Vec<Write> {
        self.bursts().into_iter().flatten().collect()
    }

    /// All operations, one list for each call.
    pub fn bursts(&self) -> Vec<Vec<Write>> {
        self.shared.lock().journal.bursts.clone()
    }

    /// How many dumps of a kind were made.
    pub fn dumps(&self, kind: OpKind) -> usize {
        self.shared
            .lock()
            .journal
            .dumps
            .get(&kind)
            .copied()
            .unwrap_or(0)
    }

    /// How often the namespace was opened.
    pub fn opens(&self) -> usize {
        self.shared.lock().journal.opens
    }

    /// Forgets all of it.
    pub fn clear(&self) {
        self.shared.lock().journal = Entries::default();
    }
}
