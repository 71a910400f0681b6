/// Netlink attributes that nobody here interprets, as `(kind, payload)`, ordered by kind.
///
/// They are kept so that two objects that differ only in them compare unequal, and so that a
/// delete can name them. Values that the kernel makes up in a dump (caches, "no limit" masks) are
/// not among them.
///
/// A prefix whose length the kernel keeps apart, in the message's head (a rule's `FRA_DST`, a
/// route's `RTA_SRC`), has its length as one more byte behind the address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Attributes(Vec<(u16, Box<[u8]>)>);

impl Attributes {
    /// No attributes.
    pub const NONE: Self = Self(Vec::new());

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts an attribute in its place.
    pub fn insert(&mut self, kind: u16, payload: &[u8]) {
        let at = self.0.partition_point(|(other, _)| *other <= kind);
        self.0.insert(at, (kind, payload.into()));
    }

    /// The payload of the first attribute of a kind.
    pub fn get(&self, kind: u16) -> Option<&[u8]> {
        self.iter()
            .find_map(|(other, payload)| (other == kind).then_some(payload))
    }

    /// All attributes, by kind.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.0
            .iter()
            .map(|(kind, payload)| (*kind, payload.as_ref()))
    }
}

impl FromIterator<(u16, Vec<u8>)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (u16, Vec<u8>)>>(iter: I) -> Self {
        let mut attributes = Self::NONE;
        for (kind, payload) in iter {
            attributes.insert(kind, &payload);
        }
        attributes
    }
}
