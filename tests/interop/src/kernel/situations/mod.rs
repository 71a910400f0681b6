//! The situations, by theme.

mod availability;
mod close;
mod drift;
mod foreign;
mod meaning;
mod restart;
mod sharing;
mod steps;

use super::Error;
use super::connection::Connection;
use super::pod::Pod;
use super::stage::Stage;

/// What happens, on a stage that counts.
pub(crate) struct Situation {
    pub(crate) name: &'static str,
    /// The rows of docs/compared-with-go.md that it is about.
    pub(crate) rows: &'static [u8],
    /// How often it is played: more than once where chance decides.
    pub(crate) rounds: usize,
    pub(crate) play: fn(&mut Stage) -> Result<(), Error>,
}

const fn once(
    name: &'static str,
    rows: &'static [u8],
    play: fn(&mut Stage) -> Result<(), Error>,
) -> Situation {
    Situation {
        name,
        rows,
        rounds: 1,
        play,
    }
}

const fn often(
    name: &'static str,
    rows: &'static [u8],
    play: fn(&mut Stage) -> Result<(), Error>,
) -> Situation {
    Situation {
        name,
        rows,
        rounds: 5,
        play,
    }
}

/// A connection with two policies that stands.
fn one(stage: &mut Stage) -> Result<(Pod, Connection), Error> {
    let pod = Pod::new()?;
    let mut connection = Connection::new(&pod, 1).with_two();
    pod.join(&connection)?;
    stage.request(&mut connection)?;
    Ok((pod, connection))
}

pub(crate) fn all() -> impl Iterator<Item = &'static Situation> {
    [
        restart::ALL,
        drift::ALL,
        sharing::ALL,
        foreign::ALL,
        steps::ALL,
        close::ALL,
        availability::ALL,
        meaning::ALL,
    ]
    .into_iter()
    .flatten()
}

impl Situation {
    /// Whether somebody means it by a part of its name, or by a row.
    pub(crate) fn is(&self, asked: &str) -> bool {
        let row = |row: &u8| format!("G-{row}").eq_ignore_ascii_case(asked);
        self.name.contains(asked) || self.rows.iter().any(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_situation_has_a_name_of_its_own_and_a_row() {
        let names: BTreeSet<&str> = all().map(|situation| situation.name).collect();

        assert_eq!(names.len(), all().count());
        assert!(all().all(|situation| !situation.rows.is_empty()));
        assert!(all().all(|situation| situation.rows.iter().all(|row| (1..=46).contains(row))));
    }

    #[test]
    fn a_row_means_itself_and_no_longer_number() {
        let of = |asked: &str| all().filter(|situation| situation.is(asked)).count();

        assert!(of("G-1") > 0);
        assert!(all().filter(|s| s.is("G-1")).all(|s| s.rows.contains(&1)));
        assert_eq!(of("no such thing"), 0);
    }
}
