//! Authentication: digests, keys from passwords, localised keys, message authentication codes (RFC 3414 §6, A.2; RFC 7860).
//!
//! Owns secrets and that they are never shown. The digests themselves are RustCrypto's.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Digest;

/// Longest digest, key and localised key in bytes.
pub(super) const MAX_KEY: usize = 64;
/// Bytes of repeated password that are digested into a key (RFC 3414 A.2).
const PASSWORD_BYTES: usize = 1 << 20;

/// How messages are authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthProtocol {
    /// HMAC-MD5-96.
    Md5,
    /// HMAC-SHA-96.
    Sha1,
    /// HMAC-128-SHA-224.
    Sha224,
    /// HMAC-192-SHA-256.
    Sha256,
    /// HMAC-256-SHA-384.
    Sha384,
    /// HMAC-384-SHA-512.
    Sha512,
}

impl AuthProtocol {
    /// By the name that net-snmp and most agents use: `MD5`, `SHA`, `SHA-224` … `SHA-512`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MD5" => Self::Md5,
            "SHA" | "SHA-1" | "SHA1" => Self::Sha1,
            "SHA-224" | "SHA224" => Self::Sha224,
            "SHA-256" | "SHA256" => Self::Sha256,
            "SHA-384" | "SHA384" => Self::Sha384,
            "SHA-512" | "SHA512" => Self::Sha512,
            _ => return None,
        })
    }

    /// Bytes of msgAuthenticationParameters.
    pub fn mac_bytes(self) -> usize {
        match self {
            Self::Md5 | Self::Sha1 => 12,
            Self::Sha224 => 16,
            Self::Sha256 => 24,
            Self::Sha384 => 32,
            Self::Sha512 => 48,
        }
    }
}

/// Runs `$body` with `$digest` as the protocol's digest.
macro_rules! with_digest {
    ($protocol:expr, $digest:ident => $body:expr) => {
        match $protocol {
            AuthProtocol::Md5 => {
                type $digest = md5::Md5;
                $body
            }
            AuthProtocol::Sha1 => {
                type $digest = sha1::Sha1;
                $body
            }
            AuthProtocol::Sha224 => {
                type $digest = sha2::Sha224;
                $body
            }
            AuthProtocol::Sha256 => {
                type $digest = sha2::Sha256;
                $body
            }
            AuthProtocol::Sha384 => {
                type $digest = sha2::Sha384;
                $body
            }
            AuthProtocol::Sha512 => {
                type $digest = sha2::Sha512;
                $body
            }
        }
    };
}

/// A key; its bytes are never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    bytes: [u8; MAX_KEY],
    len: usize,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes, not shown)", self.len)
    }
}

