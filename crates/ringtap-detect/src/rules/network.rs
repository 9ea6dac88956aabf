//! Owns: addresses and ports as rules write them: variables, lists, negation, CIDR and ranges; and the stock values of
//! the variables.
//! Does not: look names up, or know interfaces.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::ranges::{Ranges, address_number};

/// Lists and variables deeper than this are refused, so that a variable that names itself ends.
const MAX_DEPTH: usize = 16;
/// The greatest port.
pub const MAX_PORT: u128 = u16::MAX as u128;

/// Names that rules use for addresses (`$HOME_NET`) and ports (`$HTTP_PORTS`), without the dollar sign.
#[derive(Clone, Debug)]
pub struct Variables {
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<String, String>,
}

impl Default for Variables {
    /// The values that Suricata's packaged configuration has.
    fn default() -> Self {
        let mut this = Self { addresses: BTreeMap::new(), ports: BTreeMap::new() };
        this.set("HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]");
        this.set("EXTERNAL_NET", "!$HOME_NET");
        for servers in ["HTTP", "SMTP", "SQL", "DNS", "TELNET", "DC"] {
            this.set(&format!("{servers}_SERVERS"), "$HOME_NET");
        }
        this.set("AIM_SERVERS", "$EXTERNAL_NET");
        for side in ["DNP3_SERVER", "DNP3_CLIENT", "MODBUS_CLIENT", "MODBUS_SERVER", "ENIP_CLIENT", "ENIP_SERVER"] {
            this.set(side, "$HOME_NET");
        }
        for (name, ports) in [
            ("HTTP_PORTS", "80"),
            ("SHELLCODE_PORTS", "!80"),
            ("ORACLE_PORTS", "1521"),
            ("SSH_PORTS", "22"),
            ("DNP3_PORTS", "20000"),
            ("MODBUS_PORTS", "502"),
            ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
            ("FTP_PORTS", "21"),
            ("GENEVE_PORTS", "6081"),
            ("VXLAN_PORTS", "4789"),
            ("TEREDO_PORTS", "3544"),
        ] {
            this.set(name, ports);
        }
        this
    }
}

impl Variables {
    /// Gives a variable its value. A name that ends in `_PORTS` is one of ports, any other one of addresses.
    pub fn set(&mut self, name: &str, value: &str) {
        let table = if name.ends_with("_PORTS") { &mut self.ports } else { &mut self.addresses };
        table.insert(name.to_owned(), value.to_owned());
    }

    /// The addresses that `text` stands for.
    ///
    /// # Errors
    /// What could not be read, or that nothing is left.
    pub fn addresses(&self, text: &str) -> Result<Ranges, String> {
        Reader { table: &self.addresses, max: u128::MAX, item: address_item }.read(text)
    }

    /// The ports that `text` stands for.
    ///
    /// # Errors
    /// What could not be read, or that nothing is left.
    pub fn ports(&self, text: &str) -> Result<Ranges, String> {
        Reader { table: &self.ports, max: MAX_PORT, item: port_item }.read(text)
    }
}

/// Lists have one grammar; only their items differ.
struct Reader<'v> {
    table: &'v BTreeMap<String, String>,
    max: u128,
    item: fn(&str) -> Result<Ranges, String>,
}

impl Reader<'_> {
    fn read(&self, text: &str) -> Result<Ranges, String> {
        let set = self.set(text, 0)?;
        if set.is_empty() { Err(format!("nothing is left of {text}")) } else { Ok(set) }
    }

    fn set(&self, text: &str, depth: usize) -> Result<Ranges, String> {
        if depth > MAX_DEPTH {
            return Err("lists or variables are nested too deeply".to_owned());
        }
        let text = text.trim();
        if let Some(rest) = text.strip_prefix('!') {
            return Ok(Ranges::all(self.max).without(&self.set(rest, depth + 1)?));
        }
        if let Some(name) = text.strip_prefix('$') {
            let value = self.table.get(name).ok_or_else(|| format!("variable ${name} is not defined"))?;
            return self.set(value, depth + 1);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(|| format!("the list {text} is not closed"))?;
            return self.list(inner, depth);
        }
        if text == "any" { Ok(Ranges::all(self.max)) } else { (self.item)(text) }
    }

    /// Items that are not negated make the set (all, if there are none); those negated are taken out.
    fn list(&self, inner: &str, depth: usize) -> Result<Ranges, String> {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let mut open = 0usize;
        for part in inner.split(|letter| {
            match letter {
                '[' => open += 1,
                ']' => open = open.saturating_sub(1),
                _ => {}
            }
            letter == ',' && open == 0
        }) {
            let part = part.trim();
            // `!$VAR` whose value is itself negated is a positive set; so sets are negated, not texts.
            if let Some(rest) = part.strip_prefix('!') {
                without.push(self.set(rest, depth + 1)?);
            } else {
                with.push(self.set(part, depth + 1)?);
            }
        }
        // Each list is put in order once: reputation lists have tens of thousands of items.
        let with = if with.is_empty() { Ranges::all(self.max) } else { Ranges::union(&with) };
        Ok(with.without(&Ranges::union(&without)))
    }
}

