//! Owns: connections that others announce (`protocol::Expected`): between the same two hosts, where their announcer was seen (outside of
//! tunnels or at one level of them, in the same VLANs), at a port that one of them names.
//! Does not: know what is spoken on either. Each is taken once, and forgotten after a time.

use super::bounded_map::BoundedMap;
use crate::alert::FlowView;
use crate::fixed_vec::SpareVisitor;
use crate::protocol::dialog::State;
use crate::protocol::{App, Expected, Place};
use crate::rules::address_number;

/// Announcements at one time.
const CAPACITY: usize = 1024;
/// How long one is good, as Suricata has it.
const LIFE_NS: u64 = 30_000_000_000;

/// Which connection is announced.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    takes: u128,
    opens: u128,
    /// At which it is taken.
    port: u16,
    vlan: [u16; 2],
    level: u8,
}

impl Key {
    /// At this place of the flow's two hosts.
    fn new(flow: &FlowView<'_>, place: Place) -> Self {
        let (client, server) = (address_number(flow.client().0), address_number(flow.server().0));
        let (takes, opens) = if place.by_server { (server, client) } else { (client, server) };
        Self { takes, opens, port: place.port, vlan: flow.vlan(), level: flow.level() }
    }
}

pub(crate) struct ExpectedFlows {
    table: BoundedMap<Key, Option<Announced>>,
}

#[derive(Clone)]
struct Announced {
    app: App,
    /// What is known of it.
    state: State,
    /// Until when it may begin.
    until_ns: u64,
    /// The ports of the connection that announced it: another one takes nothing of it back.
    by: [u16; 2],
}

impl ExpectedFlows {
    pub(crate) fn new() -> Self {
        Self { table: BoundedMap::new(CAPACITY) }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.table.show_spare(to);
    }

    /// Whether anything was announced in this run.
    pub(crate) fn has_any(&self) -> bool {
        self.table.was_used()
    }

    /// Announcements that were forgotten for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted
    }

    /// The flow's application announces another connection.
    pub(crate) fn add(&mut self, by: &FlowView<'_>, expected: Expected, now_ns: u64) {
        let ports = [by.client().1, by.server().1];
        if let Some(key) = expected.instead_of.map(|place| Key::new(by, place))
            && self.table.find(&key).is_some_and(|it| it.as_ref().is_some_and(|it| it.by == ports))
        {
            self.table.forget(&key);
        }
        let place = self.table.entry(Key::new(by, expected.place), now_ns);
        let until_ns = now_ns + LIFE_NS;
        *place = Some(Announced { app: expected.app, state: expected.state, until_ns, by: ports });
    }

    /// What was announced of a flow, once.
    pub(crate) fn take(&mut self, flow: &FlowView<'_>) -> Option<(App, State)> {
        let place = Place { by_server: true, port: flow.server().1 };
        let it = self.table.forget(&Key::new(flow, place)).flatten()?;
        (flow.times_ns().0 <= it.until_ns).then_some((it.app, it.state))
    }
}
