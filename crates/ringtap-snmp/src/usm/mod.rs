//! The user-based security model (RFC 3414): who sent it, was it changed, is it fresh, what does it say.
//!
//! Owns users, engines and their clocks, the six counters of usmStats, Reports, and the sealing of what we send. Reads no
//! clock: the time is given, monotonic, so a wall clock that jumps changes nothing.
//!
//! For informs this station is the authoritative engine: it answers discovery and keeps boots and time. For traps the sender is;
//! its clock is learnt from its first authentic message and never goes back.

mod correspondent;
mod engines;
mod keys;
mod limit;
mod privacy;

use std::fmt;

pub use correspondent::{Correspondent, Heard};
pub use engines::{EngineClock, RecentSet};
pub use keys::AuthProtocol;
pub(crate) use limit::ReportLimit;
pub use privacy::PrivProtocol;

use crate::ber::{self, Writer};
use crate::encode::{Item, Trap};
use crate::message::{FLAG_AUTH, FLAG_PRIV, FLAG_REPORTABLE, ScopedData, ScopedPdu, V3Message, tag};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

use engines::{Engines, LocalKeys, TIME_WINDOW};
use keys::{Key, is_authentic, mac};

/// Shortest password (RFC 3414 §11.2).
pub const MIN_PASSWORD: usize = 8;

/// Authentication and encryption, as configured for a user.
type Protocols = (Option<(AuthProtocol, Key)>, Option<(PrivProtocol, Key)>);

/// A user. Messages in its name must have all the security that it has.
pub struct User {
    name: Vec<u8>,
    protocols: Protocols,
    engines: Vec<Vec<u8>>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({}, secrets not shown)", String::from_utf8_lossy(&self.name))
    }
}

impl User {
    /// A user with these passwords; the digest of the authentication makes both keys (RFC 3414 §2.6).
    ///
    /// # Errors
    /// A password that is too short, or encryption without authentication.
    pub fn new(
        name: &str,
        auth: Option<(AuthProtocol, &str)>,
        privacy: Option<(PrivProtocol, &str)>,
    ) -> Result<Self, &'static str> {
        if name.is_empty() || name.len() > 32 {
            return Err("a user name has 1 to 32 bytes");
        }
        let too_short = |password: &str| password.len() < MIN_PASSWORD;
        if auth.is_some_and(|(_, password)| too_short(password))
            || privacy.is_some_and(|(_, password)| too_short(password))
        {
            return Err("a password has at least 8 characters");
        }
        let protocols = match (auth, privacy) {
            (None, Some(_)) => return Err("encryption needs authentication"),
            (None, None) => (None, None),
            (Some((digest, password)), privacy) => (
                Some((digest, Key::from_password(digest, password.as_bytes()))),
                privacy.map(|(cipher, password)| (cipher, Key::from_password(digest, password.as_bytes()))),
            ),
        };
        Ok(Self { name: name.as_bytes().to_vec(), protocols, engines: Vec::new() })
    }

    /// Takes traps from these engines only.
    #[must_use]
    pub fn only_from(mut self, engines: Vec<Vec<u8>>) -> Self {
        self.engines = engines;
        self
    }

    /// The most security that its messages can have.
    pub fn level(&self) -> SecurityLevel {
        SecurityLevel::of(self.flags())
    }

    /// Its security as msgFlags.
    fn flags(&self) -> u8 {
        match self.protocols {
            (None, _) => 0,
            (Some(_), None) => FLAG_AUTH,
            (Some(_), Some(_)) => FLAG_AUTH | FLAG_PRIV,
        }
    }

    /// The key that messages of an engine are authenticated with: two short digests, whoever asks.
    fn auth_key(&self, engine_id: &[u8]) -> Option<(AuthProtocol, Key)> {
        let (digest, ku) = self.protocols.0.as_ref()?;
        Some((*digest, ku.localised(*digest, engine_id)))
    }

    /// All keys. Some of encryption take two passes over a mebibyte, so that they are for authentic messages only.
    fn keys_for(&self, engine_id: &[u8]) -> LocalKeys {
        let (auth, privacy) = &self.protocols;
        LocalKeys {
            auth: self.auth_key(engine_id),
            privacy: auth
                .as_ref()
                .zip(privacy.as_ref())
                .map(|((digest, _), (cipher, ku))| (*cipher, cipher.localised(*digest, ku, engine_id))),
        }
    }
}

