//! Names and addresses of the interfaces in the calling thread's network namespace (if_nameindex(3), getifaddrs(3)).

use std::ffi::CStr;
use std::io;
use std::net::Ipv6Addr;

/// The names of all interfaces.
///
/// # Errors
/// The kernel does not answer.
pub fn interface_names() -> io::Result<Vec<String>> {
    // SAFETY: returns null or an array that ends with an all-zero entry and is freed below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    let mut entry = list;
    // SAFETY: `entry` walks the array up to its end mark; names are valid strings until it is freed.
    unsafe {
        while (*entry).if_index != 0 {
            names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    Ok(names)
}

/// Whether the host has an address on the interface that others may send to (IPv4, or IPv6 beyond link-local).
pub fn has_global_address(interface: &str) -> bool {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` is valid for writing; on success it is freed below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return false;
    }
    let mut found = false;
    let mut entry = list;
    while !entry.is_null() {
        // SAFETY: `entry` is a live element of the list; its name is a valid string.
        let (name, address, next) =
            unsafe { (CStr::from_ptr((*entry).ifa_name), (*entry).ifa_addr, (*entry).ifa_next) };
        if !address.is_null() && name.to_bytes() == interface.as_bytes() {
            // SAFETY: a non-null address is at least a sockaddr, and of the size its family says.
            found |= unsafe {
                match i32::from((*address).sa_family) {
                    libc::AF_INET => true,
                    libc::AF_INET6 => {
                        let octets = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                        !Ipv6Addr::from(octets).is_unicast_link_local()
                    }
                    _ => false,
                }
            };
        }
        entry = next;
    }
    // SAFETY: the list came from getifaddrs and is freed once.
    unsafe { libc::freeifaddrs(list) };
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn loopback_is_listed() {
        assert!(super::interface_names().unwrap().iter().any(|name| name == "lo"));
        assert!(!super::has_global_address("no-such-if0"));
    }
}
