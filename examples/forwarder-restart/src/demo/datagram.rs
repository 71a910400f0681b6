//! What each datagram carries: which policy it is of, its number, and whether its policy was in
//! service when it was sent.

/// What tells the demo's datagrams from all else on a link.
const MAGIC: [u8; 8] = *b"nsm-demo";

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// The index of the policy.
    pub policy: u32,
    /// Counted up by policy.
    pub number: u32,
    /// Whether its interface was there and its request had been answered.
    pub served: bool,
}

impl Datagram {
    /// How many bytes it takes.
    pub const SIZE: usize = 17;

    /// As it goes out.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.policy.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16] = self.served.into();
        bytes
    }

    /// The end of a packet, if that is one.
    pub fn at_end_of(packet: &[u8]) -> Option<Self> {
        let (magic, rest) = packet.last_chunk::<{ Self::SIZE }>()?.split_first_chunk()?;
        let (policy, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        (*magic == MAGIC).then_some(Self {
            policy: u32::from_be_bytes(*policy),
            number: u32::from_be_bytes(*number),
            served: rest == [1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_found_at_the_end_of_a_packet() {
        let sent = Datagram {
            policy: 3,
            number: 70_000,
            served: true,
        };
        let mut packet = vec![0x45; 28];
        packet.extend(sent.to_bytes());

        assert_eq!(Datagram::at_end_of(&packet), Some(sent));
    }

    #[test]
    fn other_packets_are_none_of_ours() {
        assert_eq!(Datagram::at_end_of(&[0; 64]), None);
        assert_eq!(Datagram::at_end_of(b"nsm-demo"), None);
        assert_eq!(Datagram::at_end_of(&[]), None);
    }
}
