//! Compiles bpf/generate.bpf.c and bpf/redirect.bpf.c; generate/program.rs and redirect.rs embed the objects.

include!("../../bpf/compile.rs");

fn main() {
    compile_bpf("generate");
    compile_bpf("redirect");
}
