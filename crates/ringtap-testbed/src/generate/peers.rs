//! Who is at the other end: the neighbours the kernel knows for certain, or is made to ask for (ARP, neighbour discovery).
//!
//! Owns the questions (`ip neighbour`, permanent entries, which a testbed makes for both ends; `ip route get`). Does not own
//! what is done with the answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use serde_json::Value;

use crate::tools;

/// A host that can be reached over an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its IP address.
    pub address: IpAddr,
    /// Its MAC address.
    pub mac: [u8; 6],
}

/// The permanent neighbours on an interface of the calling thread's network namespace, IPv4 first.
///
/// # Errors
/// ip(8) is missing, or there is no such interface.
pub fn neighbours_here(interface: &str) -> Result<Vec<Neighbour>> {
    let arguments = format!("-json neighbour show dev {interface} nud permanent");
    let text = tools::run("ip", &arguments)?;
    parse(&text).map_err(|error| Error::failed("read", format!("ip {arguments}"), error))
}

/// The MAC address behind which `address` is reached over an interface of the calling thread's network namespace: that of the host
/// itself or of the router to it. The kernel is made to ask by an empty datagram to the discard port (RFC 863). `None`:
/// there is no route over this interface, or nobody answers.
///
/// # Errors
/// ip(8) is missing.
pub fn ask_for(interface: &str, address: IpAddr) -> Result<Option<[u8; 6]>> {
    const DISCARD: u16 = 9;
    /// ARP asks three times, a second apart.
    const PATIENCE: Duration = Duration::from_secs(3);
    let Ok(text) = tools::run("ip", &format!("-json route get {address} oif {interface}")) else { return Ok(None) };
    let routes: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    let Some(route) = routes.first().filter(|route| route["dev"] == interface && route["type"] != "local") else {
        return Ok(None);
    };
    let hop = route["gateway"].as_str().map_or_else(|| address.to_string(), str::to_owned);
    let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let source = route["prefsrc"].as_str().and_then(|source| source.parse().ok()).unwrap_or(any);
    let asked = UdpSocket::bind((source, 0)).and_then(|socket| socket.send_to(&[], (address, DISCARD)));
    let since = Instant::now();
    while asked.is_ok() && since.elapsed() < PATIENCE {
        let text = tools::run("ip", &format!("-json neighbour show to {hop} dev {interface}"))?;
        if let Some(found) = parse(&text).ok().and_then(|found| found.first().copied()) {
            return Ok(Some(found.mac));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(None)
}

fn parse(text: &str) -> Result<Vec<Neighbour>, serde_json::Error> {
    // Without neighbours ip prints nothing at all, or an empty list.
    let entries: Vec<Value> = if text.trim().is_empty() { Vec::new() } else { serde_json::from_str(text)? };
    let mut neighbours: Vec<Neighbour> = entries.iter().filter_map(neighbour).collect();
    neighbours.sort_by_key(|neighbour| (neighbour.address.is_ipv6(), neighbour.address));
    Ok(neighbours)
}

fn neighbour(entry: &Value) -> Option<Neighbour> {
    Some(Neighbour { address: entry["dst"].as_str()?.parse().ok()?, mac: read_mac(entry["lladdr"].as_str()?)? })
}

/// Reads six pairs of hexadecimal digits with colons or hyphens between them: `02:00:00:00:00:01`.
pub fn read_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next()?;
        if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses() {
        assert_eq!(read_mac("02:00:00:00:00:fe"), Some([2, 0, 0, 0, 0, 254]));
        assert_eq!(read_mac("02-00-00-00-00-FE"), Some([2, 0, 0, 0, 0, 254]));
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "02:00:00:00:00:0g", "2:0:0:0:0:1", "02:00:00:00:00:+1"]
        {
            assert_eq!(read_mac(bad), None, "{bad}");
        }
    }

    #[test]
    fn answers_of_ip_are_read() {
        let text = r#"[ {"dst":"2001:2::2","lladdr":"02:00:00:00:00:02","state":["PERMANENT"]},
            {"dst":"198.18.0.2","lladdr":"02:00:00:00:00:02","state":["PERMANENT"]}, {"dst":"224.0.0.1"} ]"#;
        let got = parse(text).unwrap();
        assert_eq!(got.len(), 2);
        assert_eq!(got[0], Neighbour { address: "198.18.0.2".parse().unwrap(), mac: [2, 0, 0, 0, 0, 2] });
        assert!(got[1].address.is_ipv6());
        assert_eq!(parse("").unwrap(), []);
        assert!(parse("[{]").is_err());
    }
}
