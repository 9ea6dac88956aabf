//! `make install-c`: programs are built through its pkg-config file, with the shared library and with the static one, and all is
//! undone; so is the manual's program.

mod support;

use std::path::Path;
use std::process::Command;

use support::{built, here, output, run};

const PREFIX: &str = "/opt/ringtap";

fn make(target: &str, stage: &Path) {
    let files = [("C_BUILT", "libringtap_c.so"), ("C_STATIC", "libringtap_c.a")];
    let mut make = Command::new("make");
    make.arg("-C").arg(here().join("../..")).args([target, &format!("PREFIX={PREFIX}")]);
    make.arg(format!("DESTDIR={}", stage.display()));
    output(make.args(files.map(|(name, file)| format!("{name}={}", built(file).display()))));
}

fn files(folder: &Path) -> Vec<String> {
    let listed = output(Command::new("find").arg(folder).args(["!", "-type", "d", "-printf", "%P\n"]));
    let mut names: Vec<_> = listed.lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// What pkg-config says of the staged installation.
fn flags(stage: &Path, asked: &[&str]) -> Vec<String> {
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(asked).arg("ringtap").env("PKG_CONFIG_SYSROOT_DIR", stage);
    let path = stage.join(PREFIX.trim_start_matches('/')).join("lib/pkgconfig");
    output(pkg_config.env("PKG_CONFIG_PATH", path)).split_whitespace().map(str::to_owned).collect()
}

fn compile(source: &Path, program: &Path, flags: &[String]) {
    let mut cc = Command::new("cc");
    output(
        cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"])
            .arg(source)
            .arg("-o")
            .arg(program)
            .args(flags),
    );
}

/// The program of the manual: its one block of C.
fn manuals_program() -> String {
    let page = std::fs::read_to_string(here().join("../../docs/c-api.md")).unwrap();
    let part = page.split_once("## A program\n").unwrap().1.split_once("\n## ").unwrap().0;
    part.lines().filter(|line| line.is_empty() || line.starts_with("    ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn programs_are_built_and_run_with_what_is_installed() {
    let stage = tempfile::tempdir().unwrap();
    make("install-c", stage.path());
    let prefix = stage.path().join(PREFIX.trim_start_matches('/'));
    let expected = [
        "include/ringtap.h",
        "lib/libringtap.a",
        "lib/libringtap.so",
        "lib/libringtap.so.0",
        "lib/pkgconfig/ringtap.pc",
    ];
    assert_eq!(files(&prefix), expected);
    let version = output(Command::new("pkg-config").args(["--modversion"]).arg(prefix.join(expected[4])));
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));

    let work = tempfile::tempdir().unwrap();
    let (source, program) = (here().join("examples/count.c"), work.path().join("count"));
    compile(&source, &program, &flags(stage.path(), &["--cflags", "--libs"]));
    let said = run(Command::new(&program).args(["no0", "1"]).env("LD_LIBRARY_PATH", prefix.join("lib")));
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    // Without the shared one, the linker takes the other.
    std::fs::remove_file(prefix.join("lib/libringtap.so")).unwrap();
    compile(&source, &program, &flags(stage.path(), &["--cflags", "--libs", "--static"]));
    let said = run(Command::new(&program).args(["no0", "1"]));
    assert!(String::from_utf8_lossy(&said.stderr).contains("there is no such interface"), "{said:?}");

    make("uninstall-c", stage.path());
    assert_eq!(files(stage.path()), [""; 0], "nothing is left");
}

#[test]
fn the_manuals_program_is_one() {
    let folder = support::library();
    let source = folder.path().join("manual.c");
    // An interface that no host has: what it would do with the manual's is not for a test.
    let text = manuals_program();
    assert_eq!(text.matches("\"eth1\"").count(), 1, "{text}");
    std::fs::write(&source, text.replace("\"eth1\"", "\"no0\"")).unwrap();
    let program = support::compile(source.to_str().unwrap(), folder.path());
    let said = run(Command::new(program).env("LD_LIBRARY_PATH", folder.path()));
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(1) && text.contains("no0: there is no such interface"), "{text}");
}
