//! Compiles bpf/steer.bpf.c; steer.rs embeds the object.

include!("../../bpf/compile.rs");

fn main() {
    compile_bpf("steer");
}
