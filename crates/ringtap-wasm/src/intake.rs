//! Owns: one record of a sensor into events on their way to rules: what it is, which number it has among its equals, what it
//! matches; and what the sensor promises.
//! Does not: keep the windows of rules.

use std::collections::HashMap;
use std::convert::Infallible;

use ringtap_datagram::line::Line;
use ringtap_datagram::{Heartbeat, Message};
use ringtap_event::alarm::{Alarm, error_us, ns};
use ringtap_event::event::Event;
use ringtap_event::identity::Numbers;
use ringtap_event::incident::matched;
use ringtap_event::parse::{MAX_LINE, MAX_NAME, Parser, Wanted, is_from_the_future};
use ringtap_event::sensors::{Arrival, Beat, Numbered};
use ringtap_event::silence::silence;
use ringtap_sigma::{Identity, Mark, Matches};
use serde_json::json;

use crate::frames::{Frames, Kind, number};
use crate::hot::Kept;
use crate::versions::Configured;
use crate::{Host, NEVER};

/// Of a record, a name or a reason an aside has so many bytes: in JSON they become six times as many at most, and a topic takes 1 MiB.
const ASIDE_BYTES: usize = 8 << 10;
/// Stamps of one sender that are remembered, the latest: equal records are told apart so long.
const MOST_STAMPS: usize = 16_384;
/// What one takes in memory, near enough.
const STAMP_BYTES: usize = 64;

/// What a record is.
enum Came {
    /// With when it was built, by the clock of a sensor that seals, ns.
    Event(Event, Option<i64>),
    Beat(Heartbeat),
    Silent,
}

impl Host {
    /// Takes a record of a sensor, as the broker received it at `received_ns`, with what the host keeps of that sensor if it was
    /// asked for.
    pub fn intake(&mut self, received_ns: i64, sensor: &str, stored: Option<&[u8]>, record: &[u8], out: &mut Frames) {
        match read(sensor, record) {
            Err(why) => aside(out, sensor, &why, Some(record), None),
            Ok(Came::Silent) => self.promises.silent(sensor, received_ns, out),
            Ok(Came::Beat(beat)) => self.beat(sensor, &beat, (received_ns, record), out),
            Ok(Came::Event(mut event, built_ns)) => {
                if !event.is_numbered() && !self.number(&mut event, received_ns, stored, out) {
                    return;
                }
                self.event(sensor, (event, built_ns), (received_ns, record), out);
            }
        }
        self.promises.tell(false, out);
    }

    /// Gives an event its number among its equals; false: what is kept of its sensor is wanted, and nothing was done.
    fn number(&mut self, event: &mut Event, received_ns: i64, stored: Option<&[u8]>, out: &mut Frames) -> bool {
        let Mark { time_ns, clock, .. } = event.mark;
        let watermark = self.promises.watermark();
        if time_ns <= watermark || is_from_the_future(time_ns, clock.error_us, received_ns) {
            return true;
        }
        let sensor = event.mark.identity.sensor;
        let read = |bytes: Option<&[u8]>| Ok::<_, Infallible>(numbers(sensor, bytes.unwrap_or_default()));
        let Ok(is_done) = self.stamps.step(event.sensor.as_bytes(), stored, out, read, |numbers| {
            numbers.number(&mut event.mark, watermark);
            numbers.advance(watermark);
            while numbers.len() > MOST_STAMPS {
                numbers.forget_first();
            }
            (!numbers.is_empty()).then_some(NEVER)
        });
        is_done
    }

    fn beat(&mut self, sensor: &str, beat: &Heartbeat, (received_ns, record): (i64, &[u8]), out: &mut Frames) {
        let beat = Beat {
            epoch: beat.origin.epoch,
            last: beat.last_sequence,
            h_ns: Some(ns(beat.horizon_ns)).filter(|h| *h > 0),
            built_ns: ns(beat.sent_ns),
            error_us: error_us(beat.error_ns),
        };
        // The last one of a file promises that nothing at all follows: so far as it was sent is meant.
        let latest_ns = beat.h_ns.filter(|h| *h < i64::MAX).map_or(beat.built_ns, |h| h.max(beat.built_ns));
        if is_from_the_future(latest_ns, beat.error_us, received_ns) {
            aside(out, sensor, "future", Some(record), None);
        }
        self.promises.beat(sensor, &beat, received_ns, out);
    }

    fn event(
        &mut self,
        sensor: &str,
        (event, built_ns): (Event, Option<i64>),
        (received_ns, record): (i64, &[u8]),
        out: &mut Frames,
    ) {
        let Mark { time_ns, clock, .. } = event.mark;
        let Identity { epoch, sequence, .. } = event.mark.identity;
        let arrival = built_ns.and_then(|built_ns| {
            let numbered = Numbered { epoch, sequence, time_ns, built_ns, error_us: clock.error_us };
            self.promises.alarm(sensor, &numbered, received_ns, out)
        });
        let refused = match arrival {
            Some(Arrival::Future) => Some("future"),
            Some(Arrival::Duplicate) => Some("duplicate"),
            Some(Arrival::Old) => Some("of an epoch that ended long ago"),
            None if is_from_the_future(time_ns, clock.error_us, received_ns) => Some("future"),
            Some(Arrival::New) | None => None,
        };
        if let Some(why) = refused {
            return aside(out, sensor, why, Some(record), Some(&event.mark));
        }
        self.judge(&event, time_ns <= self.promises.watermark(), out);
        // Without heartbeats it has come as far as its events have, less their disorder.
        if let Some(Some(disorder)) = self.versions.sensors().get(sensor) {
            let greatest = time_ns.min(received_ns);
            self.promises.come(sensor, greatest.saturating_sub(*disorder).saturating_sub(1), out);
        }
    }

