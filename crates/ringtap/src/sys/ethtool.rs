//! Questions to a driver through SIOCETHTOOL (ethtool(8), linux/ethtool.h): its name, queues, rings, features and own counters.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const SIOCETHTOOL: u64 = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_SRXFH: u32 = 0x2a;
const ETHTOOL_GRSSH: u32 = 0x46;
const ETHTOOL_SRSSH: u32 = 0x47;
const ETH_SS_STATS: u32 = 1;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
/// Upper bound on what a driver may claim to count; mlx5 has some thousands.
const MOST_STATISTICS: u32 = 65_536;
/// Words of struct ethtool_rxfh before its table and key: cmd, rss_context, indir_size, key_size, four bytes (hfunc, input_xfrm),
/// reserved.
const RXFH_WORDS: usize = 6;
/// ETH_RXFH_INDIR_NO_CHANGE.
const TABLE_STAYS: u32 = 0xffff_ffff;

/// TCP_V4_FLOW, UDP_V4_FLOW, TCP_V6_FLOW and UDP_V6_FLOW: kinds of packets whose ports a device may hash.
pub(crate) const FLOW_TYPES: [u32; 4] = [1, 2, 5, 6];
/// RXH_IP_SRC | RXH_IP_DST.
pub(crate) const RSS_ADDRESSES: u32 = 0x30;

/// How a device hashes flows onto its queues (struct ethtool_rxfh).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RssHash {
    /// ETH_RSS_HASH_… bit; 1 is Toeplitz.
    pub(crate) function: u8,
    /// RXH_XFRM_…; 0 is none.
    pub(crate) transform: u8,
    /// Empty where the device has none that can be told.
    pub(crate) key: Vec<u8>,
}

impl RssHash {
    /// Whether source and destination may change places: they are joined before they are hashed, or bits of Toeplitz' key repeat after 16.
    pub(crate) fn is_symmetric(&self) -> bool {
        let repeats = || self.key.len() > 2 && self.key.iter().zip(&self.key[2..]).all(|(one, other)| one == other);
        self.transform != 0 || self.function == 1 && repeats()
    }
}

/// A socket for questions about devices of the calling thread's network namespace.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call, the result is checked and owned once.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// What tells the socket's network namespace from all others of this boot: its cookie, which is never used again (Linux 5.14), or
/// the number of its file.
pub(crate) fn namespace_of(socket: BorrowedFd<'_>) -> io::Result<String> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    match super::getsockopt::<u64>(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE) {
        Ok(cookie) => Ok(format!("net{cookie}")),
        Err(_) => {
            let file = std::fs::metadata("/proc/thread-self/ns/net")?;
            Ok(format!("inode{}", std::os::unix::fs::MetadataExt::ino(&file)))
        }
    }
}

/// The name of a device of the socket's namespace (SIOCGIFNAME, netdevice(7)).
///
/// # Errors
/// ENODEV without such a device.
pub(crate) fn name_of(socket: BorrowedFd<'_>, ifindex: u32) -> io::Result<String> {
    // SAFETY: all zeroes is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = ifindex as libc::c_int;
    // SAFETY: the request is valid for reading and writing during the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(text(&request.ifr_name.map(|byte| byte as u8)))
}

/// The first 14 bytes of a device's hardware address, with zeroes behind a shorter one (SIOCGIFHWADDR, netdevice(7)).
///
/// # Errors
/// ENODEV without such a device.
pub(crate) fn address_of(socket: BorrowedFd<'_>, interface: &str) -> io::Result<[u8; 14]> {
    let mut request = request(interface)?;
    // SAFETY: the request is valid for reading and writing during the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call filled in the address; any bytes are one.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_data }.map(|byte| byte as u8))
}

/// A request about a device.
fn request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, &from) in request.ifr_name.iter_mut().zip(interface.as_bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// One question to the driver of `interface`: `command` is a structure of linux/ethtool.h that begins with its number.
fn ask(interface: &str, command: &mut [u32]) -> io::Result<()> {
    ask_by(socket()?.as_fd(), interface, command).map(drop)
}

/// The same by a socket, which belongs to a network namespace; with what the call returned.
fn ask_by(socket: BorrowedFd<'_>, interface: &str, command: &mut [u32]) -> io::Result<u32> {
    let mut request = request(interface)?;
    request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
    // SAFETY: the request names a structure that is as long as the command asks for (each caller sizes it so).
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as u32) }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field.split(|&byte| byte == 0).next().unwrap_or(&[])).into_owned()
}

/// The driver's name, such as `igb` or `veth`.
///
/// # Errors
/// ENODEV without such an interface, EOPNOTSUPP where the driver does not say.
pub fn driver(interface: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: cmd, driver[32], version[32], fw_version[32], bus_info[32], erom[32], 12 + 5 × 4 bytes.
    let mut command = [0u32; 49];
    command[0] = ETHTOOL_GDRVINFO;
    ask(interface, &mut command)?;
    Ok(text(&bytes(&command)[4..36]))
}

