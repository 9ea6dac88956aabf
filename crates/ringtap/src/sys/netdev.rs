//! Two questions of the generic netlink family `netdev` (Documentation/netlink/specs/netdev.yaml): which kernel threads run an
//! interface's NAPI, and what its driver can do with XDP.
//!
//! Works in the network namespace of the calling thread, unlike /sys.

use std::io;
use std::os::fd::OwnedFd;

use super::netlink::{answers, attributes, datagram, open, u16_at, u32_at, until_whole};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_XSK_ZEROCOPY: u32 = 1 << 3;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_PID: u16 = 4;
/// struct nlmsghdr and struct genlmsghdr.
const HEADERS: usize = 16 + 4;

/// Ids of the kernel threads that run the interface's NAPI (threaded NAPI); empty where softirqs do.
///
/// # Errors
/// ENOENT before Linux 6.8, which has no such question; ENODEV without such an interface in the calling thread's network namespace.
pub fn napi_threads(ifindex: u32) -> io::Result<Vec<i32>> {
    let (socket, family) = family()?;
    let index = ifindex.to_ne_bytes();
    ask(&socket, family, libc::NLM_F_DUMP, NETDEV_CMD_NAPI_GET, NETDEV_A_NAPI_IFINDEX, &index, |body| {
        let thread = attributes(body).find(|&(kind, _)| kind == NETDEV_A_NAPI_PID).and_then(|(_, id)| u32_at(id, 0));
        thread.and_then(|id| i32::try_from(id).ok())
    })
}

/// Whether the interface's driver says that AF_XDP sockets can have zero-copy.
///
/// # Errors
/// ENOENT before Linux 6.3, which has no such question; ENODEV without such an interface in the calling thread's network namespace.
pub fn has_zero_copy(ifindex: u32) -> io::Result<bool> {
    let (socket, family) = family()?;
    let index = ifindex.to_ne_bytes();
    let features = ask(&socket, family, libc::NLM_F_ACK, NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, &index, |body| {
        let (_, features) = attributes(body).find(|&(kind, _)| kind == NETDEV_A_DEV_XDP_FEATURES)?;
        // 64 bits in host order, of which those that exist are in the lower half.
        u32_at(features, if cfg!(target_endian = "little") { 0 } else { 4 })
    })?;
    let features = features.first().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    Ok(features & NETDEV_XDP_ACT_XSK_ZEROCOPY != 0)
}

/// A socket and the family's number.
fn family() -> io::Result<(OwnedFd, u16)> {
    let socket = open(libc::NETLINK_GENERIC)?;
    let family =
        ask(&socket, GENL_ID_CTRL, libc::NLM_F_ACK, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"netdev\0", |body| {
            attributes(body).find(|&(kind, _)| kind == CTRL_ATTR_FAMILY_ID).and_then(|(_, id)| u16_at(id, 0))
        })?;
    let family = family.first().copied().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    Ok((socket, family))
}

/// Sends a command with one attribute; gives what `found` makes of each answer.
fn ask<T>(
    socket: &OwnedFd,
    family: u16,
    flags: libc::c_int,
    command: u8,
    attribute: u16,
    value: &[u8],
    found: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let mut body = vec![command, 1, 0, 0];
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(attribute.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
    until_whole(|| {
        datagram(socket, family, flags, &body)?;
        let mut all = Vec::new();
        answers(socket, |message| {
            all.extend(message.get(HEADERS..).and_then(&found));
            Ok(())
        })?;
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_zero_copy_and_an_absent_interface_is_an_error() {
        let lo = super::super::netlink::link_by_name("lo").unwrap();
        match has_zero_copy(lo.index) {
            Ok(has) => {
                assert!(!has);
                assert_eq!(has_zero_copy(1_000_000).unwrap_err().raw_os_error(), Some(libc::ENODEV));
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "a kernel before 6.3: {error}"),
        }
    }

    #[test]
    fn loopback_has_no_napi_threads_and_an_absent_interface_is_an_error() {
        let lo = super::super::netlink::link_by_name("lo").unwrap();
        match napi_threads(lo.index) {
            Ok(threads) => {
                assert!(threads.is_empty(), "{threads:?}");
                assert_eq!(napi_threads(1_000_000).unwrap_err().raw_os_error(), Some(libc::ENODEV));
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "a kernel before 6.8: {error}"),
        }
    }
}