    fn judge(&mut self, event: &Event, is_late: bool, out: &mut Frames) {
        let Self { versions, matches, judged_ns, .. } = self;
        *judged_ns = (*judged_ns).max(Some(event.mark.time_ns));
        let Some(configured) = versions.at(event.mark.time_ns) else {
            return aside(
                out,
                &event.sensor,
                "no rules for its time",
                Some(event.line().as_bytes()),
                Some(&event.mark),
            );
        };
        let scope = configured.scopes.of(&configured.automaton, event);
        let (matcher, automaton) = (&mut configured.matcher, &configured.automaton);
        configured.scopes.columns(event.format).with_row(event, |row| {
            matcher.matches(automaton, &scope, row, event.mark, matches);
        });
        matches.skipped.iter().for_each(|_| out.push(Kind::Skipped, &[]));
        send(configured, matches, out);
        for &detection in matches.detections.iter().filter(|it| automaton.detections()[usize::from(**it)].announces) {
            let Mark { time_ns, identity, .. } = event.mark;
            let sensors = HashMap::from([(identity.sensor, event.sensor.to_string())]);
            let line = matched(detection, time_ns, &identity, is_late, automaton, &sensors);
            out.push(Kind::Line, line.to_string().as_bytes());
        }
    }
}

/// What goes to rules, each under the version of what its states depend on.
pub(crate) fn send(configured: &Configured, matches: &Matches, out: &mut Frames) {
    let mut bytes = Vec::new();
    for filling in matches.fillings() {
        let Some((rule, version)) = configured.numbered(filling.rule) else { continue };
        bytes.clear();
        filling.encode(&mut bytes);
        let len = (version.len() + filling.key.len()) as u32;
        out.push_of(Kind::Filling, &[&[rule.level], &len.to_le_bytes(), version, &filling.key, &bytes]);
    }
}

/// That an event was not judged, and why.
pub(crate) fn aside(out: &mut Frames, sensor: &str, why: &str, record: Option<&[u8]>, mark: Option<&Mark>) {
    let cut = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(ASIDE_BYTES)]).into_owned();
    let mut line = json!({"event": "aside", "why": cut(why.as_bytes()), "sensor": cut(sensor.as_bytes())});
    if let Some(Mark { time_ns, identity: Identity { epoch, sequence, .. }, .. }) = mark {
        line["time_ns"] = (*time_ns).into();
        line["epoch"] = format!("{epoch:016x}").into();
        line["sequence"] = (*sequence).into();
    }
    if let Some(record) = record {
        line["record"] = cut(record).into();
        if record.len() > ASIDE_BYTES {
            line["record_bytes"] = record.len().into();
        }
    }
    out.push(Kind::Aside, line.to_string().as_bytes());
}

fn read(sensor: &str, record: &[u8]) -> Result<Came, String> {
    let record = record.trim_ascii_end();
    if sensor.len() > MAX_NAME {
        return Err(format!("its key is longer than {MAX_NAME} bytes"));
    }
    if record.len() > MAX_LINE {
        return Err(format!("unreadable: longer than {MAX_LINE} bytes"));
    }
    let is_its = |name: &str| match name == sensor {
        true => Ok(()),
        false => Err(format!("foreign: it names {name:?} and has another's key")),
    };
    if let Ok(line) = Line::parse(record) {
        is_its(line.sensor().as_str())?;
        return Ok(match *line.unverified() {
            Message::Heartbeat(beat) => Came::Beat(beat),
            Message::Alert(alert) => {
                let built_ns = ns(alert.built_ns);
                Came::Event(Alarm { alert, texts: None }.event(sensor.into()), Some(built_ns))
            }
        });
    }
    if let Some(host) = silence(record) {
        return is_its(&host).map(|()| Came::Silent);
    }
    let event = Parser::new(Wanted::Auto, sensor).event(record).map_err(|bad| format!("unreadable: {bad}"))?;
    if event.is_like_a_sensor_s() {
        return Err("unreadable: it has a sensor's numbers, and is no line of one".into());
    }
    is_its(&event.sensor).map(|()| Came::Event(event, None))
}

/// Stamps of a sensor whose equal records are counted, as [`Kept::encode`] left them.
fn numbers(sensor: u64, mut bytes: &[u8]) -> Numbers {
    let (mut numbers, bytes) = (Numbers::default(), &mut bytes);
    while let (Some(time_ns), Some(epoch), Some(last)) = (number(bytes), number(bytes), number(bytes)) {
        let identity = Identity { sensor, epoch: epoch.cast_unsigned(), sequence: last.cast_unsigned() };
        numbers.note(&Mark { time_ns, identity, ..Mark::default() });
    }
    numbers
}

impl Kept for Numbers {
    fn weight(&self) -> usize {
        self.len() * STAMP_BYTES
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for Mark { time_ns, identity, .. } in self.last() {
            out.extend(time_ns.to_le_bytes());
            out.extend(identity.epoch.to_le_bytes());
            out.extend(identity.sequence.to_le_bytes());
        }
    }
}
