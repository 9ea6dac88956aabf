//! Checked header views and flow keys.
