//! Private testbed.
