//! Owns: what is kept of a connection: interfaces, calls that wait for results, and parts of calls.
//! Does not: read units (`parser.rs` does).

use super::parser::{self, Interface, Unit, header, unit};
use crate::protocol::Found;
use crate::protocol::dialog::Talking;

/// Interfaces of one connection, and calls that wait.
const INTERFACES: usize = 24;
const CALLS: usize = 8;

/// What is kept of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    interfaces: [(Interface, bool); INTERFACES],
    count: u8,
    /// Where the last bind's interfaces begin.
    last_bind: u8,
    calls: [Call; CALLS],
    next_call: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Call {
    /// Number, plus one; 0: none here.
    call: u64,
    context: u16,
    opnum: u16,
}

/// Where values go: each protocol that carries units has buffers of its own.
pub(crate) struct Buffers {
    pub(crate) iface: u8,
    pub(crate) opnum: u8,
    pub(crate) stub: u8,
}

impl State {
    fn bind(&mut self, new: impl Iterator<Item = Interface>) {
        self.last_bind = self.count;
        for interface in new {
            if usize::from(self.count) == INTERFACES {
                // The oldest makes room.
                self.interfaces.rotate_left(1);
                self.last_bind = self.last_bind.saturating_sub(1);
                self.count -= 1;
            }
            self.interfaces[usize::from(self.count)] = (interface, false);
            self.count += 1;
        }
    }

    fn put_interface(&self, context: u16, number: u8, found: &mut Found<'_>) {
        let known = &self.interfaces[..usize::from(self.count)];
        let of_call = known.iter().rev().find(|(interface, is_taken)| *is_taken && interface.context == context);
        if let Some((Interface { uuid, version, .. }, _)) = of_call {
            let mut value = [0; 18];
            value[..16].copy_from_slice(uuid);
            value[16..].copy_from_slice(&version.to_be_bytes());
            found.add(number, &value);
        }
    }
}

/// Hears one unit; whether rules may look at what it has said. A call of several parts is there with its last one.
pub(crate) fn hear(
    state: &mut State,
    talking: &mut Talking<'_>,
    bytes: &[u8],
    buffers: &Buffers,
    found: &mut Found<'_>,
) -> bool {
    let Some(Some(header)) = header(bytes) else { return false };
    let Some(unit) = unit(&header, bytes) else { return false };
    match unit {
        Unit::Bind(list) => {
            state.bind(parser::interfaces(&header, list));
            false
        }
        Unit::BindAck(list) => {
            let (from, to) = (usize::from(state.last_bind), usize::from(state.count));
            let bound = state.interfaces.get_mut(from..to).unwrap_or_default();
            bound.iter_mut().zip(parser::results(&header, list)).for_each(|((_, is_taken), result)| *is_taken = result);
            false
        }
        Unit::Request { context, opnum, stub } => {
            if !part(talking, &header, stub, buffers.stub, found) {
                return false;
            }
            state.calls[usize::from(state.next_call)] = Call { call: u64::from(header.call) + 1, context, opnum };
            state.next_call = (state.next_call + 1) % CALLS as u8;
            state.put_interface(context, buffers.iface, found);
            found.add(buffers.opnum, &opnum.to_be_bytes());
            true
        }
        Unit::Response { context, stub } => {
            if !part(talking, &header, stub, buffers.stub, found) {
                return false;
            }
            // What was called is said again, for rules about results.
            let asked = state.calls.iter().find(|call| call.call == u64::from(header.call) + 1);
            if let Some(call) = asked {
                found.add(buffers.opnum, &call.opnum.to_be_bytes());
            }
            state.put_interface(asked.map_or(context, |call| call.context), buffers.iface, found);
            true
        }
        Unit::Other => false,
    }
}

/// Takes a part of a call; whether it is whole by it.
fn part(
    talking: &mut Talking<'_>,
    header: &parser::UnitHeader,
    stub: &[u8],
    number: u8,
    found: &mut Found<'_>,
) -> bool {
    if header.is_first() {
        talking.drop_kept();
    }
    if header.is_first() && header.is_last() {
        found.add(number, stub);
        return true;
    }
    let kept = talking.keep(stub);
    if !header.is_last() && kept == stub.len() {
        return false;
    }
    talking.put_kept(number, found);
    talking.drop_kept();
    // What found no room is looked at with what follows.
    if !header.is_last() {
        talking.keep(&stub[kept..]);
    }
    true
}
