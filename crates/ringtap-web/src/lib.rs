//! What a running program shows over HTTP: metrics for Prometheus, and a page for people.
//!
//! Owns the addresses, who may look, and how it looks. A program hands in a [`View`]: its metrics as text, its account, and lists of what
//! it found. Nothing can be changed by way of it.
//!
//! The page is made here, whole, at each request; a script of forty lines replaces the parts that changed, once a second, while somebody
//! looks (server-sent events). Without the script it loads itself anew. What came from the network is text everywhere: it is never put
//! into a page but through maud, which escapes it.

mod account;
mod content;
mod guard;
mod history;
mod http;
mod live;
mod page;
mod serve;

pub use content::{Branch, Cell, Item, Now, Part, Table, interface_faults};
pub use serve::{Bound, PageAt, Places, View};