/// This station as an SNMP engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalEngine {
    /// snmpEngineID, 5 to 32 bytes.
    pub id: Vec<u8>,
    /// snmpEngineBoots: grows with every start.
    pub boots: u32,
    /// The monotonic time of this start, nanoseconds.
    pub started_ns: u64,
}

/// The message was not taken; its sender may get a Report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub cause: Refusal,
    /// What to send back.
    pub report: Option<Vec<u8>>,
}

/// The message is what it seems to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Number of the user.
    pub user: usize,
    /// The scoped PDU was encrypted; it is in the buffer now.
    pub decrypted: bool,
    /// The security that it came with.
    pub level: SecurityLevel,
    /// The same message, to the byte, came before. Only one to our own engine is taken then: an inform whose answer was lost.
    pub again: bool,
}

/// How much of USM a message has (RFC 3411 §3.4.3), the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecurityLevel {
    /// Anybody may have sent it: v1, v2c, and users without a password.
    #[default]
    NoAuthNoPriv,
    /// Authenticated.
    AuthNoPriv,
    /// Authenticated and encrypted.
    AuthPriv,
}

impl SecurityLevel {
    /// All, the least first.
    pub const ALL: [Self; 3] = [Self::NoAuthNoPriv, Self::AuthNoPriv, Self::AuthPriv];

    /// Of msgFlags.
    fn of(flags: u8) -> Self {
        match (flags & FLAG_AUTH != 0, flags & FLAG_PRIV != 0) {
            (false, _) => Self::NoAuthNoPriv,
            (true, false) => Self::AuthNoPriv,
            (true, true) => Self::AuthPriv,
        }
    }
}

/// Users, engines and counters.
#[derive(Debug)]
pub struct Usm {
    local: LocalEngine,
    users: Vec<User>,
    engines: Engines,
    /// MACs seen within the window.
    seen: RecentSet,
    /// usmStats.1 to .6.
    stats: [u32; 6],
    salt: u64,
}

impl Usm {
    /// `salt`: where the counter of salts begins; random.
    pub fn new(local: LocalEngine, users: Vec<User>, salt: u64) -> Self {
        Self { local, users, engines: Engines::default(), seen: RecentSet::default(), stats: [0; 6], salt }
    }

    /// Takes messages of these users only from now on. Clocks of engines, and which messages came, stay.
    pub fn replace_users(&mut self, users: Vec<User>) {
        self.users = users;
        self.engines.forget_keys();
    }

    /// This station.
    pub fn local(&self) -> &LocalEngine {
        &self.local
    }

    /// snmpEngineTime at this monotonic time.
    fn local_time(&self, now_ns: u64) -> u32 {
        (now_ns.saturating_sub(self.local.started_ns) / 1_000_000_000) as u32 & 0x7fff_ffff
    }

    /// The steps of RFC 3414 §3.2. An encrypted scoped PDU is decrypted into `plain`.
    ///
    /// # Errors
    /// The first step that fails, with a Report when the sender wants one.
    pub fn open(&mut self, message: &V3Message<'_>, now_ns: u64, plain: &mut Vec<u8>) -> Result<Opened, Refused> {
        if message.model != 3 {
            return Err(Refused { cause: Refusal::SecurityModel, report: None });
        }
        let reportable = message.flags & FLAG_REPORTABLE != 0;
        let ours = message.engine_id == self.local.id;
        if !ours && (reportable || message.engine_id.is_empty()) {
            let cause = if message.engine_id.is_empty() { Refusal::Discovery } else { Refusal::UnknownEngine };
            return Err(self.refuse(cause, message, now_ns, None));
        }
        let Some(index) = self.users.iter().position(|user| user.name == message.user) else {
            return Err(self.refuse(Refusal::UnknownUser, message, now_ns, None));
        };
        let user = &self.users[index];
        if !ours && !user.engines.is_empty() && !user.engines.iter().any(|id| id == message.engine_id) {
            return Err(self.refuse(Refusal::UnknownEngine, message, now_ns, None));
        }
        if message.flags & (FLAG_AUTH | FLAG_PRIV) != user.flags() {
            return Err(self.refuse(Refusal::SecurityLevel, message, now_ns, None));
        }
        let kept = self.engines.keys(message.engine_id, index);
        let auth = kept.map_or_else(|| user.auth_key(message.engine_id), |keys| keys.auth);
        let mut again = false;
        let mut keys = kept.unwrap_or(LocalKeys { auth, privacy: None });
        if let Some((protocol, key)) = &auth {
            let at = message.mac_at;
            if !is_authentic(*protocol, key, message.whole, at, message.mac) {
                return Err(self.refuse(Refusal::WrongDigest, message, now_ns, None));
            }
            let fresh = if ours {
                message.boots == self.local.boots
                    && message.boots != 0x7fff_ffff
                    && message.time.abs_diff(self.local_time(now_ns)) <= TIME_WINDOW
            } else {
                self.engines.is_fresh(message.engine_id, message.boots, message.time, now_ns)
            };
            if !fresh {
                return Err(self.refuse(Refusal::TimeWindow, message, now_ns, Some(&keys)));
            }
            if kept.is_none() {
                keys = user.keys_for(message.engine_id);
                self.engines.keep(message.engine_id, index, &keys);
            }
            again = !self.seen.insert((message.engine_id, message.mac), now_ns);
            if again && !ours {
                return Err(Refused { cause: Refusal::Replayed, report: None });
            }
        }
        let decrypted = match (message.data, &keys.privacy) {
            (ScopedData::Encrypted(data), Some((protocol, key))) => {
                plain.clear();
                plain.extend_from_slice(data);
                if protocol.decrypt(key, message.boots, message.time, message.salt, plain).is_none() {
                    return Err(self.refuse(Refusal::Decryption, message, now_ns, None));
                }
                true
            }
            (ScopedData::Plain(_), None) => false,
            // The flags were compared with the user's above.
            _ => return Err(self.refuse(Refusal::SecurityLevel, message, now_ns, None)),
        };
        Ok(Opened { user: index, decrypted, level: SecurityLevel::of(message.flags), again })
    }