/// Receive queues in use: combined channels plus rx-only ones.
///
/// # Errors
/// EOPNOTSUPP where the driver has no notion of channels (then there is one queue).
pub fn receive_queues(interface: &str) -> io::Result<u32> {
    let [receive, _, _, combined] = channels(interface)?;
    Ok(receive.saturating_add(combined).max(1))
}

/// Transmit queues in use: combined channels plus tx-only ones.
///
/// # Errors
/// As [`receive_queues`].
pub fn transmit_queues(interface: &str) -> io::Result<u32> {
    let [_, transmit, _, combined] = channels(interface)?;
    Ok(transmit.saturating_add(combined).max(1))
}

/// Channels in use: rx, tx, other, combined.
fn channels(interface: &str) -> io::Result<[u32; 4]> {
    // struct ethtool_channels: cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}_count.
    let mut command = [0u32; 9];
    command[0] = ETHTOOL_GCHANNELS;
    ask(interface, &mut command)?;
    let [_, _, _, _, _, in_use @ ..] = command;
    Ok(in_use)
}

/// Descriptors of each receive ring of the device: in use, and the most it can have.
///
/// # Errors
/// EOPNOTSUPP where the driver has no such rings.
pub fn receive_ring(interface: &str) -> io::Result<(u32, u32)> {
    // struct ethtool_ringparam: cmd, rx_{,mini_,jumbo_}max, tx_max, rx_{,mini_,jumbo_}pending, tx_pending.
    let mut command = [0u32; 9];
    command[0] = ETHTOOL_GRINGPARAM;
    ask(interface, &mut command)?;
    Ok((command[5], command[1]))
}

/// The driver's own counters by name.
///
/// # Errors
/// EOPNOTSUPP where the driver has none.
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    // struct ethtool_sset_info: cmd, reserved, sset_mask (u64), data[1].
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS, 0, 0];
    ask(interface, &mut info)?;
    let count = if info[2] & (1 << ETH_SS_STATS) == 0 { 0 } else { info[4].min(MOST_STATISTICS) };
    if count == 0 {
        return Ok(Vec::new());
    }
    let count = count as usize;
    // struct ethtool_gstrings: cmd, string_set, len, data.
    let mut names = vec![0u32; 3 + count * ETH_GSTRING_LEN / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_STATS, count as u32]);
    ask(interface, &mut names)?;
    // struct ethtool_stats: cmd, n_stats, data (u64 each).
    let mut values = vec![0u32; 2 + count * 2];
    values[..2].copy_from_slice(&[ETHTOOL_GSTATS, count as u32]);
    ask(interface, &mut values)?;
    let names = bytes(&names[3..]);
    let values = bytes(&values[2..]);
    Ok(names
        .chunks_exact(ETH_GSTRING_LEN)
        .map(text)
        .zip(values.chunks_exact(8).map(|value| u64::from_ne_bytes(value.try_into().unwrap_or_default())))
        .collect())
}

/// Which fields of such packets a device hashes: RXH_… bits (struct ethtool_rxnfc, of which these commands read the first 16 bytes).
///
/// # Errors
/// EOPNOTSUPP where it does not say.
pub(crate) fn rss_fields(socket: BorrowedFd<'_>, interface: &str, flow_type: u32) -> io::Result<u32> {
    let mut command = rxnfc(ETHTOOL_GRXFH, flow_type, 0);
    ask_by(socket, interface, &mut command)?;
    Ok(if cfg!(target_endian = "little") { command[2] } else { command[3] })
}

/// Has it hash these.
///
/// # Errors
/// EINVAL or EOPNOTSUPP where it can't; EPERM without CAP_NET_ADMIN.
pub(crate) fn set_rss_fields(socket: BorrowedFd<'_>, interface: &str, flow_type: u32, fields: u32) -> io::Result<()> {
    ask_by(socket, interface, &mut rxnfc(ETHTOOL_SRXFH, flow_type, fields)).map(drop)
}

/// All of the structure, as some kernels copy it whole: command, flow type, data (64 bits), and the rest.
fn rxnfc(command: u32, flow_type: u32, data: u32) -> [u32; 50] {
    let mut words = [0; 50];
    (words[0], words[1]) = (command, flow_type);
    words[if cfg!(target_endian = "little") { 2 } else { 3 }] = data;
    words
}

/// How flows are hashed onto queues.
///
/// # Errors
/// EOPNOTSUPP where the device does not, or does not say.
pub(crate) fn rss_hash(socket: BorrowedFd<'_>, interface: &str) -> io::Result<RssHash> {
    let (command, table, key) = rxfh(socket, interface)?;
    let [function, transform, ..] = command[4].to_ne_bytes();
    Ok(RssHash { function, transform, key: bytes(&command[RXFH_WORDS + table..])[..key].to_vec() })
}

