//! Compiles bpf/generate.bpf.c for the target `bpf` with clang; the object is embedded by src/generate/program.rs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/generate.bpf.c");
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("generate.bpf.o");
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-env-changed=CLANG");

    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-c"]);
    if let Some(include) = multiarch_include() {
        command.arg("-idirafter").arg(include);
    }
    command.arg(&source).arg("-o").arg(&object);
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => fail(&format!(
            "compile {}: {clang} failed:\n{}\nthe headers come from the Debian packages libbpf-dev and linux-libc-dev",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => fail(&format!(
            "run {clang}: {error}; install it (Debian: apt-get install clang libbpf-dev linux-libc-dev) or name it by CLANG="
        )),
    }
}

/// Debian keeps <asm/types.h> in a directory per architecture, which clang does not search for the target `bpf`.
fn multiarch_include() -> Option<PathBuf> {
    let from_gcc = Command::new("gcc").arg("-print-multiarch").output().ok();
    let name = match from_gcc {
        Some(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => format!("{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH").ok()?),
    };
    let path = Path::new("/usr/include").join(name);
    path.is_dir().then_some(path)
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(1);
}