    /// Clocks of other engines that went on since the last call, to be kept for [`Usm::resume`].
    pub fn take_clocks(&mut self) -> Vec<EngineClock> {
        self.engines.take_changed()
    }

    /// Goes on after a restart from a clock that was kept: nothing older is taken of this engine, and nothing of that very second either
    /// unless `same_second`, where what came then is told to [`Usm::resume_message`].
    pub fn resume(&mut self, clock: &EngineClock, same_second: bool, now_ns: u64) {
        self.engines.resume(clock, same_second, now_ns);
    }

    /// A message that was taken before a restart: it is not taken again.
    pub fn resume_message(&mut self, message: &V3Message<'_>, now_ns: u64) {
        if message.flags & FLAG_AUTH != 0 {
            self.seen.insert((message.engine_id, message.mac), now_ns);
        }
    }

    /// What was decrypted makes no scoped PDU: the key was another one.
    pub fn refuse_decrypted(&mut self, message: &V3Message<'_>, now_ns: u64) -> Refused {
        self.refuse(Refusal::Decryption, message, now_ns, None)
    }

    /// The answer to an inform: the scoped PDU `response`, secured as the inform was.
    pub fn answer(&mut self, message: &V3Message<'_>, opened: Opened, response: &[u8], now_ns: u64) -> Option<Vec<u8>> {
        let keys = self
            .engines
            .keys(&self.local.id, opened.user)
            .unwrap_or_else(|| self.users[opened.user].keys_for(&self.local.id));
        self.salt = self.salt.wrapping_add(1);
        let clock = (self.local.boots, self.local_time(now_ns));
        seal(message.id, 0, &self.local.id, clock, message.user, &keys, response, self.salt)
    }

    /// Counts, and makes the Report where one is wanted (RFC 3412 §7.1 (3), RFC 3414 §3.2). `keys`: to be authenticated with.
    fn refuse(&mut self, cause: Refusal, message: &V3Message<'_>, now_ns: u64, keys: Option<&LocalKeys>) -> Refused {
        /// usmStats (RFC 3414 §5).
        const USM_STATS: [u32; 9] = [1, 3, 6, 1, 6, 3, 15, 1, 1];
        let number = match cause {
            Refusal::SecurityLevel => 1,
            Refusal::TimeWindow => 2,
            Refusal::UnknownUser => 3,
            Refusal::UnknownEngine | Refusal::Discovery => 4,
            Refusal::WrongDigest => 5,
            _ => 6,
        };
        let count = &mut self.stats[number - 1];
        *count = count.wrapping_add(1);
        if message.flags & FLAG_REPORTABLE == 0 {
            return Refused { cause, report: None };
        }
        let request_id = match message.data {
            ScopedData::Plain(bytes) => ScopedPdu::parse(bytes).map_or(0, |scoped| scoped.pdu.request_id()),
            ScopedData::Encrypted(_) => 0,
        };
        let name: Vec<u32> = USM_STATS.into_iter().chain([number as u32, 0]).collect();
        let scoped = Trap::report(&name, *count).scoped(tag::REPORT, &self.local.id, b"", request_id);
        let none = LocalKeys { auth: None, privacy: None };
        let keys = keys.map_or(none, |keys| LocalKeys { auth: keys.auth, privacy: None });
        self.salt = self.salt.wrapping_add(1);
        let clock = (self.local.boots, self.local_time(now_ns));
        let report = seal(message.id, 0, &self.local.id, clock, message.user, &keys, &scoped, self.salt);
        Refused { cause, report }
    }
}

