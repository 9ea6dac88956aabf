//! Owns: lines as syslog messages (RFC 5424), over UDP (RFC 5426) or TCP with octet counting (RFC 6587 §3.4.1).
//! Does not: decide severities.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use ringtap::{Error, Result};

use crate::reconnecting::Reconnecting;
use crate::severity::{Severity, syslog};

/// Facility "local use 4" (RFC 5424 §6.2.1), where intrusion sensors usually are.
const FACILITY: u8 = 20;
const RETRY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest datagram.
const MAX_DATAGRAM: usize = 65507;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One datagram each.
    Udp,
    /// A stream.
    Tcp,
}

#[derive(Debug)]
enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Connection {
    fn make(protocol: Protocol, server: SocketAddr) -> Option<Self> {
        match protocol {
            Protocol::Udp => {
                let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
                let socket = UdpSocket::bind(any).ok()?;
                socket.connect(server).ok()?;
                Some(Self::Udp(socket))
            }
            Protocol::Tcp => {
                let stream = TcpStream::connect_timeout(&server, PATIENCE).ok()?;
                stream.set_write_timeout(Some(PATIENCE)).ok()?;
                Some(Self::Tcp(stream))
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> bool {
        match self {
            Self::Udp(socket) => {
                message.len() <= MAX_DATAGRAM && socket.send(message).is_ok_and(|sent| sent == message.len())
            }
            Self::Tcp(stream) => stream.write_all(message).is_ok(),
        }
    }
}

/// A syslog server.
#[derive(Debug)]
pub struct SyslogOutput {
    protocol: Protocol,
    server: SocketAddr,
    host: String,
    connection: Reconnecting<Connection>,
    message: Vec<u8>,
}

impl SyslogOutput {
    /// For `server`; `host` is this host's name. A TCP server need not listen yet.
    ///
    /// # Errors
    /// `host` is not what RFC 5424 allows: 1 to 255 printable letters.
    pub fn new(protocol: Protocol, server: SocketAddr, host: &str) -> Result<Self> {
        if host.is_empty() || host.len() > 255 || !host.bytes().all(|byte| (33..=126).contains(&byte)) {
            return Err(Error::usage("send syslog as host", host, "the name has letters that syslog does not allow"));
        }
        Ok(Self { protocol, server, host: host.to_owned(), connection: Reconnecting::new(RETRY), message: Vec::new() })
    }

    pub(super) fn line(&mut self, line: &[u8], severity: Option<Severity>) -> bool {
        let Self { protocol, server, host, connection, message } = self;
        let (protocol, server) = (*protocol, *server);
        connection.send(
            || Connection::make(protocol, server),
            |connection| {
                write_message(message, protocol, host, line, severity);
                connection.send(message)
            },
        )
    }
}

/// A line as a message, with the length in front where messages share a stream.
fn write_message(message: &mut Vec<u8>, protocol: Protocol, host: &str, line: &[u8], severity: Option<Severity>) {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let time = crate::time::utc_micros(now.as_nanos() as u64);
    let priority = FACILITY * 8 + syslog(severity);
    let head = format!("<{priority}>1 {time}Z {host} ringtap {} eve - ", std::process::id());
    message.clear();
    if protocol == Protocol::Tcp {
        message.extend_from_slice(format!("{} ", head.len() + text.len()).as_bytes());
    }
    message.extend_from_slice(head.as_bytes());
    message.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn messages() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut output = SyslogOutput::new(Protocol::Udp, server.local_addr().unwrap(), "sensor").unwrap();
        assert!(output.line(b"{}\n", Some(Severity::Critical)));
        let mut bytes = [0; 512];
        let len = server.recv(&mut bytes).unwrap();
        let text = std::str::from_utf8(&bytes[..len]).unwrap();
        assert!(text.starts_with("<161>1 20") && text.ends_with(" eve - {}"), "{text}");
        assert!(text.contains(" sensor ringtap "));

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut output = SyslogOutput::new(Protocol::Tcp, listener.local_addr().unwrap(), "sensor").unwrap();
        assert!(output.line(b"{}\n", None));
        drop(output);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        let (count, message) = text.split_once(' ').unwrap();
        assert_eq!(count.parse(), Ok(message.len()));
        assert!(SyslogOutput::new(Protocol::Udp, server.local_addr().unwrap(), "two words").is_err());
    }
}
