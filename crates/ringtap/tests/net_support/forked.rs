//! Children between fork(2) and execve(2): they hold every descriptor of their parent.

#![allow(unsafe_code)] // A hook of std's that runs between the two.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A child that stays so for `time`; returns once it is there.
pub fn child_for(time: Duration) -> JoinHandle<()> {
    let (mut there, child_side) = std::io::pipe().expect("a pipe");
    let child = thread::spawn(move || {
        let mut command = Command::new("true");
        let stay = move || {
            std::io::Write::write_all(&mut &child_side, b".")?;
            thread::sleep(time);
            Ok(())
        };
        // SAFETY: write(2) and clock_nanosleep(2) may be called between fork and exec; nothing is allocated.
        unsafe { command.pre_exec(stay) };
        assert!(command.status().expect("true(1)").success());
    });
    std::io::Read::read_exact(&mut there, &mut [0]).expect("the child says that it is there");
    child
}