/// A sender's side: seals traps in one user's name.
#[derive(Debug, Clone)]
pub struct Sealer {
    user: Vec<u8>,
    engine_id: Vec<u8>,
    boots: u32,
    keys: LocalKeys,
}

impl Sealer {
    /// Messages of `user` from the engine `engine_id`.
    pub fn new(user: &User, engine_id: &[u8], boots: u32) -> Self {
        Self { user: user.name.clone(), engine_id: engine_id.to_vec(), boots, keys: user.keys_for(engine_id) }
    }

    /// The engine it seals for.
    pub fn engine_id(&self) -> &[u8] {
        &self.engine_id
    }

    /// A whole datagram with the trap `scoped`; `salt` must never be the same twice.
    pub fn seal(&self, id: i32, time: u32, scoped: &[u8], salt: u64) -> Option<Vec<u8>> {
        seal(id, 0, &self.engine_id, (self.boots, time), &self.user, &self.keys, scoped, salt)
    }
}

/// Writes a message: encrypted and authenticated as far as there are keys (RFC 3414 §3.1).
#[allow(clippy::too_many_arguments)] // the fields of the message's head, each used once
fn seal(
    id: i32,
    flags: u8,
    engine_id: &[u8],
    (boots, time): (u32, u32),
    user: &[u8],
    keys: &LocalKeys,
    scoped: &[u8],
    salt: u64,
) -> Option<Vec<u8>> {
    /// msgMaxSize: what a UDP datagram over IPv4 holds.
    const MAX_SIZE: i64 = 65_507;
    let mut writer = Writer::default();
    let mut flags = flags;
    let mut salt_bytes: &[u8] = &[];
    let sent_salt;
    match &keys.privacy {
        Some((protocol, key)) => {
            let mut data = scoped.to_vec();
            sent_salt = protocol.encrypt(key, boots, time, salt, &mut data)?;
            salt_bytes = &sent_salt;
            flags |= FLAG_PRIV;
            writer.element(ber::OCTET_STRING, &data);
        }
        None => writer.raw(scoped),
    }
    let mac_len = keys.auth.as_ref().map_or(0, |(protocol, _)| protocol.mac_bytes());
    flags |= if keys.auth.is_some() { FLAG_AUTH } else { 0 };
    let parameters = writer.mark();
    writer.element(ber::OCTET_STRING, salt_bytes);
    let mac_element = writer.mark();
    writer.raw(&[0; 48][..mac_len]);
    let mac_end = writer.mark();
    writer.close(ber::OCTET_STRING, mac_element);
    writer.element(ber::OCTET_STRING, user);
    writer.integer(ber::INTEGER, time.into());
    writer.integer(ber::INTEGER, boots.into());
    writer.element(ber::OCTET_STRING, engine_id);
    writer.close(ber::SEQUENCE, parameters);
    writer.close(ber::OCTET_STRING, parameters);
    let header = writer.mark();
    writer.integer(ber::INTEGER, 3);
    writer.element(ber::OCTET_STRING, &[flags]);
    writer.integer(ber::INTEGER, MAX_SIZE);
    writer.integer(ber::INTEGER, id.into());
    writer.close(ber::SEQUENCE, header);
    writer.integer(ber::INTEGER, 3);
    writer.close(ber::SEQUENCE, 0);
    let mut bytes = writer.finish();
    if let Some((protocol, key)) = &keys.auth {
        let at = bytes.len() - mac_end;
        let code = mac(*protocol, key, &[&bytes])?;
        bytes[at..at + mac_len].copy_from_slice(code.bytes());
    }
    Some(bytes)
}

impl Trap {
    /// The one varbind of a Report.
    fn report(name: &[u32], count: u32) -> Self {
        Self::bare().with(name, Item::Counter32(count))
    }
}
