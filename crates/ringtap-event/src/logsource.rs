//! Owns: which logsources of rules an event belongs to.
//! Does not: look at what the event says beside its type.

use ringtap_sigma::Logsource;

use crate::event::Format;

/// What Sigma calls the source of an EVE event, by its type.
const CATEGORIES: &[(&str, &[&str])] = &[
    ("alert", &["ids", "alert"]),
    ("dns", &["dns", "dns_query"]),
    ("http", &["proxy", "webserver"]),
    ("flow", &["firewall", "network_connection", "flow"]),
    ("netflow", &["firewall", "network_connection", "flow"]),
];

/// Whether events of this format and EVE type belong to a logsource. JSON lines belong to each: whoever gives them says
/// by the rules which they are for.
#[must_use]
pub fn belongs(logsource: &Logsource, format: Format, event_type: &str) -> bool {
    let is = |part: &str, words: &[&str]| part.is_empty() || words.contains(&part);
    match format {
        Format::Json => true,
        Format::Alarm => {
            is(&logsource.category, &["alarm"])
                && is(&logsource.product, &["ringtap", "snmp", "syslog"])
                && is(&logsource.service, &["alarm", "station", "trap"])
        }
        Format::Eve => {
            let known = CATEGORIES.iter().find(|(kind, _)| *kind == event_type).map_or(&[][..], |(_, words)| *words);
            (is(&logsource.category, known) || logsource.category == event_type)
                && is(&logsource.product, &["suricata", "ringtap", "eve"])
                && is(&logsource.service, &[event_type])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_rules_and_types_of_events() {
        let logsource = |category: &str, product: &str, service: &str| Logsource {
            category: category.into(),
            product: product.into(),
            service: service.into(),
        };
        let suricata = logsource("", "suricata", "");
        assert!(belongs(&suricata, Format::Eve, "alert") && !belongs(&suricata, Format::Alarm, ""));
        assert!(belongs(&logsource("ids", "", ""), Format::Eve, "alert"));
        assert!(!belongs(&logsource("ids", "", ""), Format::Eve, "dns"));
        assert!(belongs(&logsource("", "suricata", "ssh"), Format::Eve, "ssh"));
        assert!(!belongs(&logsource("", "windows", ""), Format::Eve, "alert"));
        assert!(belongs(&logsource("", "windows", ""), Format::Json, ""));
        assert!(belongs(&logsource("alarm", "", ""), Format::Alarm, ""));
    }
}
