//! Who may send: addresses that are taken, addresses that are known, and how much one address and one network may send.
//!
//! Owns the lists and the rates. It judges by the datagram's source alone, before a byte of it is decoded.

use std::net::IpAddr;

use ipnet::IpNet;
use ringtap_snmp::rate::{Bucket, Buckets, Rate};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::cause::Cause;
use crate::shares::network;

/// Buckets of addresses, and of networks: what shares one shares its rate.
const BUCKETS: usize = 1 << 16;
/// Seconds of a rate that may come at once: alarms come in storms.
const BURST: u64 = 10;

/// Who may send, and how much of it came.
#[derive(Debug, Default)]
pub struct Admission {
    senders: Senders,
    address: Option<Limit>,
    network: Option<Limit>,
}

/// A network of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(crate) struct Net(pub(crate) IpNet);

impl TryFrom<String> for Net {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        network_of(&text).map(Self)
    }
}

/// A network as one writes it: ADDRESS/BITS, or one address.
///
/// # Errors
/// It is neither, or names an address within its network.
pub fn network_of(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_canonical().into());
    }
    let net: IpNet = text.parse().map_err(|_| {
        format!("{text:?} is no network; give ADDRESS/BITS such as 192.0.2.0/24 or 2001:db8::/32, or an address")
    })?;
    let (whole, address) = (net.trunc(), net.addr());
    if whole != net {
        return Err(format!("{text:?} names an address within its network; give {whole} or {address}"));
    }
    Ok(net)
}

/// Who may send, as configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Senders {
    /// Take what comes from these only; none: from all.
    pub sources: Vec<IpNet>,
    /// Known senders; none: `sources`.
    pub known: Vec<IpNet>,
    /// Datagrams a second from one address.
    pub address_rate: Option<u64>,
    /// Datagrams a second from one network: /24 of IPv4, /64 of IPv6.
    pub network_rate: Option<u64>,
}

impl Senders {
    /// Whether anything of this address is taken.
    pub fn take(&self, source: IpAddr) -> bool {
        self.sources.is_empty() || is_in(&self.sources, source)
    }

    /// Whether this address is a known one.
    pub fn know(&self, source: IpAddr) -> bool {
        is_in(if self.known.is_empty() { &self.sources } else { &self.known }, source)
    }
}

fn is_in(nets: &[IpNet], source: IpAddr) -> bool {
    let source = source.to_canonical();
    nets.iter().any(|net| net.contains(&source))
}

#[derive(Debug)]
struct Limit {
    rate: Rate,
    buckets: Buckets,
}

impl Limit {
    fn new(per_second: u64) -> Self {
        Self { rate: Rate { per_second, burst: per_second.saturating_mul(BURST) }, buckets: Buckets::new(BUCKETS) }
    }
}

impl Admission {
    /// By what is configured.
    pub fn new(senders: Senders) -> Self {
        let (address, network) = (senders.address_rate.map(Limit::new), senders.network_rate.map(Limit::new));
        Self { senders, address, network }
    }

    /// By other lists and rates from now on. What came so far counts against a rate that stays.
    pub fn replace(&mut self, senders: Senders) {
        if senders.address_rate != self.senders.address_rate {
            self.address = senders.address_rate.map(Limit::new);
        }
        if senders.network_rate != self.senders.network_rate {
            self.network = senders.network_rate.map(Limit::new);
        }
        self.senders = senders;
    }

