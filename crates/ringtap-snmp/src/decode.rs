//! From an SNMP datagram to a notification that may be believed, with the answer that an inform is owed.
//!
//! Owns the check of communities, the recognition of an inform sent again, and answers. Counts nothing and keeps nothing.

use std::net::SocketAddr;

use crate::message::{Message, ScopedData, ScopedPdu, Version, tag};
use crate::notification::Notification;
use crate::refusal::Refusal;
use crate::usm::{RecentSet, Refused, ReportLimit, SecurityLevel, Usm};

/// What communities, users and engines a station knows.
pub struct SnmpDecoder {
    /// Empty: any community.
    communities: Vec<Vec<u8>>,
    v3_only: bool,
    usm: Usm,
    /// The decrypted scoped PDU of the latest message.
    plain: Vec<u8>,
    informs: RecentSet,
    limit: ReportLimit,
}

impl std::fmt::Debug for SnmpDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SnmpDecoder({} communities, not shown; {:?})", self.communities.len(), self.usm)
    }
}

/// A notification that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Received<'a> {
    /// What it says.
    pub notification: Notification<'a>,
    /// The datagram that answers an inform, to be sent once the notification is durable.
    pub answer: Option<Vec<u8>>,
    /// The same inform came before: its answer was lost or late.
    pub again: bool,
    /// The scoped PDU, where it came encrypted.
    pub decrypted: Option<&'a [u8]>,
    /// The security that it came with.
    pub level: SecurityLevel,
}

impl SnmpDecoder {
    /// `communities` for v1 and v2c (none: any is taken); `usm` for v3.
    pub fn new(communities: Vec<Vec<u8>>, usm: Usm) -> Self {
        Self {
            communities,
            v3_only: false,
            usm,
            plain: Vec::new(),
            informs: RecentSet::default(),
            limit: ReportLimit::default(),
        }
    }

    /// Whether v1 and v2c are taken at all; they are, unless it is said.
    pub fn take_v1_v2c(&mut self, takes: bool) {
        self.v3_only = !takes;
    }

    /// Takes v1 and v2c with these communities from now on (none: any is taken).
    pub fn replace_communities(&mut self, communities: Vec<Vec<u8>>) {
        self.communities = communities;
    }

    /// Whether who sends v1 and v2c must know a community.
    pub fn asks_for_community(&self) -> bool {
        !self.communities.is_empty()
    }

    /// Users, and engines with their clocks.
    pub fn usm(&mut self) -> &mut Usm {
        &mut self.usm
    }

    /// Reports that were due and not sent, as there were too many of late.
    pub fn reports_withheld(&self) -> u64 {
        self.limit.withheld()
    }

    /// Decodes one datagram from `source` at monotonic time `now_ns`.
    ///
    /// # Errors
    /// Why it was not taken, and what to send back.
    pub fn decode<'a>(
        &'a mut self,
        source: SocketAddr,
        datagram: &'a [u8],
        now_ns: u64,
    ) -> Result<Received<'a>, Refused> {
        let refused = |cause| Refused { cause, report: None };
        match crate::message::parse(datagram).map_err(|_| refused(Refusal::Malformed))? {
            Message::OtherVersion(_) => Err(refused(Refusal::OtherVersion)),
            Message::Community { .. } if self.v3_only => Err(refused(Refusal::VersionOff)),
            Message::Community { version, community, pdu } => {
                if !self.communities.is_empty() && !self.communities.iter().any(|known| known == community) {
                    return Err(refused(Refusal::Community));
                }
                let notification = Notification::new(version, &pdu)
                    .map_err(|_| refused(Refusal::Malformed))?
                    .ok_or(refused(Refusal::NotANotification))?;
                // RFC 3416 §4.2.7: an answer says what the inform said.
                let answer = notification.inform.then(|| with_tag(datagram, notification.pdu_at));
                let level = SecurityLevel::NoAuthNoPriv;
                let sender = (source, level, None);
                let again = notification.inform && !is_new(&mut self.informs, sender, &notification, now_ns);
                Ok(Received { notification, answer, again, decrypted: None, level })
            }
            Message::V3(message) => {
                let opened = match self.usm.open(&message, now_ns, &mut self.plain) {
                    Ok(opened) => opened,
                    Err(refused) => return Err(self.limit.apply(refused, source.ip(), now_ns)),
                };
                let (scoped_bytes, decrypted) = match message.data {
                    ScopedData::Plain(bytes) => (bytes, None),
                    ScopedData::Encrypted(_) => (&self.plain[..], Some(&self.plain[..])),
                };
                let Ok(scoped) = ScopedPdu::parse(scoped_bytes) else {
                    if opened.decrypted {
                        let refused = self.usm.refuse_decrypted(&message, now_ns);
                        return Err(self.limit.apply(refused, source.ip(), now_ns));
                    }
                    return Err(refused(Refusal::Malformed));
                };
                let notification = Notification::new(Version::V3, &scoped.pdu)
                    .map_err(|_| refused(Refusal::Malformed))?
                    .ok_or(refused(Refusal::NotANotification))?;
                let mut answer = None;
                if opened.again && !notification.inform {
                    return Err(refused(Refusal::Replayed));
                }
                if notification.inform {
                    // For an inform we are the authoritative engine (RFC 3412 §6.1).
                    if message.engine_id != self.usm.local().id {
                        return Err(refused(Refusal::UnknownEngine));
                    }
                    let response = with_tag(scoped_bytes, notification.pdu_at);
                    answer = self.usm.answer(&message, opened, &response, now_ns);
                }
                let sender = (source, opened.level, Some(opened.user));
                let is_new = notification.inform && is_new(&mut self.informs, sender, &notification, now_ns);
                // The same message from elsewhere is no other inform either.
                let again = notification.inform && (opened.again || !is_new);
                Ok(Received { notification, answer, again, decrypted, level: opened.level })
            }
        }
    }
}

