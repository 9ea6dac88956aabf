//! Packets as another XDP program redirects them: with metadata in front (BPF_PROG_RUN with live frames,
//! Documentation/bpf/bpf_prog_run.rst).

#![allow(unsafe_code)] // A system call of its own: no library hands metadata over.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ringtap_testbed::Host;

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_FUNC_REDIRECT: u64 = 23;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// union bpf_attr as far as it is used, zeroed behind.
type Attributes = [u64; 16];

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn bpf(command: libc::c_long, attributes: &Attributes) -> i32 {
    // SAFETY: what the attributes point to lives as long as the call; the result is checked.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of::<Attributes>()) };
    assert!(result >= 0, "bpf(2), command {command}: {}", io::Error::last_os_error());
    result as i32
}

/// Redirects `count` packets to the host's own device, each with `metadata` directly in front.
pub fn with_metadata(host: &Host, metadata: &[u8], packet: &[u8], count: u32) {
    let device = host.link().index;
    let data = [metadata, packet].concat();
    let work = move || {
        // r1 = the device; r2 = 0; r0 = redirect(r1, r2); return r0. An instruction is opcode, registers, offset and immediate.
        let program = [0x01b7 | u64::from(device) << 32, 0x02b7, 0x0085 | BPF_FUNC_REDIRECT << 32, 0x0095];
        let mut load = Attributes::default();
        load[0] = pair(BPF_PROG_TYPE_XDP, program.len() as u32);
        (load[1], load[2]) = (program.as_ptr() as u64, c"GPL".as_ptr() as u64);
        // SAFETY: a fresh descriptor that nobody else owns.
        let program = unsafe { OwnedFd::from_raw_fd(bpf(BPF_PROG_LOAD, &load)) };
        // struct xdp_md: where the packet begins and ends in the data, behind its metadata.
        let context: [u32; 6] = [metadata.len() as u32, data.len() as u32, 0, 0, 0, 0];
        let mut run = Attributes::default();
        run[0] = pair(program.as_raw_fd() as u32, 0);
        (run[1], run[2]) = (pair(data.len() as u32, 0), data.as_ptr() as u64);
        run[4] = pair(count, 0);
        (run[5], run[6]) = (pair(size_of_val(&context) as u32, 0), context.as_ptr() as u64);
        run[8] = pair(BPF_F_TEST_XDP_LIVE_FRAMES, 0);
        bpf(BPF_PROG_TEST_RUN, &run);
    };
    host.run(work).expect("the sender's namespace");
}
