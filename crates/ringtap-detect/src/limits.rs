//! What limits come to in memory, and limits for a host that has little.
//!
//! Owns the sizes of what a detector holds; `tests/memory.rs` holds them against the allocator.

use crate::{HttpSettings, Limits};

/// Bytes of what does not depend on limits: messages of TLS and other conversations, decompressors, counts.
const FIXED: u64 = 67_000_000;
/// Bytes of a flow and of the conversations in it.
const FLOW: u64 = 3_450;
/// Bytes of a window beside its contents.
const WINDOW: u64 = 28;
/// Bytes of an HTTP connection beside its heads and contents.
const CONNECTION: u64 = 804;
/// Bytes of a decompressor of Brotli, its part of the memory that they share included.
const BROTLI: u64 = 638_000;
/// Flows to each of them on a host with little memory, and how many there are at least.
const BROTLI_FLOWS: usize = 1 << 11;
const LEAST_BROTLI: usize = 4;
/// A host gets room for early segments and for heads and contents by the flow, with so many bytes at least.
const EARLY_BYTES: usize = 1 << 10;
const HTTP_BYTES: usize = 2 << 10;
const LEAST: usize = 4 << 20;

impl Limits {
    /// Bytes that a detector holds when all its tables are full, within 8 %. All of it is reserved when it is made.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        // An early segment of 1,024 bytes has a node.
        let early = self.early_bytes as u64 * 37 / 32;
        let windows = self.windows as u64 * (self.window as u64 + WINDOW);
        let http =
            self.http.bytes as u64 + self.http.connections as u64 * CONNECTION + self.http.brotli as u64 * BROTLI;
        FIXED + self.flows as u64 * FLOW + early + windows + http + self.fragment_bytes as u64 - (8 << 20)
    }

    /// These, for no more than `flows`: each pool is as large as so many need, or as it is, if that is less.
    #[must_use]
    pub fn within(&self, flows: usize) -> Self {
        let http = HttpSettings {
            connections: self.http.connections.min(flows),
            bytes: self.http.bytes.min(flows.saturating_mul(HTTP_BYTES).max(LEAST)),
            brotli: self.http.brotli.min((flows / BROTLI_FLOWS).max(LEAST_BROTLI)),
            ..self.http
        };
        Self {
            flows: self.flows.min(flows),
            windows: self.windows.min(flows.saturating_mul(2)),
            early_bytes: self.early_bytes.min(flows.saturating_mul(EARLY_BYTES).max(LEAST)),
            http,
            ..self.clone()
        }
    }
}
