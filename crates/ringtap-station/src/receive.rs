//! Receiving: by plain sockets, by TCP streams, and by the ring; each copies what it gets into a spool of its own.

pub(crate) mod copied;
pub(crate) mod own;
pub(crate) mod ring;
pub(crate) mod sockets;
pub(crate) mod stream;
