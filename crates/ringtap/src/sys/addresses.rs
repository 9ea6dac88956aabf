//! Names of the interfaces in the calling thread's network namespace (if_nameindex(3)).

use std::ffi::CStr;
use std::io;

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

#[cfg(test)]
mod tests {
    #[test]
    fn loopback_is_listed() {
        assert!(super::interface_names().unwrap().iter().any(|name| name == "lo"));
    }
}