fn address_item(text: &str) -> Result<Ranges, String> {
    let bad = || format!("'{text}' is no address");
    let number = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| bad());
    if let Some((low, high)) = text.split_once('-') {
        let (low, high) = (number(low)?, number(high)?);
        if low.is_ipv4() != high.is_ipv4() || low > high {
            return Err(format!("'{text}' is no range of addresses"));
        }
        return Ok(Ranges::of(address_number(low), address_number(high)));
    }
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (number(address)?, Some(prefix)),
        None => (number(text)?, None),
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = match prefix {
        None => width,
        Some(mask) if mask.contains('.') && address.is_ipv4() => {
            let IpAddr::V4(mask) = number(mask)? else { return Err(bad()) };
            let mask = u32::from(mask);
            if mask.leading_ones() + mask.trailing_zeros() != 32 {
                return Err(format!("'{text}' has a mask with holes"));
            }
            mask.leading_ones()
        }
        Some(prefix) => prefix.parse::<u32>().ok().filter(|&bits| bits <= width).ok_or_else(bad)?,
    };
    let host = width - bits;
    let mask = if host == 128 { u128::MAX } else { (1u128 << host) - 1 };
    let first = address_number(address) & !mask;
    Ok(Ranges::of(first, first | mask))
}

fn port_item(text: &str) -> Result<Ranges, String> {
    let bad = || format!("'{text}' is no port");
    let number = |text: &str, empty: u16| {
        let text = text.trim();
        if text.is_empty() { Ok(empty) } else { text.parse::<u16>().map_err(|_| bad()) }
    };
    if text.is_empty() {
        return Err(bad());
    }
    let (low, high) = match text.split_once(':') {
        Some((low, high)) => (number(low, 0)?, number(high, u16::MAX)?),
        None => (number(text, 0)?, number(text, 0)?),
    };
    if low > high { Err(format!("'{text}' is no range of ports")) } else { Ok(Ranges::of(low.into(), high.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(set: &Ranges, address: &str) -> bool {
        set.contains(address_number(address.parse().unwrap()))
    }

    #[test]
    fn stock_variables() {
        let variables = Variables::default();
        let home = variables.addresses("$HOME_NET").unwrap();
        assert!(has(&home, "10.255.0.1") && has(&home, "172.31.255.255") && !has(&home, "172.32.0.0"));
        let external = variables.addresses("$EXTERNAL_NET").unwrap();
        assert!(!has(&external, "192.168.1.1") && has(&external, "8.8.8.8") && has(&external, "2001:db8::1"));
        assert!(variables.ports("$SHELLCODE_PORTS").unwrap().contains(81));
        assert!(!variables.ports("$SHELLCODE_PORTS").unwrap().contains(80));
    }

    #[test]
    fn lists_with_holes() {
        let variables = Variables::default();
        let set = variables.addresses("[10.0.0.0/8, ![10.1.0.0/16,10.2.3.4], 2001:db8::/32]").unwrap();
        assert!(has(&set, "10.0.0.1") && has(&set, "2001:db8:ffff::"));
        assert!(!has(&set, "10.1.2.3") && !has(&set, "10.2.3.4") && !has(&set, "11.0.0.0"));
        assert!(has(&variables.addresses("0.0.0.0/0").unwrap(), "1.2.3.4"));
        assert!(!has(&variables.addresses("0.0.0.0/0").unwrap(), "::1"));
        let ports = variables.ports("[1024:,!6666:6669]").unwrap();
        assert!(ports.contains(1024) && ports.contains(6670) && !ports.contains(6667) && !ports.contains(80));
        assert!(has(&variables.addresses("192.168.0.0/255.255.0.0").unwrap(), "192.168.7.7"));
    }

    #[test]
    fn what_cannot_be_read() {
        let mut variables = Variables::default();
        variables.set("LOOP", "$LOOP");
        for text in
            ["$LOOP", "$NOBODY", "[1.2.3.4", "1.2.3", "1.2.3.4/33", "!any", "2.2.2.2-1.1.1.1", "1.1.1.1/255.0.255.0"]
        {
            assert!(variables.addresses(text).is_err(), "{text}");
        }
        for text in ["65536", "9:8", "", "x", "[80,,81]"] {
            assert!(variables.ports(text).is_err(), "{text}");
        }
    }
}
