//! Compiles bpf/generate.bpf.c; generate/program.rs embeds the object.

include!("../../bpf/compile.rs");

fn main() {
    compile_bpf("generate");
}
