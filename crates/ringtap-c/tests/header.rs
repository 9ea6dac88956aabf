//! include/ringtap.h is what cbindgen makes of the sources. After a change of these:
//!
//!     RINGTAP_WRITE_HEADER=1 cargo test -p ringtap-c --test header

use std::path::Path;

fn made() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = cbindgen::Builder::new().with_config(config);
    let sources = sources.with_src(root.join("src/abi.rs")).with_src(root.join("src/entry.rs"));
    let mut text = Vec::new();
    sources.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/ringtap.h");
    let made = made();
    if std::env::var_os("RINGTAP_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        made == kept,
        "it is not: RINGTAP_WRITE_HEADER=1 cargo test -p ringtap-c --test header, then look at the difference"
    );
}
