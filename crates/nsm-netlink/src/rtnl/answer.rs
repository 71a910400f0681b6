//! What the kernel says of a request as such (netlink(7), linux/netlink.h).

use super::wire::{Attrs, Malformed, Message, read_text, read_u32};
use crate::{Errno, Refusal};
use nix::libc;

pub(crate) const NLMSG_NOOP: u16 = libc::NLMSG_NOOP as u16;
pub(crate) const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
pub(crate) const NLMSG_DONE: u16 = libc::NLMSG_DONE as u16;
pub(crate) const NLMSG_OVERRUN: u16 = libc::NLMSG_OVERRUN as u16;
/// The text among the attributes of an answer (`NLMSGERR_ATTR_MSG`).
const NLMSGERR_ATTR_MSG: u16 = 1;

/// What `NLMSG_ERROR` or `NLMSG_DONE` says: both begin with an error's number, and texts follow
/// where the flags say so.
pub(crate) fn verdict(message: &Message<'_>) -> Result<Result<(), Refusal>, Malformed> {
    let error = read_u32(message.payload)? as i32;
    if error >= 0 {
        return Ok(Ok(()));
    }
    let has = |flag: i32| message.flags & flag as u16 != 0;
    let texts = match message.kind {
        _ if !has(libc::NLM_F_ACK_TLVS) => None,
        NLMSG_DONE => message.payload.get(4..),
        // Behind the header of what was asked; behind all of it where it came back whole.
        _ if has(libc::NLM_F_CAPPED) => message.payload.get(20..),
        _ => {
            let asked = message.payload.get(4..).unwrap_or_default();
            let len = read_u32(asked)? as usize;
            asked.get(len.next_multiple_of(4)..)
        }
    };
    let mut text = None;
    for attr in Attrs(texts.unwrap_or_default()) {
        if let (NLMSGERR_ATTR_MSG, payload) = attr? {
            text = Some(read_text(payload));
        }
    }
    Ok(Err(Refusal {
        errno: Errno::from_raw(error.wrapping_neg()),
        message: text,
    }))
}
