//! The engine that our informs and questions go to, which is authoritative for them (RFC 3414 §2.4): its discovery, its clock,
//! and what it answers.
//!
//! Owns what is known of that one engine. Which answer belongs to which request is the caller's.

use super::engines::{LocalKeys, TIME_WINDOW};
use super::keys::is_authentic;
use super::{User, seal};
use crate::encode::Trap;
use crate::message::{FLAG_REPORTABLE, Pdu, ScopedData, ScopedPdu, V3Message, tag};
use crate::refusal::Refusal;
use crate::walk::Bulk;

/// usmStats in a Report (RFC 3414 §5), without the number and the last zero.
const USM_STATS: [u32; 9] = [1, 3, 6, 1, 6, 3, 15, 1, 1];

/// What a message of that engine said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// Its ID or its clock is known now: what waits is to be sent (again).
    Learnt,
    /// The response to a request.
    Response(Pdu<'a>),
}

/// What is known of it.
#[derive(Debug)]
struct Known {
    id: Vec<u8>,
    keys: LocalKeys,
    boots: u32,
    time: u32,
    /// When that was its time, monotonic.
    heard_ns: u64,
}

/// The receiver of informs and questions in one user's name.
#[derive(Debug)]
pub struct Correspondent {
    user: User,
    known: Option<Known>,
    salt: u64,
}

impl Correspondent {
    /// Nothing is known of it yet. `salt`: where the counter of salts begins; random.
    pub fn new(user: User, salt: u64) -> Self {
        Self { user, known: None, salt }
    }

    /// Whether requests can be sealed; else [`Correspondent::probe`] goes first.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// It has not answered for long: it may be another one by now, to be asked anew.
    pub fn forget(&mut self) {
        self.known = None;
    }

    /// The question for its ID (RFC 3414 §4).
    pub fn probe(&mut self, id: i32) -> Option<Vec<u8>> {
        let scoped = Trap::bare().scoped(tag::GET, b"", b"", id);
        let none = LocalKeys { auth: None, privacy: None };
        self.salt = self.salt.wrapping_add(1);
        seal(id, FLAG_REPORTABLE, b"", (0, 0), b"", &none, &scoped, self.salt)
    }

    /// An inform; `None` while its ID is not known. `now_ns` is monotonic.
    pub fn inform(&mut self, id: i32, trap: &Trap, now_ns: u64) -> Option<Vec<u8>> {
        let scoped = trap.scoped(tag::INFORM, &self.known.as_ref()?.id, b"", id);
        self.request(id, &scoped, now_ns)
    }

    /// A question; `None` while its ID is not known. `now_ns` is monotonic.
    pub fn question(&mut self, id: i32, bulk: &Bulk, now_ns: u64) -> Option<Vec<u8>> {
        let scoped = bulk.scoped(&self.known.as_ref()?.id, id);
        self.request(id, &scoped, now_ns)
    }

    fn request(&mut self, id: i32, scoped: &[u8], now_ns: u64) -> Option<Vec<u8>> {
        let known = self.known.as_ref()?;
        // Without authentication nobody looks at the clock.
        let elapsed = (now_ns.saturating_sub(known.heard_ns) / 1_000_000_000) as u32;
        let clock = if known.boots == 0 { (0, 0) } else { (known.boots, known.time.wrapping_add(elapsed)) };
        self.salt = self.salt.wrapping_add(1);
        seal(id, FLAG_REPORTABLE, &known.id, clock, &self.user.name, &known.keys, scoped, self.salt)
    }

