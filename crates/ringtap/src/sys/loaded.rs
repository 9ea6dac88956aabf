//! Shared libraries that are loaded at run time, not linked: the program starts where they are missing.
//!
//! Owns how their functions are declared and found, and the words of the dynamic linker. What they do is their users' business.

use std::ffi::{CStr, c_char};

/// Declares `struct Library`: the functions of a library, by their names and types there.
macro_rules! functions {
    ($(fn $name:ident($($type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// A library and the functions of it that are used.
        struct Library {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
            /// Unloads it when dropped.
            _loaded: libloading::os::unix::Library,
        }

        impl Library {
            fn of(loaded: libloading::os::unix::Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the types are those of the library's header; the functions are called only while it is loaded.
                unsafe {
                    $(let $name = *loaded.get(concat!(stringify!($name), "\0").as_bytes())?;)*
                    Ok(Self { $($name,)* _loaded: loaded })
                }
            }
        }
    };
}

pub(super) use functions;

/// A copy of a C string.
///
/// # Safety
/// It is null or ended by a zero.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Why the library called `name` can't be loaded: the dynamic linker's words, which libloading keeps behind its own, without the name
/// that they begin with.
pub(super) fn cause(name: &str, error: &libloading::Error) -> String {
    use std::error::Error as _;
    let words = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    words.strip_prefix(&format!("{name}: ")).unwrap_or(&words).to_owned()
}

/// The file that holds the code at `address`.
pub(super) fn file_of(address: *const libc::c_void) -> String {
    // SAFETY: all zeroes is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: a structure that dladdr(3) fills; the name in it lives as long as the library, which is loaded now.
    let file = unsafe { (libc::dladdr(address, &mut info) != 0).then(|| text(info.dli_fname)) };
    file.unwrap_or_else(|| "an unknown file".to_owned())
}
