//! Takes the system's static libpcap in under other names, so that our exported functions can call the real ones: with the
//! same names on both sides, such a call would come back to ourselves through the PLT.
//!
//! Needs cc, nm and objcopy (binutils) and libpcap's development package with libpcap.a.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In front of every name that libpcap.a defines.
const PREFIX: &str = "ringtap_real_";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let archive = libpcap_a(&compiler);
    println!("cargo:rerun-if-changed={}", archive.display());
    let renamed = rename(&archive, &out);
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static:-bundle=ringtap_real_pcap");
    let libraries = further_libraries();
    for library in &libraries {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    // Programs record the name under which they found their library; Debian's libpcap keeps an old one.
    let debian = archive.with_file_name("libpcap.so.0.8").exists();
    let soname = if debian { "libpcap.so.0.8" } else { "libpcap.so.1" };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--as-needed");
    fs::write(out.join("data.rs"), data(&compiler, &renamed, &libraries, &out)).expect("OUT_DIR is writable");
}

/// The compiler knows where its libraries are; a name it does not find comes back as it was.
fn libpcap_a(compiler: &str) -> PathBuf {
    let found = output(Command::new(compiler).arg("-print-file-name=libpcap.a"));
    let path = PathBuf::from(found.trim());
    assert!(
        path.is_absolute(),
        "libpcap.a is not there: install libpcap's development package (libpcap-dev) and run scripts/setup build"
    );
    path
}

/// A copy of the archive with [`PREFIX`] before each name it defines.
fn rename(archive: &Path, out: &Path) -> PathBuf {
    let names = output(Command::new("nm").args(["-g", "--defined-only"]).arg(archive));
    let mut names: Vec<&str> = names.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    names.sort_unstable();
    names.dedup();
    // Built for programs, not for shared libraries, the archive reaches the C library's streams directly, which only a
    // program's copy of them allows: it gets variables of our own instead (src/streams.rs).
    names.extend(["stdin", "stdout", "stderr"]);
    // What it makes by this call it forgets when a handle is closed that was never activated (src/eventfd.rs).
    names.push("eventfd");
    let map: String = names.iter().map(|name| format!("{name} {PREFIX}{name}\n")).collect();
    let map_path = out.join("names");
    fs::write(&map_path, map).expect("OUT_DIR is writable");
    let renamed = out.join("libringtap_real_pcap.a");
    output(Command::new("objcopy").arg(format!("--redefine-syms={}", map_path.display())).arg(archive).arg(&renamed));
    renamed
}

/// What libpcap.a needs beside the C library: on Debian D-Bus, for capturing on it.
fn further_libraries() -> Vec<String> {
    let flags = output(Command::new("pkg-config").args(["--static", "--libs-only-l", "libpcap"]));
    let names = flags.split_whitespace().filter_map(|flag| flag.strip_prefix("-l"));
    // libsystemd is what the static D-Bus library would need; the shared one brings its own.
    names.filter(|name| !matches!(*name, "pcap" | "systemd")).map(str::to_owned).collect()
}

/// The two variables libpcap exports, with the values of the archive at hand: only a program linked with it can say them.
fn data(compiler: &str, archive: &Path, libraries: &[String], out: &Path) -> String {
    const PROGRAM: &str = "#include <stdio.h>
extern char ringtap_real_pcap_version[];
extern struct { const char *name; unsigned short type; } ringtap_real_eproto_db[];
FILE *ringtap_real_stdin, *ringtap_real_stdout, *ringtap_real_stderr;
int ringtap_real_eventfd(unsigned start, int flags) { return -1; }
int main(void) {
    puts(ringtap_real_pcap_version);
    for (int i = 0; ringtap_real_eproto_db[i].name; i++)
        printf(\"%s %u\\n\", ringtap_real_eproto_db[i].name, ringtap_real_eproto_db[i].type);
    return 0;
}
";
    let (source, program) = (out.join("data.c"), out.join("data"));
    fs::write(&source, PROGRAM).expect("OUT_DIR is writable");
    let mut command = Command::new(compiler);
    command.arg(&source).arg(archive).args(libraries.iter().map(|name| format!("-l{name}"))).arg("-o").arg(&program);
    output(&mut command);
    let said = output(&mut Command::new(&program));
    let mut lines = said.lines();
    let version = lines.next().expect("the program prints the version first");
    let protocols: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(' ')).collect();
    let entries: String =
        protocols.iter().map(|(name, number)| format!("    Protocol::new(c\"{name}\", {number}),\n")).collect();
    format!(
        "/// The version of the libpcap inside.\n#[unsafe(no_mangle)]\npub static mut pcap_version: [u8; {}] = *b\"{version}\\0\";\n\
         /// Names of Ethernet types.\n#[unsafe(no_mangle)]\npub static mut eproto_db: [Protocol; {}] = [\n{entries}    Protocol::END,\n];\n",
        version.len() + 1,
        protocols.len() + 1
    )
}

fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/setup build"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}
