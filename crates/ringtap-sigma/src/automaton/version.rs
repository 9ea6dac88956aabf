//! Owns: hashes of what rules mean: versions, incident ids, fingerprints.
//! Does not: hash for tables; nothing here depends on a hash's order.

use sha2::{Digest, Sha256};

/// SHA-256 with what is hashed said at its beginning, so that two kinds of things never share a hash.
pub(crate) struct Hash(Sha256);

impl Hash {
    pub(crate) fn of(what: &str) -> Self {
        Self(Sha256::new().chain_update((what.len() as u32).to_le_bytes()).chain_update(what))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn whole(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    pub(crate) fn part<const N: usize>(self) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.whole()[..N]);
        part
    }
}

/// The version of a rule whose meaning was written as `bytes`.
pub(crate) fn version(bytes: &[u8]) -> super::Version {
    let mut hash = Hash::of("ringtap sigma rule 1");
    hash.add(bytes);
    hash.part()
}
