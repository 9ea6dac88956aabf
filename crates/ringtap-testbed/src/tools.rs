//! Runs the set-up binaries ip(8), ethtool(8) and sysctl writes, and turns their failures into errors that say what to do.
//!
//! Owns the words of those errors. Does not own what is set up.

use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use ringtap::{Error, Result};

/// Runs `program` with `arguments` (split at white space) in the calling thread's namespace; gives its standard output.
pub(crate) fn run(program: &str, arguments: &str) -> Result<String> {
    let child = start(program, arguments, Stdio::null())?;
    finish(child, format!("{program} {arguments}"))
}

/// Runs ip(8) over several command lines at once; the first that fails ends it and is named.
pub(crate) fn ip_batch(lines: &[String]) -> Result<()> {
    let mut child = start("ip", "-batch -", Stdio::piped())?;
    let text = lines.join("\n") + "\n";
    // The pipe is closed at the end of this statement. When ip is gone already, its own message says more than EPIPE.
    let _ = child.stdin.take().map(|mut pipe| pipe.write_all(text.as_bytes()));
    finish(child, format!("ip -batch with \"{}\"", lines.join("; "))).map(|_| ())
}

fn start(program: &str, arguments: &str, input: Stdio) -> Result<Child> {
    Command::new(program)
        .args(arguments.split_whitespace())
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .spawn()
        .map_err(|error| {
            let way_out = match (error.kind(), package_of(program)) {
                (io::ErrorKind::NotFound, Some(package)) => format!("install it: apt-get install {package}"),
                _ => "check that it may be executed".to_owned(),
            };
            Error::os("run", program, &error).way_out(way_out)
        })
}

fn finish(child: Child, line: String) -> Result<String> {
    let output = child.wait_with_output().map_err(|error| Error::os("run", line.clone(), &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed("run", line, format!("{}: {}", output.status, said.trim().replace('\n', "; "))))
}

fn package_of(program: &str) -> Option<&'static str> {
    match program {
        "ip" | "tc" => Some("iproute2"),
        "ethtool" => Some("ethtool"),
        "setpriv" => Some("util-linux"),
        _ => None,
    }
}

/// Writes a file of /proc/sys or /sys.
pub(crate) fn write(path: &str, value: &str) -> Result<()> {
    fs::write(path, value).map_err(|error| Error::os(format!("write {value} to"), path, &error))
}

/// As [`write`], for settings that a kernel may lack.
pub(crate) fn write_if_present(path: &str, value: &str) -> Result<()> {
    match fs::write(path, value) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::os(format!("write {value} to"), path, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named() {
        let error = run("no-such-program-of-ringtap", "x").unwrap_err().to_string();
        assert!(error.contains("no-such-program-of-ringtap") && error.contains("ENOENT"), "{error}");
    }

    #[test]
    fn failing_program_is_quoted() {
        let error = run("ls", "/no/such/directory").unwrap_err().to_string();
        assert!(error.contains("ls /no/such/directory") && error.contains("No such file"), "{error}");
    }
}
