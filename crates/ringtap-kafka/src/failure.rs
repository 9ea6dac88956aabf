//! Owns: why a broker could not be talked to, in words.
//! Does not: decide what follows from it; whoever asked does.

use std::fmt;
use std::io;

use crate::connection::printable;

/// Bytes that are no message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what it answers is not Kafka's protocol: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Why something failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody is there, or the connection broke.
    Network(io::Error),
    /// An answer that is none.
    Malformed(Malformed),
    /// A broker said no, by its error code.
    Refused(Code),
    /// Any other reason, in words.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) if error.kind() == io::ErrorKind::WouldBlock => {
                f.write_str("it does not answer in time")
            }
            Self::Network(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("it ended the connection")
            }
            Self::Network(error) => write!(f, "{error}"),
            Self::Malformed(malformed) => write!(f, "{malformed}"),
            Self::Refused(code) => write!(f, "{code}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        tls.and_then(certificates).map_or(Self::Network(error), Self::Other)
    }
}

/// What of TLS is for people to mend, in words.
fn certificates(error: &rustls::Error) -> Option<String> {
    use rustls::{AlertDescription, CertificateError, Error};
    Some(match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "nobody in tls-ca has signed its certificate".to_owned()
        }
        Error::InvalidCertificate(why) => {
            format!("its certificate is refused: {}", printable(&why.to_string()))
        }
        Error::InvalidMessage(_) => "it does not speak TLS at this port".to_owned(),
        // Java says of one that is missing that it is bad.
        Error::AlertReceived(
            why @ (AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA),
        ) => format!("it wants a certificate of ours that it believes: tls-certificate and tls-key ({why:?})"),
        _ => return None,
    })
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// A broker's error code, not 0: <https://kafka.apache.org/protocol#protocol_error_codes>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i16);

impl Code {
    pub(crate) const OFFSET_OUT_OF_RANGE: Self = Self(1);
    pub(crate) const UNKNOWN_TOPIC: Self = Self(3);
    pub(crate) const NO_LEADER: Self = Self(5);
    pub(crate) const NOT_LEADER: Self = Self(6);
    pub(crate) const MESSAGE_TOO_LARGE: Self = Self(10);
    pub(crate) const RECORD_LIST_TOO_LARGE: Self = Self(18);
    pub(crate) const INVALID_TIMESTAMP: Self = Self(32);
    pub(crate) const OUT_OF_ORDER: Self = Self(45);
    pub(crate) const DUPLICATE: Self = Self(46);
    pub(crate) const INVALID_PRODUCER_EPOCH: Self = Self(47);
    pub(crate) const UNKNOWN_PRODUCER: Self = Self(59);
    pub(crate) const INVALID_RECORD: Self = Self(87);

    /// 0 is success.
    pub(crate) fn check(code: i16) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self(code)) }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            1 => "the offset is not there any more (OFFSET_OUT_OF_RANGE)",
            2 => "the records were damaged on their way (CORRUPT_MESSAGE)",
            3 => "there is no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)",
            5 => "the partition has no leader at the moment (LEADER_NOT_AVAILABLE)",
            6 => "another broker leads the partition now (NOT_LEADER_OR_FOLLOWER)",
            7 => "its replicas did not answer in time (REQUEST_TIMED_OUT)",
            10 => "a record is larger than the topic takes (MESSAGE_TOO_LARGE; max.message.bytes)",
            17 => "the topic's name is not valid (INVALID_TOPIC_EXCEPTION)",
            18 => "the batch is larger than the broker takes (RECORD_LIST_TOO_LARGE)",
            19 => "too few replicas are there (NOT_ENOUGH_REPLICAS; min.insync.replicas)",
            20 => "too few replicas have it yet (NOT_ENOUGH_REPLICAS_AFTER_APPEND)",
            29 => "this user may not use the topic (TOPIC_AUTHORIZATION_FAILED)",
            31 => "this user may not write idempotently (CLUSTER_AUTHORIZATION_FAILED)",
            32 => {
                "a record's time is outside what the topic takes (INVALID_TIMESTAMP; message.timestamp.before.max.ms)"
            }
            33 => "the broker has another SASL mechanism (UNSUPPORTED_SASL_MECHANISM)",
            34 => "it asks for authentication first (ILLEGAL_SASL_STATE)",
            35 => "it does not speak this version of the protocol (UNSUPPORTED_VERSION; Kafka 2.1 or later is needed)",
            45 => "numbers before these are missing (OUT_OF_ORDER_SEQUENCE_NUMBER)",
            46 => "it has these already (DUPLICATE_SEQUENCE_NUMBER)",
            47 => "another producer has this identity (INVALID_PRODUCER_EPOCH)",
            56 => "its disk has failed (KAFKA_STORAGE_ERROR)",
            58 => "user or password is wrong (SASL_AUTHENTICATION_FAILED)",
            59 => "the broker has forgotten the producer (UNKNOWN_PRODUCER_ID)",
            87 => "the topic does not take such a record (INVALID_RECORD)",
            other => return write!(f, "error {other} of Kafka's protocol"),
        };
        f.write_str(words)
    }
}
