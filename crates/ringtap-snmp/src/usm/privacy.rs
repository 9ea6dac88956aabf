//! Encryption: DES-CBC (RFC 3414 §8), AES-128-CFB (RFC 3826), and AES-192 and -256 as agents have them.
//!
//! Owns initialisation vectors and padding. The ciphers are RustCrypto's. DES is broken as a cipher; it is here because
//! agents in the field speak nothing else.

use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use des::Des;

use super::keys::{AuthProtocol, Key};

/// How scoped PDUs are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivProtocol {
    /// CBC-DES.
    Des,
    /// CFB128-AES-128.
    Aes128,
    /// CFB128-AES-192; its key lengthened by digests.
    Aes192,
    /// CFB128-AES-256; its key lengthened by digests.
    Aes256,
    /// CFB128-AES-192; its key lengthened as Cisco does.
    Aes192Cisco,
    /// CFB128-AES-256; its key lengthened as Cisco does.
    Aes256Cisco,
}

impl PrivProtocol {
    /// By net-snmp's name: `DES`, `AES`, `AES-192`, `AES-256`, and with `-C` the variants of Cisco.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "DES" => Self::Des,
            "AES" | "AES-128" | "AES128" => Self::Aes128,
            "AES-192" | "AES192" => Self::Aes192,
            "AES-256" | "AES256" => Self::Aes256,
            "AES-192-C" | "AES192C" => Self::Aes192Cisco,
            "AES-256-C" | "AES256C" => Self::Aes256Cisco,
            _ => return None,
        })
    }

    /// The key for one engine, from the user's key Ku.
    pub(super) fn localised(self, auth: AuthProtocol, ku: &Key, engine_id: &[u8]) -> Key {
        let kul = ku.localised(auth, engine_id);
        match self {
            Self::Des | Self::Aes128 => kul.extended_by_digest(auth, 16),
            Self::Aes192 => kul.extended_by_digest(auth, 24),
            Self::Aes256 => kul.extended_by_digest(auth, 32),
            Self::Aes192Cisco => kul.extended_by_password(auth, engine_id, 24),
            Self::Aes256Cisco => kul.extended_by_password(auth, engine_id, 32),
        }
    }

    /// Decrypts in place. `None`: the salt or the length is not the protocol's.
    pub(super) fn decrypt(self, key: &Key, boots: u32, time: u32, salt: &[u8], data: &mut [u8]) -> Option<()> {
        let salt: [u8; 8] = salt.try_into().ok()?;
        let key = key.bytes();
        let iv = aes_iv(boots, time, salt);
        match self {
            Self::Des => {
                let decryptor = cbc::Decryptor::<Des>::new_from_slices(key.get(..8)?, &des_iv(key, salt)?).ok()?;
                decryptor.decrypt_padded::<NoPadding>(data).ok()?;
            }
            Self::Aes128 => cfb_mode::Decryptor::<Aes128>::new_from_slices(key, &iv).ok()?.decrypt(data),
            Self::Aes192 | Self::Aes192Cisco => {
                cfb_mode::Decryptor::<Aes192>::new_from_slices(key, &iv).ok()?.decrypt(data);
            }
            Self::Aes256 | Self::Aes256Cisco => {
                cfb_mode::Decryptor::<Aes256>::new_from_slices(key, &iv).ok()?.decrypt(data);
            }
        }
        Some(())
    }

    /// Encrypts in place, padded where the cipher wants that; gives the salt that goes with it.
    pub(super) fn encrypt(self, key: &Key, boots: u32, time: u32, counter: u64, data: &mut Vec<u8>) -> Option<[u8; 8]> {
        let key = key.bytes();
        let salt = match self {
            // RFC 3414 §8.1.1.1: engine boots and a counter.
            Self::Des => (u64::from(boots) << 32 | counter & 0xffff_ffff).to_be_bytes(),
            _ => counter.to_be_bytes(),
        };
        let iv = aes_iv(boots, time, salt);
        match self {
            Self::Des => {
                data.resize(data.len().next_multiple_of(8), 0);
                let len = data.len();
                let encryptor = cbc::Encryptor::<Des>::new_from_slices(key.get(..8)?, &des_iv(key, salt)?).ok()?;
                encryptor.encrypt_padded::<NoPadding>(data, len).ok()?;
            }
            Self::Aes128 => cfb_mode::Encryptor::<Aes128>::new_from_slices(key, &iv).ok()?.encrypt(data),
            Self::Aes192 | Self::Aes192Cisco => {
                cfb_mode::Encryptor::<Aes192>::new_from_slices(key, &iv).ok()?.encrypt(data);
            }
            Self::Aes256 | Self::Aes256Cisco => {
                cfb_mode::Encryptor::<Aes256>::new_from_slices(key, &iv).ok()?.encrypt(data);
            }
        }
        Some(salt)
    }
}

/// RFC 3826 §3.1.2.1: engine boots, engine time, salt.
fn aes_iv(boots: u32, time: u32, salt: [u8; 8]) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[..4].copy_from_slice(&boots.to_be_bytes());
    iv[4..8].copy_from_slice(&time.to_be_bytes());
    iv[8..].copy_from_slice(&salt);
    iv
}

/// RFC 3414 §8.1.1.1: the second half of the key XOR the salt.
fn des_iv(key: &[u8], salt: [u8; 8]) -> Option<[u8; 8]> {
    let mut iv: [u8; 8] = key.get(8..16)?.try_into().ok()?;
    for (byte, salt) in iv.iter_mut().zip(salt) {
        *byte ^= salt;
    }
    Some(iv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encrypted_comes_back_and_nothing_else_does() {
        let ku = Key::from_password(AuthProtocol::Sha1, b"a password of some length");
        for protocol in [
            PrivProtocol::Des,
            PrivProtocol::Aes128,
            PrivProtocol::Aes192,
            PrivProtocol::Aes256,
            PrivProtocol::Aes192Cisco,
            PrivProtocol::Aes256Cisco,
        ] {
            let key = protocol.localised(AuthProtocol::Sha1, &ku, b"engine");
            let plain = b"a scoped PDU of 29 bytes long".to_vec();
            let mut data = plain.clone();
            let salt = protocol.encrypt(&key, 3, 400, 99, &mut data).unwrap();
            assert_ne!(data[..plain.len()], plain);
            let mut back = data.clone();
            protocol.decrypt(&key, 3, 400, &salt, &mut back).unwrap();
            assert_eq!(back[..plain.len()], plain, "{protocol:?}");
            assert_eq!(protocol.decrypt(&key, 3, 400, &salt[1..], &mut data), None, "a salt of seven bytes");
        }
        let key = PrivProtocol::Des.localised(AuthProtocol::Md5, &ku, b"engine");
        assert_eq!(PrivProtocol::Des.decrypt(&key, 1, 1, &[0; 8], &mut [0; 15]), None, "no whole blocks");
    }
}
