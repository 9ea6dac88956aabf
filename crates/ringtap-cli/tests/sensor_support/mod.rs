//! What tests of `ringtap sensor` share: runs over files, events, and the same by Suricata.
#![allow(dead_code)]

pub mod suricata;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");

/// Events of a run over files.
pub fn replay(captures: &[&Path], rules: &Path, extra: &[&str]) -> Vec<Value> {
    let mut command = Command::new(RINGTAP);
    command.arg("sensor").arg("--replay").args(captures).arg("-S").arg(rules).args(["--eve", "-"]).args(extra);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", captures[0].display());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The value at a path such as `alert.signature_id` or `vlan[0]`.
pub fn field<'v>(event: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(event, |value, part| match part.split_once('[') {
        Some((name, index)) => value.get(name)?.get(index.trim_end_matches(']').parse::<usize>().ok()?),
        None => value.get(part),
    })
}

/// A pcap file of Ethernet frames, a millisecond apart.
pub fn pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (index, frame) in frames.iter().enumerate() {
        let (seconds, micros) = (1_700_000_000 + index as u32 / 1000, index as u32 % 1000 * 1000);
        for word in [seconds, micros, frame.len() as u32, frame.len() as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(frame);
    }
    std::fs::write(path, file).unwrap();
}
