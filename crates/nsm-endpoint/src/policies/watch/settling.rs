//! When a content counts. Pure.

use super::super::found::Found;

/// Takes what is found at a path, again and again, and tells what has come to stay: what is found
/// twice in a row. A file that is being written, or was replaced several times in a row, is another
/// one each time.
#[derive(Debug)]
pub(super) struct Settling {
    settled: Found,
    candidate: Option<Found>,
}

/// What follows from a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: it is what it was.
    Same,
    /// Another look, soon.
    Again,
    /// This has come to stay.
    Settled(Found),
}

impl Settling {
    /// Begins with what was found.
    pub(super) fn new(settled: Found) -> Self {
        Self {
            settled,
            candidate: None,
        }
    }

    /// Something is found.
    pub(super) fn found(&mut self, found: Found) -> Step {
        if found == self.settled {
            self.candidate = None;
            return Step::Same;
        }
        if self.candidate.as_ref() != Some(&found) {
            self.candidate = Some(found);
            return Step::Again;
        }
        self.candidate = None;
        self.settled = found.clone();
        Step::Settled(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> Found {
        Found::Content(text.into())
    }

    #[test]
    fn what_is_found_twice_in_a_row_has_come_to_stay() {
        let mut settling = Settling::new(content("a"));

        assert_eq!(settling.found(content("b")), Step::Again);
        assert_eq!(settling.found(content("b")), Step::Settled(content("b")));
        assert_eq!(settling.found(content("b")), Step::Same);
        assert_eq!(settling.found(Found::Nothing), Step::Again);
        assert_eq!(
            settling.found(Found::Nothing),
            Step::Settled(Found::Nothing)
        );
    }

    #[test]
    fn what_is_another_each_time_does_not_count() {
        let mut settling = Settling::new(content("a"));

        for half in ["b", "bc", "bcd", "b", "bc"] {
            assert_eq!(settling.found(content(half)), Step::Again);
        }
        assert_eq!(settling.found(content("a")), Step::Same);
        assert_eq!(settling.found(content("bc")), Step::Again, "a was between");
    }
}
