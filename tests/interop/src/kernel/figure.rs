//! What is counted in a situation, and what it would have to be.

use serde::Serialize;
use std::fmt;

/// One figure, over all rounds of a situation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Figure {
    /// What is counted.
    what: &'static str,
    /// The least and the most that were found.
    found: (usize, usize),
    /// What is right.
    right: usize,
}

impl Figure {
    pub(crate) fn new(what: &'static str, found: usize, right: usize) -> Self {
        Self {
            what,
            found: (found, found),
            right,
        }
    }

    pub(crate) fn is_right(&self) -> bool {
        self.found == (self.right, self.right)
    }

    /// Takes up the same figure of another round, if it is that.
    fn merge(&mut self, other: &Self) -> bool {
        let same = self.what == other.what && self.right == other.right;
        if same {
            self.found.0 = self.found.0.min(other.found.0);
            self.found.1 = self.found.1.max(other.found.1);
        }
        same
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.found;
        write!(f, "{}: {least}", self.what)?;
        if most != least {
            write!(f, " to {most}")?;
        }
        match self.right {
            0 => Ok(()),
            _ if self.is_right() => Ok(()),
            right if most <= right => write!(f, " of {right}"),
            right => write!(f, " in place of {right}"),
        }
    }
}

/// The figures of all rounds of one situation, for one of the two elements.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures {
    figures: Vec<Figure>,
    /// What stood when it was last looked at.
    pub(crate) stood: Vec<String>,
    /// Why calls failed that had to succeed.
    pub(crate) errors: Vec<String>,
}

impl Figures {
    /// Takes up one figure. Within a round, the same one adds to it.
    pub(crate) fn add(&mut self, figure: Figure) {
        let same = |other: &&mut Figure| other.what == figure.what;
        match self.figures.iter_mut().find(same) {
            None => self.figures.push(figure),
            Some(other) => {
                other.found.0 += figure.found.0;
                other.found.1 += figure.found.1;
                other.right += figure.right;
            }
        }
    }

    /// Takes up what has been counted elsewhere in the same round.
    pub(crate) fn add_all(&mut self, other: Self) {
        other
            .figures
            .into_iter()
            .for_each(|figure| self.add(figure));
        self.errors.extend(other.errors);
    }

    /// Takes up another round.
    pub(crate) fn merge(&mut self, round: Self) {
        for figure in round.figures {
            if !self.figures.iter_mut().any(|known| known.merge(&figure)) {
                self.figures.push(figure);
            }
        }
        self.stood = round.stood;
        self.errors.extend(round.errors);
        self.errors.dedup();
    }

    pub(crate) fn are_right(&self) -> bool {
        self.figures.iter().all(Figure::is_right)
    }
}

/// Those that are wrong; where none is, that and what was looked for.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |told: fn(&Figure) -> bool| {
            let figures = self.figures.iter().filter(|figure| told(figure));
            let figures: Vec<String> = figures.map(Figure::to_string).collect();
            figures.join(", ")
        };
        if !self.are_right() {
            return f.write_str(&told(|figure| !figure.is_right()));
        }
        f.write_str("as here")?;
        match told(|figure| figure.right > 0) {
            found if found.is_empty() => Ok(()),
            found => write!(f, " ({found})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_are_wrong_are_told_alone() {
        let mut figures = Figures::default();
        figures.add(Figure::new("lookups right", 1, 4));
        figures.add(Figure::new("lookups right", 1, 1));
        figures.add(Figure::new("rules", 2, 2));
        figures.add(Figure::new("routes", 3, 2));

        assert_eq!(
            figures.to_string(),
            "lookups right: 2 of 5, routes: 3 in place of 2"
        );
    }

    #[test]
    fn rounds_that_differ_give_a_range_that_is_wrong() {
        let round = |found| {
            let mut figures = Figures::default();
            figures.add(Figure::new("rules left", found, 0));
            figures
        };
        let mut figures = round(0);
        assert!(figures.are_right());
        assert_eq!(figures.to_string(), "as here");

        figures.merge(round(3));

        assert!(!figures.are_right());
        assert_eq!(figures.to_string(), "rules left: 0 to 3");
    }
}