impl Key {
    /// At most [`MAX_KEY`] bytes of `from`.
    fn of(from: &[u8]) -> Self {
        let mut bytes = [0; MAX_KEY];
        let len = from.len().min(MAX_KEY);
        bytes[..len].copy_from_slice(&from[..len]);
        Self { bytes, len }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The key Ku of a password (RFC 3414 A.2). Takes about a millisecond, as it should.
    pub(super) fn from_password(protocol: AuthProtocol, password: &[u8]) -> Self {
        // Whole passwords per update: far fewer calls than one for each block of 64 bytes.
        let chunk: Vec<u8> = password.iter().copied().cycle().take(password.len() * 512).collect();
        with_digest!(protocol, D => {
            let mut digest = D::new();
            let mut left = PASSWORD_BYTES;
            while left > 0 && !chunk.is_empty() {
                let part = chunk.len().min(left);
                digest.update(&chunk[..part]);
                left -= part;
            }
            Self::of(&digest.finalize())
        })
    }

    /// The key Kul of one engine (RFC 3414 §2.6).
    pub(super) fn localised(&self, protocol: AuthProtocol, engine_id: &[u8]) -> Self {
        digest(protocol, &[self.bytes(), engine_id, self.bytes()])
    }

    /// Lengthened to `len` bytes by digesting what there is (draft-blumenthal-aes-usm-04 §3.1.2.1).
    pub(super) fn extended_by_digest(&self, protocol: AuthProtocol, len: usize) -> Self {
        let mut all = self.bytes().to_vec();
        while all.len() < len {
            let more = digest(protocol, &[&all]);
            all.extend_from_slice(more.bytes());
        }
        Self::of(&all[..len])
    }

    /// Lengthened to `len` bytes by treating the key as a password (draft-reeder-snmpv3-usm-3desede-00 §2.1), as Cisco does.
    pub(super) fn extended_by_password(&self, protocol: AuthProtocol, engine_id: &[u8], len: usize) -> Self {
        let mut all = self.bytes().to_vec();
        let mut last = *self;
        while all.len() < len {
            last = Self::from_password(protocol, last.bytes()).localised(protocol, engine_id);
            all.extend_from_slice(last.bytes());
        }
        Self::of(&all[..len])
    }
}

fn digest(protocol: AuthProtocol, parts: &[&[u8]]) -> Key {
    with_digest!(protocol, D => {
        let mut digest = D::new();
        for part in parts {
            digest.update(part);
        }
        Key::of(&digest.finalize())
    })
}

/// The code of a message whose parts are these, cut to the protocol's length.
pub(super) fn mac(protocol: AuthProtocol, key: &Key, parts: &[&[u8]]) -> Option<Key> {
    with_digest!(protocol, D => {
        let mut mac = Hmac::<D>::new_from_slice(key.bytes()).ok()?;
        for part in parts {
            mac.update(part);
        }
        Some(Key::of(&mac.finalize().into_bytes()[..protocol.mac_bytes()]))
    })
}

/// Whether `code` at `at` is that of `message`, in constant time.
pub(super) fn is_authentic(protocol: AuthProtocol, key: &Key, message: &[u8], at: usize, code: &[u8]) -> bool {
    const ZEROES: [u8; 48] = [0; 48];
    let len = protocol.mac_bytes();
    let (Some(before), Some(after)) = (message.get(..at), message.get(at + len..)) else { return false };
    if code.len() != len {
        return false;
    }
    with_digest!(protocol, D => {
        let Ok(mut mac) = Hmac::<D>::new_from_slice(key.bytes()) else { return false };
        mac.update(before);
        mac.update(&ZEROES[..len]);
        mac.update(after);
        mac.verify_truncated_left(code).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

    fn hex(key: Key) -> String {
        data_encoding::HEXLOWER.encode(key.bytes())
    }

    #[test]
    fn keys_are_those_of_rfc_3414_a_3() {
        let md5 = Key::from_password(AuthProtocol::Md5, b"maplesyrup");
        assert_eq!(hex(md5), "9faf3283884e92834ebc9847d8edd963");
        assert_eq!(hex(md5.localised(AuthProtocol::Md5, &ENGINE)), "526f5eed9fcce26f8964c2930787d82b");
        let sha = Key::from_password(AuthProtocol::Sha1, b"maplesyrup");
        assert_eq!(hex(sha), "9fb5cc0381497b3793528939ff788d5d79145211");
        assert_eq!(hex(sha.localised(AuthProtocol::Sha1, &ENGINE)), "6695febc9288e36282235fc7151f128497b38f3f");
    }

    #[test]
    fn secrets_are_not_shown() {
        let key = Key::from_password(AuthProtocol::Sha512, b"maplesyrup");
        assert_eq!(format!("{key:?}"), "Key(64 bytes, not shown)");
    }

    #[test]
    fn a_code_holds_only_for_its_message_and_length() {
        for protocol in [
            AuthProtocol::Md5,
            AuthProtocol::Sha1,
            AuthProtocol::Sha224,
            AuthProtocol::Sha256,
            AuthProtocol::Sha384,
            AuthProtocol::Sha512,
        ] {
            let key = Key::from_password(protocol, b"maplesyrup");
            let len = protocol.mac_bytes();
            let mut message = [&[1; 30][..], &vec![0; len], &[2; 9]].concat();
            let code = mac(protocol, &key, &[&message]).unwrap();
            message[30..30 + len].copy_from_slice(code.bytes());
            assert!(is_authentic(protocol, &key, &message, 30, code.bytes()));
            assert!(!is_authentic(protocol, &key, &message, 30, &code.bytes()[1..]));
            assert!(!is_authentic(protocol, &key, &message, 1000, code.bytes()));
            message[0] = 3;
            assert!(!is_authentic(protocol, &key, &message, 30, code.bytes()));
        }
    }
}
