//! Owns: messages of SMB 1 (MS-CIFS §2.2), with the chains of commands in them.
//! Does not: know what came before.

use super::{Data, State, buffer, connect, number, transfer};
use crate::protocol::Found;
use crate::protocol::dialog::Talking;

/// Bytes of the header.
const HEADER: usize = 32;
/// Commands of one message that are read.
const CHAIN: usize = 8;

const TRANSACTION: u8 = 0x25;
const READ: u8 = 0x2e;
const WRITE: u8 = 0x2f;
const TREE_DISCONNECT: u8 = 0x71;
const TREE_CONNECT: u8 = 0x75;
const CREATE: u8 = 0xa2;
/// No further command.
const NONE: u8 = 0xff;

/// One command of a message.
struct Command<'m> {
    message: &'m [u8],
    parameters: &'m [u8],
    /// Where its data begin, from the message's beginning.
    data_at: usize,
}

impl<'m> Command<'m> {
    fn at(message: &'m [u8], at: usize) -> Option<Self> {
        let words = usize::from(*message.get(at)?);
        let parameters = message.get(at + 1..at + 1 + 2 * words)?;
        Some(Self { message, parameters, data_at: at + 1 + 2 * words + 2 })
    }

    fn word(&self, at: usize) -> Option<usize> {
        Some(number::<2>(self.parameters, at)? as usize)
    }

    /// Bytes at an offset from the message's beginning.
    fn bytes(&self, at: usize, len: usize) -> Option<&'m [u8]> {
        let from = self.message.get(at..)?;
        Some(&from[..len.min(from.len())])
    }
}

/// Reads a message; whether rules may look.
pub(super) fn read(state: &mut State, talking: &mut Talking<'_>, message: &[u8], found: &mut Found<'_>) -> bool {
    let Some(header) = message.get(..HEADER) else { return false };
    let is_response = header[9] & 0x80 != 0;
    let id = number::<2>(header, 30).unwrap_or(0);
    let mut any = false;
    if is_response && state.has_overlap == id + 1 {
        state.has_overlap = 0;
        found.add(buffer::EVENT, b"file_overlap");
        any = true;
    }
    let (mut kind, mut at) = (header[4], HEADER);
    for _ in 0..CHAIN {
        let Some(command) = Command::at(message, at) else { break };
        any |= one(state, talking, (kind, is_response), &command, found).unwrap_or(false);
        let has_next = matches!(kind, READ | WRITE | TREE_CONNECT | 0x2d | 0x24 | 0x73 | 0x74 | CREATE);
        match (command.parameters, has_next) {
            ([next, _, low, high, ..], true) if *next != NONE => {
                let next_at = usize::from(u16::from_le_bytes([*low, *high]));
                if next_at <= at {
                    break;
                }
                (kind, at) = (*next, next_at);
            }
            _ => break,
        }
    }
    any
}

fn one(
    state: &mut State,
    talking: &mut Talking<'_>,
    (kind, is_response): (u8, bool),
    command: &Command<'_>,
    found: &mut Found<'_>,
) -> Option<bool> {
    let header = &command.message[..HEADER];
    let (tree, message) = (number::<2>(header, 24)? as u32, number::<2>(header, 30)?);
    let data = |file, offset, bytes| Data { tree, file, offset, message, bytes };
    Some(match (kind, is_response) {
        (TREE_CONNECT, false) => {
            let is_wide = header[11] & 0x80 != 0;
            let mut at = command.data_at + command.word(6)?;
            // Names begin at an even place.
            if is_wide {
                at = at.next_multiple_of(2);
            }
            let rest = command.message.get(at..)?;
            let len = if is_wide {
                2 * rest.chunks(2).position(|letter| letter == [0, 0]).unwrap_or(rest.len() / 2)
            } else {
                rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len())
            };
            connect(state, message, &rest[..len], is_wide, found);
            true
        }
        (TREE_CONNECT, true) => {
            state.connected(message, tree);
            false
        }
        (TREE_DISCONNECT, true) => {
            state.disconnected(tree);
            false
        }
        (CREATE, false) => {
            let is_wide = header[11] & 0x80 != 0;
            let at = if is_wide { command.data_at.next_multiple_of(2) } else { command.data_at };
            state.opens(message, command.bytes(at, command.word(5)?)?, is_wide);
            false
        }
        (CREATE, true) => {
            state.opened(message, number::<2>(command.parameters, 5)?.wrapping_add(1));
            false
        }
        (WRITE, false) => {
            let len = command.word(18)? << 16 | command.word(20)?;
            let low = number::<4>(command.parameters, 6)?;
            let offset = number::<4>(command.parameters, 24).unwrap_or(0) << 32 | low;
            let bytes = command.bytes(command.word(22)?, len)?;
            transfer(state, talking, &data(number::<2>(command.parameters, 4)? + 1, Some(offset), bytes), found)
        }
        (READ, true) => {
            let len = command.word(14).unwrap_or(0) << 16 | command.word(10)?;
            let bytes = command.bytes(command.word(12)?, len)?;
            transfer(state, talking, &data(0, None, bytes), found)
        }
        (TRANSACTION, false) if state.is_pipe(tree) => {
            let bytes = command.bytes(command.word(24)?, command.word(22)?)?;
            transfer(state, talking, &data(0, None, bytes), found)
        }
        (TRANSACTION, true) if state.is_pipe(tree) => {
            let bytes = command.bytes(command.word(14)?, command.word(12)?)?;
            transfer(state, talking, &data(0, None, bytes), found)
        }
        _ => false,
    })
}
