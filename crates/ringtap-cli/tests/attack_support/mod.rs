//! An attack of two stages: the sensor's rules of the stages, and the correlation.

/// Rules of the stages, by words in payloads.
#[allow(dead_code, reason = "of a sensor: who sends alarms by itself needs none")]
pub const STAGES: &str = "\
alert udp any any -> any any (msg:\"Scan\"; content:\"SCAN\"; sid:1;)
alert udp any any -> any any (msg:\"Exploit\"; content:\"EVIL\"; sid:2;)
";

/// A scan of a host, then an exploit there, within the timespan.
pub fn correlation(timespan: &str) -> String {
    format!(
        "title: Scan
name: scan
logsource: {{category: ids}}
detection: {{s: {{alert.signature: 'Scan'}}, condition: s}}
---
title: Exploit
name: exploit
logsource: {{category: ids}}
detection: {{s: {{alert.signature_id: 2}}, condition: s}}
---
title: Scan, then exploit
name: attack
level: high
correlation: {{type: temporal_ordered, rules: [scan, exploit], group-by: dest_ip, timespan: {timespan}}}
"
    )
}
