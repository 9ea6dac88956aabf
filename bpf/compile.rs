// Compiles one of the BPF sources beside this file with clang. Included by the build scripts of the crates that embed
// the objects, so that flags, include paths and the advice on errors stand in one place.

use std::path::PathBuf;
use std::process::Command;

/// Compiles `bpf/<name>.bpf.c` to `OUT_DIR/<name>.bpf.o`, or ends the build with the compiler's words and the way out.
fn compile_bpf(name: &str) {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(format!("{name}.bpf.o"));
    let folder = manifest.join("../../bpf").canonicalize().expect("the repository has the folder bpf");
    let source = folder.join(format!("{name}.bpf.c"));
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed={}", folder.join("compile.rs").display());
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command.args(["-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Werror", "-c"]).arg(&source).arg("-o").arg(&out);
    // The same bytes from any folder: the debug information, which the object keeps for the verifier's messages, has paths.
    command.current_dir(&folder).arg(format!("-ffile-prefix-map={}=bpf", folder.display()));
    // linux/types.h needs asm/types.h, which Debian keeps in the multiarch folder that clang does not search for bpf.
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let multiarch = format!("/usr/include/{arch}-linux-gnu");
    if PathBuf::from(&multiarch).is_dir() {
        command.args(["-idirafter", &multiarch]);
    }
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "compile {}: {}\n(the headers come with linux-libc-dev and libbpf-dev: run `make setup`)",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("run {clang}: {error}; install clang (`make setup`) or name it in CLANG"),
    }
}