/// The queue of each value of the hash, modulo the table's length.
///
/// # Errors
/// ENODEV without such a device, EOPNOTSUPP where it has no table.
pub(crate) fn rss_table(interface: &str) -> io::Result<Vec<u32>> {
    let (command, table, _) = rxfh(socket()?.as_fd(), interface)?;
    Ok(command[RXFH_WORDS..RXFH_WORDS + table].to_vec())
}

/// A device's struct ethtool_rxfh, with the lengths of its table in words and of its key in bytes.
fn rxfh(socket: BorrowedFd<'_>, interface: &str) -> io::Result<(Vec<u32>, usize, usize)> {
    let mut sizes = [0u32; RXFH_WORDS];
    sizes[0] = ETHTOOL_GRSSH;
    ask_by(socket, interface, &mut sizes)?;
    let (table, key) = (sizes[2].min(MOST_STATISTICS) as usize, sizes[3].min(MOST_STATISTICS) as usize);
    let mut command = vec![0u32; RXFH_WORDS + table + key.div_ceil(4)];
    (command[0], command[2], command[3]) = (ETHTOOL_GRSSH, table as u32, key as u32);
    ask_by(socket, interface, &mut command)?;
    Ok((command, table, key))
}

/// Sets key and transformation; table and function stay.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN; EOPNOTSUPP or EINVAL where the device can't do that.
pub(crate) fn set_rss_hash(socket: BorrowedFd<'_>, interface: &str, hash: &RssHash) -> io::Result<()> {
    let mut command = vec![0u32; RXFH_WORDS];
    (command[0], command[2], command[3]) = (ETHTOOL_SRSSH, TABLE_STAYS, hash.key.len() as u32);
    command[4] = u32::from_ne_bytes([0, hash.transform, 0, 0]);
    command.extend(hash.key.chunks(4).map(|part| {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        u32::from_ne_bytes(word)
    }));
    ask_by(socket, interface, &mut command).map(drop)
}

/// Whether a feature (by the kernel's name) is on.
///
/// # Errors
/// ENODEV without such a device, EOPNOTSUPP where it has no such feature.
pub(crate) fn feature(socket: BorrowedFd<'_>, interface: &str, name: &str) -> io::Result<bool> {
    let (index, count) = feature_index(socket, interface, name)?;
    // struct ethtool_gfeatures: cmd, size, size × { available, requested, active, never_changed }, 32 features each.
    let mut command = vec![0u32; 2 + count.div_ceil(32) * 4];
    command[..2].copy_from_slice(&[ETHTOOL_GFEATURES, count.div_ceil(32) as u32]);
    ask_by(socket, interface, &mut command)?;
    Ok(command[2 + index / 32 * 4 + 2] & (1 << (index % 32)) != 0)
}

/// Switches a feature on or off.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN; EOPNOTSUPP where the device has no such feature or it can't be changed.
pub(crate) fn set_feature(socket: BorrowedFd<'_>, interface: &str, name: &str, on: bool) -> io::Result<()> {
    let (index, count) = feature_index(socket, interface, name)?;
    // struct ethtool_sfeatures: cmd, size, size × { valid, requested }.
    let mut command = vec![0u32; 2 + count.div_ceil(32) * 2];
    command[..2].copy_from_slice(&[ETHTOOL_SFEATURES, count.div_ceil(32) as u32]);
    let bit = 1 << (index % 32);
    command[2 + index / 32 * 2] = bit;
    command[2 + index / 32 * 2 + 1] = if on { bit } else { 0 };
    // Not 0: the driver did something else (enum ethtool_sfeatures_retval_bits).
    match ask_by(socket, interface, &mut command)? {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

/// A feature's number, and how many there are.
fn feature_index(socket: BorrowedFd<'_>, interface: &str, name: &str) -> io::Result<(usize, usize)> {
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ask_by(socket, interface, &mut info)?;
    let count = info[4].min(MOST_STATISTICS) as usize;
    let mut names = vec![0u32; 3 + count * ETH_GSTRING_LEN / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ask_by(socket, interface, &mut names)?;
    let index = bytes(&names[3..]).chunks_exact(ETH_GSTRING_LEN).position(|known| text(known) == name);
    index.map(|index| (index, count)).ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_hash_is_symmetric_by_its_key_or_by_what_is_hashed() {
        let hash = |function, transform, key: &[u8]| super::RssHash { function, transform, key: key.to_vec() };
        assert!(hash(1, 0, &[0x6d, 0x5a, 0x6d, 0x5a, 0x6d]).is_symmetric());
        assert!(!hash(1, 0, &[0x6d, 0x5a, 0x56, 0xda]).is_symmetric());
        assert!(!hash(2, 0, &[0x6d, 0x5a, 0x6d, 0x5a]).is_symmetric() && hash(2, 1, &[]).is_symmetric());
        assert!(!hash(1, 0, &[]).is_symmetric());
    }

    #[test]
    fn an_unknown_interface_is_enodev() {
        assert_eq!(super::driver("no-such-if0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(super::driver("a-name-longer-than-any-interface").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
