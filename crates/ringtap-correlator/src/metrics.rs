//! Owns: the names of the correlator's metrics.
//! Does not: serve them; `ringtap-web` does.

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use ringtap_output::metrics::{encoded, labelled};

use crate::status::Status;

/// The account as OpenMetrics text.
#[must_use]
pub fn text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("ringtap_correlate");
    let (counts, engine) = (&status.counts, &status.engine);
    let mut counter = |name: &str, help: &str, value: u64| registry.register(name, help, ConstCounter::new(value));
    counter("events", "Events that came", counts.events);
    counter("matched", "Events that matched a detection", engine.matched);
    counter("duplicates", "Events that were there before", engine.duplicates);
    counter("judged_again", "Late events that were judged again", counts.judged_again);
    counter("not_judged", "Late events that were not judged again", counts.not_judged);
    counter("forced", "Events judged before their time, as too many of their key waited", engine.forced);
    counter("pushed", "Times the watermark went on early, as too many events waited", counts.pushed);
    counter("unsealed", "Events without a seal that named a registered sensor", counts.unsealed);
    counter("no_room", "Events of senders without a key that found no room", counts.no_room);
    counter("not_stored", "Changes of incidents that the store could not take", counts.not_stored);
    counter("not_told", "Announcements that an output could not take", status.not_told);
    let mut gauge = |name: &str, help: &str, value: i64| registry.register(name, help, ConstGauge::new(value));
    let (keys, bytes, waiting) = status.now;
    gauge("keys", "Keys that something is remembered of", keys as i64);
    gauge("key_bytes", "Memory of all keys", bytes as i64);
    gauge("waiting", "Events that wait for the watermark, once for each key", waiting as i64);
    if let Some(watermark_ns) = status.watermark_ns {
        gauge("watermark_nanoseconds", "Event time up to which all is certain, since 1970", watermark_ns);
    }
    if let Some((bytes, lost, damaged)) = status.log {
        gauge("log_bytes", "Bytes of the log", bytes as i64);
        registry.register("log_lost", "Events that the log could not take", ConstCounter::new(lost));
        registry.register("log_damaged", "Segments of the log that were damaged", ConstCounter::new(damaged));
    }
    by_input_and_rule(&mut registry, status);
    by_sensor(&mut registry, status);
    encoded(&registry)
}

fn by_input_and_rule(registry: &mut Registry, status: &Status) {
    let mut family = |name: &str, help: &str, label: &str, values: Vec<(&str, u64)>| {
        let values = values.into_iter().map(|(value, count)| (vec![(label.to_owned(), value.to_owned())], count));
        registry.register(name, help, labelled(values));
    };
    let inputs = |of: fn(&crate::status::Input) -> u64| {
        status.inputs.iter().map(|input| (input.name.as_str(), of(input))).collect::<Vec<_>>()
    };
    family("input_lines", "Lines and datagrams, by input", "input", inputs(|input| input.lines));
    family("input_bad", "Lines that were no event, by input", "input", inputs(|input| input.bad));
    family("input_dropped", "Datagrams that the kernel dropped, by input", "input", inputs(|input| input.dropped));
    let rules = |of: &dyn Fn(usize) -> u64| {
        status.rules.iter().enumerate().map(|(number, (rule, ..))| (rule.as_str(), of(number))).collect::<Vec<_>>()
    };
    let engine = &status.engine;
    family("incidents", "Incidents that opened, by rule", "rule", rules(&|number| status.rules[number].2));
    family("late", "Late events, by rule", "rule", rules(&|number| engine.late[number]));
    family(
        "forgotten",
        "Keys forgotten for want of memory, by rule",
        "rule",
        rules(&|number| engine.forgotten[number]),
    );
    let skipped = |number: usize| engine.skipped[number].iter().sum();
    family("skipped", "Events that could not be correlated, by rule", "rule", rules(&skipped));
    let [foreign, unknown, forged] = status.refused;
    let causes = vec![("foreign", foreign), ("unknown", unknown), ("forged", forged)];
    family("refused", "Messages without the seal of a registered sensor, by cause", "cause", causes);
}

fn by_sensor(registry: &mut Registry, status: &Status) {
    let mut family = |name: &str, help: &str, of: fn(&crate::sensors::SensorState) -> u64| {
        let values =
            status.registered.iter().map(|(name, state)| (vec![("sensor".to_owned(), name.to_string())], of(state)));
        registry.register(name, help, labelled(values));
    };
    family("sensor_heartbeats", "Heartbeats that counted, by sensor", |it| it.beats);
    family("sensor_lost", "Alarms that never came, by sensor", |it| it.lost);
    family("sensor_duplicates", "Alarms that came twice, by sensor", |it| it.duplicates);
    family("sensor_future", "Messages of the future, by sensor", |it| it.future);
    family("sensor_old", "Messages of long ago, by sensor", |it| it.old);
    family("sensor_silences", "Times a sensor was silent", |it| it.silences);
    let left_out = status.registered.iter().filter(|(_, it)| it.is_silent || it.is_quarantined).count();
    let help = "Registered sensors that are left out of the watermark now";
    registry.register("sensors_left_out", help, ConstGauge::new(left_out as i64));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use ringtap_sigma::{Limits, RuleSet};

    use super::*;
    use crate::correlator::{Correlator, Settings};
    use crate::input::keyring::Keyring;
    use crate::sensors::{Now, Registered};

    #[test]
    fn names_with_their_values() {
        let (automaton, _) = RuleSet::new().compile(Limits::default());
        let sensors = vec![Registered { number: 7, name: "north.1".into() }];
        let settings = Settings { sensors, ..Settings::default() };
        let correlator = Correlator::open(Arc::new(automaton), settings, None, Now::default()).unwrap();
        let status = Status::of(&correlator, &[], &Keyring::default(), 3, Duration::ZERO);
        let text = text(&status);
        assert!(text.contains("ringtap_correlate_not_told_total 3\n"), "{text}");
        assert!(text.contains("ringtap_correlate_sensor_lost_total{sensor=\"north.1\"} 0\n"), "{text}");
        assert!(text.contains("ringtap_correlate_refused_total{cause=\"forged\"} 0\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
