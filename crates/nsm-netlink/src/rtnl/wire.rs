//! Netlink's framing (netlink(7), linux/netlink.h): messages and attributes, aligned to 4 bytes.
//!
//! Requests are built into one buffer that is used again; answers are walked where they lie.
//! Numbers are in the machine's byte order, as everywhere in rtnetlink.

use crate::{Family, KernelError};
use nix::libc;
use std::net::IpAddr;

/// The length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// The length of `struct nlattr`.
const ATTRIBUTE_HEADER: usize = 4;
/// The bits of an attribute's type that are its type; the others say how its payload is encoded.
const ATTRIBUTE_KIND: u16 = 0x3fff;

/// An answer that has no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<Malformed> for KernelError {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Malformed(what)
    }
}

const fn align(len: usize) -> usize {
    (len + 3) & !3
}

/// The number of an address family in messages.
pub(crate) const fn af(family: Family) -> u8 {
    match family {
        Family::V4 => libc::AF_INET as u8,
        Family::V6 => libc::AF_INET6 as u8,
    }
}

/// Messages to be sent, numbered one after the other over the life of the value.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    first: u32,
    next: u32,
    overlong: bool,
}

/// Messages that go out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    start: usize,
    /// Where the last message of the chunk begins.
    last: usize,
    end: usize,
    /// The sequence number of the first message.
    pub(crate) first: u32,
    /// How many messages there are.
    pub(crate) count: u32,
}

impl Requests {
    /// Forgets the messages that were built. Their sequence numbers are not given again.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.first = self.next;
        self.overlong = false;
    }

    /// Builds one message and gives its sequence number. `body` puts the family's structure first
    /// and attributes behind it.
    pub(crate) fn message(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Self)) -> u32 {
        let sequence = self.next;
        let start = self.bytes.len();
        self.next = self.next.wrapping_add(1);
        self.put(&[0; 4]);
        self.put(&kind.to_ne_bytes());
        self.put(&(flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
        self.put(&sequence.to_ne_bytes());
        // The port: the kernel knows who sends.
        self.put(&[0; 4]);
        body(self);
        let len = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&len.to_ne_bytes());
        sequence
    }

    /// Bytes as they are. Whoever puts them keeps the alignment.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// One attribute.
    pub(crate) fn attribute(&mut self, kind: u16, payload: &[u8]) {
        self.nested(kind, |requests| requests.put(payload));
    }

    /// An attribute that holds a number of 32 bits.
    pub(crate) fn number(&mut self, kind: u16, number: u32) {
        self.attribute(kind, &number.to_ne_bytes());
    }

    /// An attribute that holds an address.
    pub(crate) fn address(&mut self, kind: u16, address: &IpAddr) {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    /// An attribute that holds a text with the NUL behind it that the kernel expects.
    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        self.nested(kind, |requests| {
            requests.put(text.as_bytes());
            requests.put(&[0]);
        });
    }

    /// An attribute whose payload `body` puts.
    pub(crate) fn nested(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        body(self);
        match u16::try_from(self.bytes.len() - start) {
            Ok(len) => self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes()),
            Err(_) => self.overlong = true,
        }
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    /// Whether an attribute is longer than its header can say, so that nothing may be sent.
    pub(crate) fn is_overlong(&self) -> bool {
        self.overlong
    }

    /// How many messages there are.
    pub(crate) fn count(&self) -> usize {
        self.next.wrapping_sub(self.first) as usize
    }

    /// How many bytes they are together.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The first chunk of at most so many bytes and messages, but of one message at least.
    pub(crate) fn first_chunk(&self, bytes: usize, count: usize) -> Option<Chunk> {
        self.chunk(0, self.first, bytes, count)
    }

    /// The chunk behind another.
    pub(crate) fn chunk_after(&self, chunk: &Chunk, bytes: usize, count: usize) -> Option<Chunk> {
        self.chunk(
            chunk.end,
            chunk.first.wrapping_add(chunk.count),
            bytes,
            count,
        )
    }

    fn chunk(&self, start: usize, first: u32, bytes: usize, count: usize) -> Option<Chunk> {
        let mut chunk = Chunk {
            start,
            last: start,
            end: start,
            first,
            count: 0,
        };
        for message in Messages(self.bytes.get(start..)?) {
            let end = chunk.end + align(HEADER + message.ok()?.payload.len());
            if chunk.count > 0 && (end - start > bytes || chunk.count as usize >= count) {
                break;
            }
            chunk = Chunk {
                last: chunk.end,
                end,
                count: chunk.count + 1,
                ..chunk
            };
        }
        (chunk.count > 0).then_some(chunk)
    }

    /// The bytes of a chunk, whose last message, and no other, asks to be acknowledged.
    pub(crate) fn acknowledged(&mut self, chunk: &Chunk) -> &[u8] {
        if let Some(flags) = self.bytes.get_mut(chunk.last + 6..chunk.last + 8) {
            let value = u16::from_ne_bytes([flags[0], flags[1]]) | libc::NLM_F_ACK as u16;
            flags.copy_from_slice(&value.to_ne_bytes());
        }
        self.bytes.get(chunk.start..chunk.end).unwrap_or_default()
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// One message, where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// Who asked: in a notification, for what caused it.
    pub(crate) port: u32,
    /// What follows the header.
    pub(crate) payload: &'a [u8],
}

/// The messages of one read. The first that is cut short ends them with an error.
#[derive(Debug, Clone)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let Some(&[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]) = bytes.first_chunk::<HEADER>()
        else {
            return Some(Err(Malformed("a message's header is cut short")));
        };
        let len = u32::from_ne_bytes([a, b, c, d]) as usize;
        let Some(payload) = bytes.get(HEADER..len) else {
            return Some(Err(Malformed("a message is cut short")));
        };
        self.0 = bytes.get(align(len)..).unwrap_or_default();
        Some(Ok(Message {
            kind: u16::from_ne_bytes([e, f]),
            flags: u16::from_ne_bytes([g, h]),
            sequence: u32::from_ne_bytes([i, j, k, l]),
            port: u32::from_ne_bytes([m, n, o, p]),
            payload,
        }))
    }
}