/// The same bytes with the PDU's tag made that of a Response.
fn with_tag(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut answer = bytes.to_vec();
    if let Some(byte) = answer.get_mut(at) {
        *byte = tag::RESPONSE;
    }
    answer
}

/// Whose an inform is: its source, its security and the number of its user.
type Sender = (SocketAddr, SecurityLevel, Option<usize>);

/// A sender repeats an inform with the same request-id until it is answered; msgID and salt may be new ones.
fn is_new(informs: &mut RecentSet, sender: Sender, notification: &Notification<'_>, now_ns: u64) -> bool {
    informs.insert((sender, notification.request_id, &notification.trap_oid, notification.varbinds.bytes()), now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Trap;
    use crate::usm::{AuthProtocol, LocalEngine, PrivProtocol, Sealer, User};

    const S: u64 = 1_000_000_000;
    const LINK_DOWN: [u32; 10] = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3];

    fn user(name: &str) -> User {
        User::new(name, Some((AuthProtocol::Sha256, "authentic1")), Some((PrivProtocol::Aes128, "secretive1"))).unwrap()
    }

    fn decoder() -> SnmpDecoder {
        let local = LocalEngine { id: b"\x80station".to_vec(), boots: 3, started_ns: 0 };
        SnmpDecoder::new(vec![b"public".to_vec()], Usm::new(local, vec![user("operator")], 7))
    }

    fn source() -> SocketAddr {
        "192.0.2.1:5000".parse().unwrap()
    }

    fn cause(decoder: &mut SnmpDecoder, bytes: &[u8], now_ns: u64) -> Refusal {
        decoder.decode(source(), bytes, now_ns).unwrap_err().cause
    }

    #[test]
    fn communities_are_checked_and_informs_answered() {
        let mut decoder = decoder();
        let trap = Trap::new(&LINK_DOWN, 5);
        let bytes = trap.v2c(b"public", 1);
        let received = decoder.decode(source(), &bytes, S).unwrap();
        assert_eq!((received.notification.oid().to_string().as_str(), received.answer), ("1.3.6.1.6.3.1.1.5.3", None));
        assert_eq!(cause(&mut decoder, &trap.v2c(b"private", 1), S), Refusal::Community);
        assert_eq!(cause(&mut decoder, b"nonsense", S), Refusal::Malformed);
        let inform = trap.inform(b"public", 77);
        let first = decoder.decode(source(), &inform, S).unwrap();
        let answer = first.answer.clone().unwrap();
        assert!(!first.again);
        assert!(decoder.decode(source(), &inform, 2 * S).unwrap().again);
        let Ok(Message::Community { pdu, .. }) = crate::message::parse(&answer) else { panic!() };
        assert_eq!((pdu.tag, pdu.request_id(), pdu.varbinds.iter().count()), (tag::RESPONSE, 77, 2));
        assert_eq!(cause(&mut decoder, &answer, S), Refusal::NotANotification);
    }

    #[test]
    fn v3_traps_are_opened_once_and_only_when_fresh_and_authentic() {
        let mut decoder = decoder();
        let scoped = Trap::new(&LINK_DOWN, 5).scoped(tag::V2_TRAP, b"\x80agent", b"", 1);
        let sealer = Sealer::new(&user("operator"), b"\x80agent", 4);
        let bytes = sealer.seal(1, 1000, &scoped, 1).unwrap();
        let received = decoder.decode(source(), &bytes, S).unwrap();
        assert_eq!(received.notification.oid().to_string(), "1.3.6.1.6.3.1.1.5.3");
        assert!(received.decrypted.is_some_and(|plain| plain.starts_with(&scoped)));
        assert_eq!(cause(&mut decoder, &bytes, S), Refusal::Replayed);
        assert_eq!(cause(&mut decoder, &bytes, 200 * S), Refusal::TimeWindow);
        let old_boot = Sealer::new(&user("operator"), b"\x80agent", 3).seal(1, 9999, &scoped, 2).unwrap();
        assert_eq!(cause(&mut decoder, &old_boot, S), Refusal::TimeWindow);
        let mut changed = sealer.seal(1, 1001, &scoped, 3).unwrap();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(cause(&mut decoder, &changed, S), Refusal::WrongDigest);
        let stranger = Sealer::new(&user("stranger"), b"\x80agent", 4).seal(1, 1001, &scoped, 4).unwrap();
        assert_eq!(cause(&mut decoder, &stranger, S), Refusal::UnknownUser);
        let lower = User::new("operator", Some((AuthProtocol::Sha256, "authentic1")), None).unwrap();
        let lower = Sealer::new(&lower, b"\x80agent", 4).seal(1, 1001, &scoped, 5).unwrap();
        assert_eq!(cause(&mut decoder, &lower, S), Refusal::SecurityLevel);
        let wrong = Some((PrivProtocol::Aes128, "another secret"));
        let wrong = User::new("operator", Some((AuthProtocol::Sha256, "authentic1")), wrong).unwrap();
        let wrong = Sealer::new(&wrong, b"\x80agent", 4).seal(1, 1001, &scoped, 6).unwrap();
        assert_eq!(cause(&mut decoder, &wrong, S), Refusal::Decryption);
    }

    #[test]
    fn informs_are_for_our_engine_and_our_clock() {
        let mut decoder = decoder();
        let scoped = Trap::new(&LINK_DOWN, 5).scoped(tag::INFORM, b"\x80station", b"", 9);
        let foreign = Sealer::new(&user("operator"), b"\x80agent", 4).seal(1, 1000, &scoped, 1).unwrap();
        assert_eq!(cause(&mut decoder, &foreign, 500 * S), Refusal::UnknownEngine);
        let sealer = Sealer::new(&user("operator"), b"\x80station", 3);
        assert_eq!(cause(&mut decoder, &sealer.seal(1, 1000, &scoped, 1).unwrap(), 500 * S), Refusal::TimeWindow);
        let inform = sealer.seal(21, 480, &scoped, 2).unwrap();
        let answer = decoder.decode(source(), &inform, 500 * S).unwrap().answer.unwrap();
        let Ok(Message::V3(message)) = crate::message::parse(&answer) else { panic!() };
        assert_eq!((message.id, message.boots, message.time, message.flags), (21, 3, 500, 3));
        let elsewhere = "198.51.100.7:9".parse().unwrap();
        let replayed = decoder.decode(elsewhere, &inform, 501 * S).unwrap();
        assert!(replayed.again && replayed.answer.is_some(), "answered, and no new one");
        let trap = Trap::new(&LINK_DOWN, 5).scoped(tag::V2_TRAP, b"\x80station", b"", 9);
        let trap = sealer.seal(22, 480, &trap, 3).unwrap();
        assert!(decoder.decode(source(), &trap, 501 * S).is_ok());
        assert_eq!(cause(&mut decoder, &trap, 501 * S), Refusal::Replayed);
    }

    #[test]
    fn an_inform_of_anybody_makes_none_of_a_user_a_repetition() {
        let local = LocalEngine { id: b"\x80station".to_vec(), boots: 3, started_ns: 0 };
        let users = vec![User::new("nobody", None, None).unwrap(), user("operator"), user("second")];
        let mut decoder = SnmpDecoder::new(Vec::new(), Usm::new(local, users, 7));
        // The same request-id, name and varbinds from the same address, with more and more security.
        let trap = Trap::new(&LINK_DOWN, 5);
        let scoped = trap.scoped(tag::INFORM, b"\x80station", b"", 9);
        let sealed = |user: &User, salt| Sealer::new(user, b"\x80station", 3).seal(21, 480, &scoped, salt).unwrap();
        let informs = [
            trap.inform(b"any", 9),
            sealed(&User::new("nobody", None, None).unwrap(), 1),
            sealed(&user("operator"), 2),
            sealed(&user("second"), 3),
        ];
        for inform in &informs {
            assert!(!decoder.decode(source(), inform, 480 * S).unwrap().again);
        }
        let repeated = sealed(&user("operator"), 4);
        assert!(decoder.decode(source(), &repeated, 480 * S).unwrap().again, "its own is one");
    }

    #[test]
    fn replays_are_known_over_a_restart_too() {
        let scoped = Trap::new(&LINK_DOWN, 5).scoped(tag::V2_TRAP, b"\x80agent", b"", 1);
        let sealer = Sealer::new(&user("operator"), b"\x80agent", 4);
        let [old, last, next] =
            [(999, 1), (1000, 2), (1000, 3)].map(|(t, salt)| sealer.seal(1, t, &scoped, salt).unwrap());
        let mut before = decoder();
        for taken in [&old, &last] {
            assert_eq!(before.decode(source(), taken, S).unwrap().level, SecurityLevel::AuthPriv);
        }
        let clocks = before.usm().take_clocks();
        assert_eq!(clocks.len(), 1);
        let mut after = decoder();
        after.usm().resume(&clocks[0], true, S);
        let Ok(Message::V3(message)) = crate::message::parse(&last) else { panic!() };
        after.usm().resume_message(&message, S);
        assert_eq!(cause(&mut after, &old, S), Refusal::TimeWindow);
        assert_eq!(cause(&mut after, &last, S), Refusal::Replayed);
        assert!(after.decode(source(), &next, S).is_ok(), "another one of the same second");
    }

    #[test]
    fn other_users_count_from_now_on_and_what_came_is_remembered() {
        let mut decoder = decoder();
        let trap = Trap::new(&LINK_DOWN, 5);
        let scoped = trap.scoped(tag::V2_TRAP, b"\x80agent", b"", 1);
        let sealer = Sealer::new(&user("operator"), b"\x80agent", 4);
        let first = sealer.seal(1, 1, &scoped, 1).unwrap();
        let second = sealer.seal(1, 2, &scoped, 2).unwrap();
        assert!(decoder.decode(source(), &first, S).is_ok());
        decoder.usm().replace_users(vec![user("another")]);
        assert_eq!(cause(&mut decoder, &second, S), Refusal::UnknownUser);
        // The keys of who has its place now are not those that were kept.
        let another = Sealer::new(&user("another"), b"\x80agent", 4);
        assert!(decoder.decode(source(), &another.seal(1, 3, &scoped, 3).unwrap(), S).is_ok());
        decoder.usm().replace_users(vec![user("another"), user("operator")]);
        assert_eq!(cause(&mut decoder, &first, S), Refusal::Replayed);
        assert!(decoder.decode(source(), &second, S).is_ok());
        decoder.replace_communities(vec![b"other".to_vec()]);
        assert_eq!(cause(&mut decoder, &trap.v2c(b"public", 1), S), Refusal::Community);
    }

    #[test]
    fn who_has_v3_alone_takes_nothing_else() {
        let mut decoder = decoder();
        decoder.take_v1_v2c(false);
        let trap = Trap::new(&LINK_DOWN, 5);
        for bytes in [trap.v2c(b"public", 1), trap.inform(b"public", 2)] {
            assert_eq!(cause(&mut decoder, &bytes, S), Refusal::VersionOff);
        }
        let scoped = trap.scoped(tag::V2_TRAP, b"\x80agent", b"", 1);
        let sealed = Sealer::new(&user("operator"), b"\x80agent", 4).seal(1, 1, &scoped, 1).unwrap();
        assert!(decoder.decode(source(), &sealed, S).is_ok());
    }

    #[test]
    fn reports_to_one_network_are_limited_and_what_is_withheld_is_counted() {
        let mut decoder = decoder();
        let scoped = Trap::new(&LINK_DOWN, 5).scoped(tag::INFORM, b"\x80station", b"", 9);
        // msgFlags stand behind msgID and msgMaxSize; a question without authentication can say anything.
        let stranger = User::new("stranger", None, None).unwrap();
        let mut question = Sealer::new(&stranger, b"\x80station", 2).seal(1, 1000, &scoped, 1).unwrap();
        let at = question.windows(3).position(|window| window == [4, 1, 0]).unwrap();
        question[at + 2] = crate::message::FLAG_REPORTABLE;
        let mut reports = 0;
        for _ in 0..1000 {
            let refused = decoder.decode(source(), &question, S).unwrap_err();
            assert_eq!(refused.cause, Refusal::UnknownUser);
            reports += usize::from(refused.report.is_some());
        }
        assert_eq!((reports, decoder.reports_withheld()), (100, 900));
        assert!(decoder.decode(source(), &question, 2 * S).unwrap_err().report.is_some());
    }

    #[test]
    fn debug_output_has_no_secret() {
        let text = format!("{:?}", decoder());
        assert!(!text.contains("public") && !text.contains("authentic1") && text.contains("operator"), "{text}");
    }
}
