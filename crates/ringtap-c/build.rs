//! Gives the shared library the name that programs record: the one it is installed under, with the number of its interface.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libringtap.so.0");
}
