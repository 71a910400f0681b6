use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// The id of a routing table that may be given to policies.
///
/// Ids 0, 253, 254 and 255 (`unspec`, `default`, `main`, `local`) cannot be expressed, so that
/// no code path can write a policy's routes into a table that the pod lives from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u32);

impl TableId {
    /// The id, unless it is a reserved one.
    pub const fn new(id: u32) -> Option<Self> {
        match id {
            0 | 253..=255 => None,
            _ => Some(Self(id)),
        }
    }

    /// The number as the kernel knows it.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tables that belong to one owner: all ids from `first` to `last`, without the reserved ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableRange {
    first: u32,
    last: u32,
}

impl TableRange {
    /// The range from `first` to `last`, both included.
    ///
    /// # Errors
    /// When the range is empty, begins at 0, or contains a reserved id.
    pub const fn new(first: u32, last: u32) -> Result<Self, TableRangeError> {
        if first == 0 || last < first {
            return Err(TableRangeError::Empty);
        }
        if first <= 255 && last >= 253 {
            return Err(TableRangeError::Reserved);
        }
        Ok(Self { first, last })
    }

    /// Whether the kernel's table `id` lies in the range.
    pub const fn contains(&self, id: u32) -> bool {
        self.first <= id && id <= self.last
    }

    /// All ids, lowest first.
    pub fn ids(&self) -> impl Iterator<Item = TableId> + use<> {
        (self.first..=self.last).map(TableId)
    }

    /// The range as numbers, as a dump's filter takes it.
    pub const fn numbers(&self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    /// How many ids the range holds.
    pub const fn size(&self) -> u32 {
        (self.last - self.first).saturating_add(1)
    }
}

impl fmt::Display for TableRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for TableRange {
    type Err = TableRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').ok_or(TableRangeError::Malformed)?;
        let number = |s: &str| s.parse::<u32>().map_err(|_| TableRangeError::Malformed);
        Self::new(number(first)?, number(last)?)
    }
}

/// Why a text or a pair of numbers is no range of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableRangeError {
    /// Not of the form `first-last`.
    #[error("a range of tables is written FIRST-LAST, as in 20000-24999")]
    Malformed,
    /// Begins at 0 or ends before it begins.
    #[error("a range of tables begins at 1 or above and does not end before it begins")]
    Empty,
    /// Contains 253, 254 or 255.
    #[error("a range of tables must not contain 253, 254 or 255, which are the kernel's own")]
    Reserved,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ids_cannot_be_expressed() {
        for id in [0, 253, 254, 255] {
            assert_eq!(TableId::new(id), None);
        }
        assert_eq!(TableId::new(252).map(TableId::get), Some(252));
        assert_eq!(TableId::new(256).map(TableId::get), Some(256));
    }

    #[test]
    fn a_range_is_read_and_printed_alike() {
        let range: TableRange = "20000-24999".parse().unwrap();

        assert_eq!(range.to_string(), "20000-24999");
        assert_eq!(range.size(), 5000);
        assert!(range.contains(20000) && range.contains(24999) && !range.contains(25000));
    }

    #[test]
    fn a_range_without_sense_is_refused() {
        assert_eq!("5".parse::<TableRange>(), Err(TableRangeError::Malformed));
        assert_eq!("a-b".parse::<TableRange>(), Err(TableRangeError::Malformed));
        assert_eq!("0-7".parse::<TableRange>(), Err(TableRangeError::Empty));
        assert_eq!("9-3".parse::<TableRange>(), Err(TableRangeError::Empty));
        assert_eq!(
            "1-300".parse::<TableRange>(),
            Err(TableRangeError::Reserved)
        );
        assert!("1-252".parse::<TableRange>().is_ok());
        assert!("1-4294967295".parse::<TableRange>().is_err());
    }
}
