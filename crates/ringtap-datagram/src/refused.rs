//! Owns: why something is no message.

use std::fmt;

/// Why bytes or a line are no message. It shows nothing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too short, or not as long as such a message is.
    Length,
    /// Not of this protocol.
    Foreign,
    /// Of another version.
    Version(u8),
    /// A field that no sensor writes so: which.
    Field(&'static str),
    /// A line without a seal.
    Unsealed,
    /// The key has another number than the message names.
    OtherKey,
    /// The seal is not of this key and these bytes.
    Forged,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("it has a wrong length"),
            Self::Foreign => f.write_str("it is no message of a sensor"),
            Self::Version(version) => write!(f, "it is of version {version}"),
            Self::Field(field) => write!(f, "its {field} makes no sense"),
            Self::Unsealed => f.write_str("it has no seal"),
            Self::OtherKey => f.write_str("it names another key"),
            Self::Forged => f.write_str("its seal is wrong"),
        }
    }
}

impl std::error::Error for Refused {}
