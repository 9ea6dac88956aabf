//! Owns: messages of SMB 2 and 3 (MS-SMB2 §2.2), and those that are put together in one.
//! Does not: know what came before.

use super::{Data, State, buffer, connect, number, transfer};
use crate::protocol::Found;
use crate::protocol::dialog::Talking;

/// Bytes of the header.
const HEADER: usize = 64;
/// Messages put together that are read.
const COMPOUND: usize = 16;

const TREE_CONNECT: u64 = 3;
const TREE_DISCONNECT: u64 = 4;
const CREATE: u64 = 5;
const READ: u64 = 8;
const WRITE: u64 = 9;
const IOCTL: u64 = 11;

/// Reads what may be several messages; whether rules may look.
pub(super) fn read(state: &mut State, talking: &mut Talking<'_>, mut rest: &[u8], found: &mut Found<'_>) -> bool {
    let mut any = false;
    for _ in 0..COMPOUND {
        let Some(next) = number::<4>(rest, 20).filter(|_| rest.len() >= HEADER) else { break };
        let next = usize::try_from(next).unwrap_or(usize::MAX);
        let message = if next == 0 { rest } else { &rest[..next.min(rest.len())] };
        any |= one(state, talking, message, found).unwrap_or(false);
        if next < HEADER || next >= rest.len() {
            break;
        }
        rest = &rest[next..];
    }
    any
}

/// Bytes at a place of the message that other places of it name.
fn part(message: &[u8], at: Option<u64>, len: Option<u64>) -> Option<&[u8]> {
    let from = message.get(usize::try_from(at?).ok()?..)?;
    Some(&from[..usize::try_from(len?).ok()?.min(from.len())])
}

fn one(state: &mut State, talking: &mut Talking<'_>, message: &[u8], found: &mut Found<'_>) -> Option<bool> {
    let (kind, is_response) = (number::<2>(message, 12)?, message.get(16)? & 1 != 0);
    let (id, tree) = (number::<8>(message, 24)?, number::<4>(message, 36)? as u32);
    let overlap = is_response && state.has_overlap == id.wrapping_add(1);
    if overlap {
        state.has_overlap = 0;
        found.add(buffer::EVENT, b"file_overlap");
    }
    let data = |file, offset, bytes| Data { tree, file, offset, message: id, bytes };
    let file = |at: usize| Some(number::<8>(message, at)? ^ number::<8>(message, at + 8)?.rotate_left(32));
    let any = match (kind, is_response) {
        (TREE_CONNECT, false) => {
            let name = part(message, number::<2>(message, HEADER + 4), number::<2>(message, HEADER + 6))?;
            connect(state, id, name, true, found);
            true
        }
        (TREE_CONNECT, true) => {
            state.connected(id, tree);
            false
        }
        (TREE_DISCONNECT, true) => {
            state.disconnected(tree);
            false
        }
        (CREATE, false) => {
            let name = part(message, number::<2>(message, HEADER + 44), number::<2>(message, HEADER + 46))?;
            state.opens(id, name, true);
            false
        }
        (CREATE, true) => {
            state.opened(id, file(HEADER + 64)?);
            false
        }
        (WRITE, false) => {
            let bytes = part(message, number::<2>(message, HEADER + 2), number::<4>(message, HEADER + 4))?;
            let offset = number::<8>(message, HEADER + 8)?;
            transfer(state, talking, &data(file(HEADER + 16)?, Some(offset), bytes), found)
        }
        (READ, true) => {
            let bytes = part(message, number::<1>(message, HEADER + 2), number::<4>(message, HEADER + 4))?;
            transfer(state, talking, &data(0, None, bytes), found)
        }
        (IOCTL, false) if state.is_pipe(tree) => {
            let bytes = part(message, number::<4>(message, HEADER + 24), number::<4>(message, HEADER + 28))?;
            transfer(state, talking, &data(0, None, bytes), found)
        }
        (IOCTL, true) if state.is_pipe(tree) => {
            let bytes = part(message, number::<4>(message, HEADER + 32), number::<4>(message, HEADER + 36))?;
            transfer(state, talking, &data(0, None, bytes), found)
        }
        _ => false,
    };
    Some(any || overlap)
}