/// The attributes of a message as `(kind, payload)`. The first that is cut short ends them with an
/// error.
#[derive(Debug, Clone)]
pub(crate) struct Attrs<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attrs<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let Some(&[a, b, c, d]) = bytes.first_chunk::<ATTRIBUTE_HEADER>() else {
            return Some(Err(Malformed("an attribute's header is cut short")));
        };
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let Some(payload) = bytes.get(ATTRIBUTE_HEADER..len) else {
            return Some(Err(Malformed("an attribute is cut short")));
        };
        self.0 = bytes.get(align(len)..).unwrap_or_default();
        Some(Ok((u16::from_ne_bytes([c, d]) & ATTRIBUTE_KIND, payload)))
    }
}

/// Splits a family's structure of `N` bytes from the attributes behind it.
pub(crate) fn head<const N: usize>(payload: &[u8]) -> Result<(&[u8; N], Attrs<'_>), Malformed> {
    let (head, rest) = payload
        .split_first_chunk()
        .ok_or(Malformed("a message's structure is cut short"))?;
    Ok((head, Attrs(rest)))
}

/// A number of 8 bits.
pub(crate) fn read_u8(payload: &[u8]) -> Result<u8, Malformed> {
    payload
        .first()
        .copied()
        .ok_or(Malformed("a number of 8 bits is cut short"))
}

/// A number of 32 bits.
pub(crate) fn read_u32(payload: &[u8]) -> Result<u32, Malformed> {
    let bytes = payload
        .first_chunk()
        .ok_or(Malformed("a number of 32 bits is cut short"))?;
    Ok(u32::from_ne_bytes(*bytes))
}

/// An address: its length tells its family.
pub(crate) fn read_address(payload: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(octets) = <[u8; 4]>::try_from(payload) {
        Ok(IpAddr::from(octets))
    } else if let Ok(octets) = <[u8; 16]>::try_from(payload) {
        Ok(IpAddr::from(octets))
    } else {
        Err(Malformed("an address is neither 4 nor 16 bytes long"))
    }
}

/// A text up to its NUL. Names of interfaces are bytes to the kernel; what is no UTF-8 is replaced.
pub(crate) fn read_text(payload: &[u8]) -> String {
    let end = payload
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(payload.len());
    String::from_utf8_lossy(&payload[..end]).into_owned()
}
