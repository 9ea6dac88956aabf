//! Owns: lines into a Unix socket, datagram or stream, as whoever listens has it; connected again when it is lost.
//! Does not: listen.

use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::reconnecting::Reconnecting;

/// A lost connection is tried again after this.
const RETRY: Duration = Duration::from_millis(500);
/// A listener that takes nothing for this long is lost.
const PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug)]
enum Connection {
    Datagram(UnixDatagram),
    Stream(UnixStream),
}

impl Connection {
    fn datagram(path: &Path) -> Option<Self> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect(path).ok()?;
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Self::Datagram(socket))
    }

    fn stream(path: &Path) -> Option<Self> {
        let socket = UnixStream::connect(path).ok()?;
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Self::Stream(socket))
    }

    fn send(&mut self, line: &[u8]) -> bool {
        match self {
            Self::Datagram(socket) => socket.send(line).is_ok_and(|sent| sent == line.len()),
            Self::Stream(socket) => socket.write_all(line).is_ok(),
        }
    }
}

/// A Unix socket.
#[derive(Debug)]
pub struct UnixOutput {
    path: PathBuf,
    connection: Reconnecting<Connection>,
}

impl UnixOutput {
    /// For the socket at `path`; nobody needs to listen yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), connection: Reconnecting::new(RETRY) }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        let path = &self.path;
        let connect = || Connection::datagram(path).or_else(|| Connection::stream(path));
        self.connection.send(connect, |connection| connection.send(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    #[test]
    fn both_kinds_of_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(!UnixOutput::new(&path).line(b"x\n"), "nobody listens");
        let listener = UnixDatagram::bind(&path).unwrap();
        assert!(UnixOutput::new(&path).line(b"one\n"));
        let mut bytes = [0; 16];
        assert_eq!(listener.recv(&mut bytes).unwrap(), 4);
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let mut output = UnixOutput::new(&path);
        assert!(output.line(b"two\n"));
        drop(output);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "two\n");
    }
}
