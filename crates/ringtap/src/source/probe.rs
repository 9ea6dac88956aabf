//! Whether a back end would open on an interface, without taking a packet from anyone.

use crate::error::Result;
use crate::interface::Interface;
use crate::sys::xsk::{XskConfig, XskSocket};

/// Binds an AF_XDP socket to `queue` for a moment, in copy mode and without a steering program: no packet goes there, and
/// the driver does not reset its rings as it may for zero-copy.
///
/// # Errors
/// What stands in the way: privileges, the kernel, the driver, another program that owns the queue.
pub fn af_xdp(interface: &Interface, queue: u32) -> Result<()> {
    XskSocket::open(&XskConfig {
        interface: interface.name.clone(),
        ifindex: interface.index,
        queue,
        rx_frames: 64,
        tx_frames: 0,
        frame_size: 2048,
        huge_pages: false,
        across_fork: false,
        force_copy: true,
        cookie: 0,
    })
    .map(|_| ())
}
