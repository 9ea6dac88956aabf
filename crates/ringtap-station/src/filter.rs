//! Which alarms of a store are meant: the same question of lists and of what is done with many at once.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use ringtap_snmp::names::Names;

use crate::alarm::{Alarm, Severity};
use crate::pattern::Pattern;
use crate::render;

/// Which alarms are meant: those that all of this is true of. Of a list one of its entries has to be; an empty one says nothing.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Cleared ones too.
    pub all: bool,
    /// At least so severe.
    pub least: Option<Severity>,
    /// The node, or who sent its notifications, is in one of these networks.
    pub networks: Vec<IpNet>,
    /// The node, as the alarm has it.
    pub nodes: Vec<Pattern>,
    /// The condition, by its number or name.
    pub conditions: Vec<Pattern>,
    /// The object within the node.
    pub objects: Vec<Pattern>,
    /// No notification of it came for so long.
    pub quiet: Option<Duration>,
    /// Whether it is acknowledged.
    pub acknowledged: Option<bool>,
    /// Whether it is in maintenance.
    pub maintenance: Option<bool>,
}

impl Filter {
    /// Whether it leaves any raised alarm out.
    pub fn is_narrow(&self) -> bool {
        let Self { all: _, least, networks, nodes, conditions, objects, quiet, acknowledged, maintenance } = self;
        least.is_some()
            || !(networks.is_empty() && nodes.is_empty() && conditions.is_empty() && objects.is_empty())
            || quiet.is_some()
            || acknowledged.is_some()
            || maintenance.is_some()
    }

    /// Whether an alarm is meant; `now_ns` is since 1970.
    pub fn matches(&self, alarm: &Alarm, names: &Names, now_ns: u64) -> bool {
        let is_one = |patterns: &[Pattern], texts: &[&str]| {
            patterns.is_empty() || patterns.iter().any(|pattern| texts.iter().any(|text| pattern.matches(text)))
        };
        let has_its_condition = || {
            self.conditions.is_empty()
                || is_one(&self.conditions, &[&alarm.key.condition, &render::condition(alarm, names)])
        };
        (self.all || !alarm.cleared)
            && self.least.is_none_or(|least| alarm.severity >= least)
            && (self.networks.is_empty() || is_within(&self.networks, &alarm.key.resource, alarm.origin.source))
            && is_one(&self.nodes, &[&alarm.key.resource])
            && is_one(&self.objects, &[&alarm.key.object])
            && self.quiet.is_none_or(|quiet| u128::from(now_ns.saturating_sub(alarm.last_ns)) >= quiet.as_nanos())
            && self.acknowledged.is_none_or(|wanted| alarm.acknowledged.is_some() == wanted)
            && self.maintenance.is_none_or(|wanted| alarm.maintenance == wanted)
            && has_its_condition()
    }
}

/// Whether a node, by its address, or who sent its notifications is in one of these networks.
pub(crate) fn is_within(networks: &[IpNet], resource: &str, source: Option<IpAddr>) -> bool {
    let node = resource.parse::<IpAddr>().ok();
    node.into_iter().chain(source).any(|address| {
        let address = address.to_canonical();
        networks.iter().any(|network| network.contains(&address))
    })
}