    /// Reads what came back. An encrypted scoped PDU is decrypted into `plain`.
    ///
    /// # Errors
    /// It is not from that engine, not authentic, or a Report that the user or its passwords are wrong.
    pub fn hear<'a>(
        &mut self,
        message: &V3Message<'a>,
        now_ns: u64,
        plain: &'a mut Vec<u8>,
    ) -> Result<Heard<'a>, Refusal> {
        let authentic = self.authentic(message)?;
        let scoped = match (message.data, self.known.as_ref().and_then(|known| known.keys.privacy.as_ref())) {
            (ScopedData::Plain(bytes), _) => bytes,
            (ScopedData::Encrypted(data), Some((protocol, key))) if authentic => {
                plain.clear();
                plain.extend_from_slice(data);
                protocol.decrypt(key, message.boots, message.time, message.salt, plain).ok_or(Refusal::Decryption)?;
                &plain[..]
            }
            _ => return Err(Refusal::SecurityLevel),
        };
        let pdu = ScopedPdu::parse(scoped).map_err(|_| Refusal::Malformed)?.pdu;
        match pdu.tag {
            tag::RESPONSE => {
                // It has the security of the request, or it is somebody else's.
                let wanted = self.user.flags();
                if message.flags & wanted != wanted || (wanted != 0 && !authentic) || !self.is_fresh(message, now_ns) {
                    return Err(Refusal::SecurityLevel);
                }
                Ok(Heard::Response(pdu))
            }
            tag::REPORT => {
                let name: Vec<u32> =
                    pdu.varbinds.iter().next().map(|varbind| varbind.name.arcs().collect()).unwrap_or_default();
                match name.strip_prefix(&USM_STATS) {
                    Some([4, 0]) => self.discovered(message, now_ns),
                    Some([2, 0]) if authentic => self.set_clock(message, now_ns),
                    Some([1, 0]) => Err(Refusal::SecurityLevel),
                    Some([3, 0]) => Err(Refusal::UnknownUser),
                    Some([5, 0]) => Err(Refusal::WrongDigest),
                    Some([6, 0]) => Err(Refusal::Decryption),
                    _ => Err(Refusal::TimeWindow),
                }
            }
            _ => Err(Refusal::NotANotification),
        }
    }

    /// Whether it has a code, and the code is right.
    fn authentic(&self, message: &V3Message<'_>) -> Result<bool, Refusal> {
        if message.model != 3 {
            return Err(Refusal::SecurityModel);
        }
        let Some(known) = &self.known else { return Ok(false) };
        if known.id != message.engine_id {
            return Err(Refusal::UnknownEngine);
        }
        match &known.keys.auth {
            Some((protocol, key)) if message.flags & crate::message::FLAG_AUTH != 0 => {
                let right = is_authentic(*protocol, key, message.whole, message.mac_at, message.mac);
                if right { Ok(true) } else { Err(Refusal::WrongDigest) }
            }
            _ => Ok(false),
        }
    }

    /// Its ID, told by itself; who already is known is not replaced.
    fn discovered<'a>(&mut self, message: &V3Message<'_>, now_ns: u64) -> Result<Heard<'a>, Refusal> {
        if self.known.is_some() || !(5..=32).contains(&message.engine_id.len()) {
            return Err(Refusal::UnknownEngine);
        }
        let keys = self.user.keys_for(message.engine_id);
        // The clock comes with an authentic message only (RFC 3414 §4, second step).
        self.known = Some(Known { id: message.engine_id.to_vec(), keys, boots: 0, time: 0, heard_ns: now_ns });
        Ok(Heard::Learnt)
    }

    fn set_clock<'a>(&mut self, message: &V3Message<'_>, now_ns: u64) -> Result<Heard<'a>, Refusal> {
        let Some(known) = &mut self.known else { return Err(Refusal::UnknownEngine) };
        // It never goes back: an old Report is somebody's replay (RFC 3414 §3.2 7b).
        if (message.boots, message.time) <= (known.boots, known.time) && known.boots != 0 {
            return Err(Refusal::Replayed);
        }
        (known.boots, known.time, known.heard_ns) = (message.boots, message.time, now_ns);
        Ok(Heard::Learnt)
    }

    fn is_fresh(&self, message: &V3Message<'_>, now_ns: u64) -> bool {
        let Some(known) = self.known.as_ref().filter(|_| self.user.flags() != 0) else { return true };
        let elapsed = now_ns.saturating_sub(known.heard_ns) / 1_000_000_000;
        let now = u64::from(known.time) + elapsed;
        message.boots == known.boots && u64::from(message.time) + u64::from(TIME_WINDOW) >= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, parse};
    use crate::usm::{AuthProtocol, LocalEngine, PrivProtocol, Usm};

    fn user(password: &str) -> User {
        User::new("sensor", Some((AuthProtocol::Sha256, password)), Some((PrivProtocol::Aes128, "secretive1"))).unwrap()
    }

    fn v3(bytes: &[u8]) -> V3Message<'_> {
        let Ok(Message::V3(message)) = parse(bytes) else { panic!("{bytes:x?}") };
        message
    }

    /// The station's part: its answer or its Report.
    fn station(usm: &mut Usm, datagram: &[u8], now_ns: u64) -> Vec<u8> {
        let message = v3(datagram);
        let mut plain = Vec::new();
        match usm.open(&message, now_ns, &mut plain) {
            Err(refused) => refused.report.unwrap(),
            Ok(opened) => {
                let scoped = ScopedPdu::parse(&plain).unwrap();
                assert_eq!(scoped.pdu.tag, tag::INFORM);
                let response = Trap::bare().scoped(tag::RESPONSE, b"", b"", scoped.pdu.request_id());
                usm.answer(&message, opened, &response, now_ns).unwrap()
            }
        }
    }

    /// What it heard: the answered request's ID, or `None` if it learnt something.
    fn hear(far: &mut Correspondent, bytes: &[u8], now_ns: u64) -> Result<Option<i32>, Refusal> {
        far.hear(&v3(bytes), now_ns, &mut Vec::new()).map(|heard| match heard {
            Heard::Learnt => None,
            Heard::Response(pdu) => Some(pdu.request_id()),
        })
    }

    #[test]
    fn an_inform_is_answered_after_discovery_and_the_clock() {
        let second = 1_000_000_000;
        let local = LocalEngine { id: b"\x80\0\0\0\x04station".to_vec(), boots: 9, started_ns: 0 };
        let mut usm = Usm::new(local, vec![user("authentic1")], 5);
        let mut far = Correspondent::new(user("authentic1"), 77);
        let trap = Trap::new(&[1, 3, 6, 1, 4, 1, 9], 7);
        assert!(far.inform(1, &trap, 0).is_none());
        let probe = far.probe(1).unwrap();
        let report = station(&mut usm, &probe, 500 * second);
        assert_eq!(hear(&mut far, &report, 0), Ok(None));
        let inform = far.inform(2, &trap, 0).unwrap();
        let report = station(&mut usm, &inform, 500 * second);
        assert_eq!(hear(&mut far, &report, 0), Ok(None), "the clock");
        let inform = far.inform(3, &trap, 2 * second).unwrap();
        let answer = station(&mut usm, &inform, 502 * second);
        assert_eq!(hear(&mut far, &answer, 2 * second), Ok(Some(3)));
        let mut changed = answer.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(hear(&mut far, &changed, 2 * second), Err(Refusal::WrongDigest));
        assert_eq!(hear(&mut far, &report, 2 * second), Err(Refusal::Replayed));
        assert_eq!(hear(&mut far, &answer, 400 * second), Err(Refusal::SecurityLevel), "an old answer");
    }

    #[test]
    fn a_wrong_password_is_named() {
        let local = LocalEngine { id: b"\x80\0\0\0\x04station".to_vec(), boots: 9, started_ns: 0 };
        let mut usm = Usm::new(local, vec![user("authentic1")], 5);
        let mut far = Correspondent::new(user("another one"), 77);
        let probe = far.probe(1).unwrap();
        let report = station(&mut usm, &probe, 1);
        hear(&mut far, &report, 1).unwrap();
        let inform = far.inform(2, &Trap::new(&[1, 3, 6], 7), 1).unwrap();
        let report = station(&mut usm, &inform, 1);
        assert_eq!(hear(&mut far, &report, 1), Err(Refusal::WrongDigest));
    }
}