    /// Whether this sender's datagram is taken now, and whether it is a known one, as any with a certificate is. `now_ns` is monotonic.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn admit(&mut self, source: IpAddr, is_certified: bool, now_ns: u64) -> Result<bool, Cause> {
        if !self.senders.take(source) {
            return Err(Cause::Source);
        }
        let is_known = is_certified || self.senders.know(source);
        let source = source.to_canonical();
        // Strangers share no bucket with known senders.
        let mut address = self.address.as_mut().map(|limit| (limit.buckets.of((is_known, source)), limit.rate));
        let mut network =
            self.network.as_mut().map(|limit| (limit.buckets.of((is_known, network(source))), limit.rate));
        let is_over = |limit: &mut Option<(&mut Bucket, Rate)>| {
            limit.as_mut().is_some_and(|(bucket, rate)| !bucket.has(*rate, now_ns))
        };
        if is_over(&mut address) {
            return Err(Cause::SourceRate);
        }
        if is_over(&mut network) {
            return Err(Cause::NetworkRate);
        }
        address.into_iter().chain(network).for_each(|(bucket, rate)| bucket.take(rate));
        Ok(is_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_listed_sources_are_taken_and_these_are_known() {
        let senders = Senders { sources: nets(&["192.0.2.0/24", "2001:db8::/32"]), ..Senders::default() };
        let mut admission = Admission::new(senders);
        let mut admit = |source: &str| admission.admit(source.parse().unwrap(), false, S);
        for source in ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::9"] {
            assert_eq!(admit(source), Ok(true), "{source}");
        }
        for source in ["192.0.3.7", "2001:db9::9", "::ffff:10.0.0.1"] {
            assert_eq!(admit(source), Err(Cause::Source), "{source}");
        }
        let mut all = Admission::new(Senders { known: nets(&["10.0.0.0/8"]), ..Senders::default() });
        assert_eq!(all.admit("10.1.2.3".parse().unwrap(), false, S), Ok(true));
        assert_eq!(all.admit("11.1.2.3".parse().unwrap(), false, S), Ok(false));
        assert_eq!(all.admit("11.1.2.3".parse().unwrap(), true, S), Ok(true));
    }

    #[test]
    fn other_lists_and_rates_count_from_now_on_and_a_rate_that_stays_goes_on() {
        let source = "192.0.2.1".parse().unwrap();
        let with = |address_rate, known: &[&str]| Senders { address_rate, known: nets(known), ..Senders::default() };
        let mut admission = Admission::new(with(Some(1), &[]));
        let taken = |admission: &mut Admission| (0..20).filter(|_| admission.admit(source, false, S).is_ok()).count();
        assert_eq!(taken(&mut admission), 10);
        admission.replace(with(Some(1), &["10.0.0.0/8"]));
        assert_eq!(taken(&mut admission), 0, "the same rate");
        admission.replace(with(Some(2), &["192.0.2.1/32"]));
        assert_eq!((taken(&mut admission), admission.admit(source, false, 2 * S)), (20, Ok(true)));
        admission.replace(Senders { sources: nets(&["10.0.0.0/8"]), ..Senders::default() });
        assert_eq!(admission.admit(source, false, 2 * S), Err(Cause::Source));
    }

    #[test]
    fn an_address_and_a_network_have_a_rate_and_a_storm_at_once() {
        let senders = Senders {
            address_rate: Some(10),
            network_rate: Some(15),
            known: nets(&["198.51.100.1/32"]),
            ..Senders::default()
        };
        let mut admission = Admission::new(senders);
        let mut taken = |source: &str, is_certified, now_ns, tries: usize| {
            let source: IpAddr = source.parse().unwrap();
            let results: Vec<_> = (0..tries).map(|_| admission.admit(source, is_certified, now_ns)).collect();
            (results.iter().filter(|result| result.is_ok()).count(), results.last().unwrap().err())
        };
        assert_eq!(taken("192.0.2.1", false, S, 500), (100, Some(Cause::SourceRate)));
        assert_eq!(taken("192.0.2.2", false, S, 500), (50, Some(Cause::NetworkRate)));
        assert_eq!(taken("192.0.2.1", false, 2 * S, 500), (10, Some(Cause::SourceRate)));
        assert_eq!(taken("198.51.100.1", false, S, 50), (50, None));
        assert_eq!(taken("192.0.2.1", true, 2 * S, 50), (50, None), "with a certificate it is another");
    }
}
