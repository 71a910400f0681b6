//! Whether a connection's traffic gets through.

/// How many answers in a row have to be missing: one may be lost, or late.
const MISSES: u32 = 3;

/// What was felt of a connection.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Whether an answer has ever come. An endpoint that gives none cannot be felt.
    is_felt: bool,
    missed: u32,
    /// Whether the connection has been asked for again since it was felt last.
    was_asked_for: bool,
}

/// What is to be done about a connection without a pulse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// To ask for it again.
    Ask,
    /// To ask for another endpoint: asking again has not helped.
    Reselect,
}

impl Pulse {
    /// Takes note of an answer, or of one that is missing.
    pub(super) fn felt(&mut self, alive: bool) -> Option<Remedy> {
        if alive {
            *self = Self {
                is_felt: true,
                ..Self::default()
            };
            return None;
        }
        if !self.is_felt {
            return None;
        }
        self.missed += 1;
        if self.missed < MISSES {
            return None;
        }
        self.missed = 0;
        let before = std::mem::replace(&mut self.was_asked_for, true);
        Some(if before {
            Remedy::Reselect
        } else {
            Remedy::Ask
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_answers_missing_in_a_row_take_a_request_and_three_more_another_endpoint() {
        let mut pulse = Pulse::default();
        let mut felt =
            |answers: &str| -> Vec<_> { answers.chars().map(|it| pulse.felt(it == '!')).collect() };
        assert_eq!(
            felt("......"),
            [None; 6],
            "who never answers cannot be felt"
        );
        assert_eq!(felt("!..!.."), [None; 6]);
        assert_eq!(felt("!..."), [None, None, None, Some(Remedy::Ask)]);
        assert_eq!(felt("..."), [None, None, Some(Remedy::Reselect)]);
        assert_eq!(felt("!..."), [None, None, None, Some(Remedy::Ask)]);
    }
}
