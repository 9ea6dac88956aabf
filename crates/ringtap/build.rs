//! Compiles bpf/steer.bpf.c and bpf/core_use.bpf.c; steer.rs and core_use/others.rs embed the objects.

include!("../../bpf/compile.rs");

fn main() {
    compile_bpf("steer");
    compile_bpf("core_use");
}
