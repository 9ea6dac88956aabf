//! Owns: the client's side of SCRAM (RFC 5802), without channel binding: the proof that we know the password, and the check that the
//! broker does.
//! Does not: normalise names and passwords (SASLprep): they are taken as they are.

use std::num::NonZeroU32;

use data_encoding::BASE64;
use ring::{digest, hmac, pbkdf2};

use crate::failure::Malformed;
use crate::security::{Mechanism, Sasl};

/// Iterations that a broker may ask for: Kafka's own bounds are 4096 (RFC 7677 §4 wants no fewer) and 16,384. With few, somebody who
/// plays the broker finds the password from the proof.
const LEAST_ITERATIONS: u32 = 4096;
const MOST_ITERATIONS: u32 = 1 << 20;

/// An exchange that has begun.
pub(crate) struct Scram<'a> {
    sasl: &'a Sasl,
    nonce: String,
}

/// What is awaited in the end.
pub(crate) struct Awaited(hmac::Tag);

impl<'a> Scram<'a> {
    /// With a nonce that nobody can foresee.
    pub(crate) fn new(sasl: &'a Sasl, nonce: &[u8]) -> Self {
        Self { sasl, nonce: BASE64.encode(nonce) }
    }

    fn bare(&self) -> String {
        let user = self.sasl.user.replace('=', "=3D").replace(',', "=2C");
        format!("n={user},r={}", self.nonce)
    }

    /// The first message.
    pub(crate) fn first(&self) -> String {
        format!("n,,{}", self.bare())
    }

    /// The last message, as an answer to the broker's first one.
    pub(crate) fn proof(&self, challenge: &[u8]) -> Result<(String, Awaited), Malformed> {
        let wrong = Malformed("its SCRAM challenge is none");
        let challenge = std::str::from_utf8(challenge).map_err(|_| wrong)?;
        let field = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&self.nonce)).ok_or(wrong)?;
        let salt = field("s=").and_then(|salt| BASE64.decode(salt.as_bytes()).ok()).ok_or(wrong)?;
        let iterations: NonZeroU32 = field("i=").and_then(|count| count.parse().ok()).ok_or(wrong)?;
        if !(LEAST_ITERATIONS..=MOST_ITERATIONS).contains(&iterations.get()) {
            return Err(Malformed("it asks for fewer iterations of SCRAM than 4096, or for more than a million"));
        }
        let (derive, mac, hash) = match self.sasl.mechanism {
            Mechanism::ScramSha512 => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512),
            Mechanism::ScramSha256 | Mechanism::Plain => {
                (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256)
            }
        };
        let mut salted = vec![0; hash.output_len()];
        pbkdf2::derive(derive, iterations, &salt, self.sasl.password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(mac, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored = digest::digest(hash, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.bare());
        let signature = hmac::sign(&hmac::Key::new(mac, stored.as_ref()), signed.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server_key = hmac::sign(&salted, b"Server Key");
        let awaited = hmac::sign(&hmac::Key::new(mac, server_key.as_ref()), signed.as_bytes());
        Ok((format!("{without_proof},p={}", BASE64.encode(&proof)), Awaited(awaited)))
    }
}

impl Awaited {
    /// Whether the broker's last message shows that it knows the password, too.
    pub(crate) fn is_shown_by(&self, last: &[u8]) -> bool {
        let field =
            std::str::from_utf8(last).ok().and_then(|text| text.split(',').find_map(|part| part.strip_prefix("v=")));
        let shown = field.and_then(|text| BASE64.decode(text.as_bytes()).ok());
        shown.is_some_and(|shown| shown == self.0.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677 §3.
    #[test]
    fn the_example_of_the_rfc() {
        let sasl = Sasl { mechanism: Mechanism::ScramSha256, user: "user".into(), password: "pencil".into() };
        let scram = Scram { sasl: &sasl, nonce: "rOprNGfwEbeRWgbNEkqO".into() };
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, awaited) = scram.proof(challenge).unwrap();
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(last, expected);
        assert!(awaited.is_shown_by(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(
            !awaited.is_shown_by(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") && !awaited.is_shown_by(b"e=x")
        );
        for wrong in [
            &b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"[..],
            b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
            b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095",
            b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4000000000",
            b"\xff",
        ] {
            assert!(scram.proof(wrong).is_err());
        }
    }
}
