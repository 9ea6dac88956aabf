//! Matching bytes: the tests of one buffer with back-tracking, regular expressions, multi-pattern matchers, and the
//! indexes that say which rules to look at.
//!
//! Owns no packet and no state of flows.

pub(crate) mod base64;
pub(crate) mod expression;
pub(crate) mod groups;
pub(crate) mod inspect;
pub(crate) mod patterns;
pub(crate) mod transform;
