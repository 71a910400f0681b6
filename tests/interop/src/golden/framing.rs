//! The frames of HTTP/2 (RFC 9113, 4.1), and the descriptors that ride on their bytes.

use std::ops::Range;

/// What a client sends before its first frame (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type: 0 is DATA, 1 is HEADERS.
    pub kind: u8,
    /// Its stream.
    pub stream: u32,
    /// Whether its sender says nothing more on the stream.
    pub ends_its_stream: bool,
    /// Where it is, head included.
    pub place: Range<usize>,
}

/// The frames of what one end has written. The last may be cut off.
pub fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut start = match bytes.starts_with(PREFACE) {
        true => PREFACE.len(),
        false => 0,
    };
    let mut frames = Vec::new();
    while let Some(head) = bytes.get(start..start + 9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let end = start + 9 + length as usize;
        frames.push(Frame {
            kind: head[3],
            stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
            // The flag has another meaning on frames of the connection.
            ends_its_stream: matches!(head[3], DATA | HEADERS) && head[4] & 1 == 1,
            place: start..end,
        });
        start = end;
    }
    frames
}

/// Where a descriptor rides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The byte.
    pub offset: usize,
    /// How many bytes were written with it.
    pub beside: usize,
}

impl Descriptor {
    /// The descriptors of writes.
    pub fn of(writes: impl IntoIterator<Item = (usize, usize)>) -> Vec<Self> {
        let mut offset = 0;
        let mut descriptors = Vec::new();
        for (beside, count) in writes {
            descriptors.extend((0..count).map(|_| Self { offset, beside }));
            offset += beside;
        }
        descriptors
    }

    /// The frame whose bytes it rides on, and how far from its beginning.
    pub fn within<'a>(&self, frames: &'a [Frame]) -> Option<(&'a Frame, usize)> {
        let frame = frames.iter().find(|it| it.place.contains(&self.offset))?;
        Some((frame, self.offset - frame.place.start))
    }
}
