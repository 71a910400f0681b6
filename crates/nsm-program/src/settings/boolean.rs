//! Truth values, as Go reads them.

/// A text that is no truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither true (1, t, T, TRUE, true, True) nor false (0, f, F, FALSE, false, False)")]
pub struct BoolError;

/// Reads a truth value: the spellings of Go's `strconv.ParseBool`, and no others.
///
/// # Errors
///
/// [`BoolError`] for anything else.
pub fn parse_bool(text: &str) -> Result<bool, BoolError> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(BoolError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spellings_of_go_are_read_and_no_others() {
        for text in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(parse_bool(text), Ok(true));
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(parse_bool(text), Ok(false));
        }
        for text in ["", " true", "yes", "on", "tRUE", "2", "-1"] {
            assert_eq!(parse_bool(text), Err(BoolError), "{text:?}");
        }
    }
}
