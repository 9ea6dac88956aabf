//! A syslog server as options name one: udp:ADDRESS:PORT or tcp:ADDRESS:PORT.

use std::fmt;
use std::net::SocketAddr;

use crate::{Protocol, SyslogOutput};
use ringtap::{Error, Result};

/// Where to and how.
#[derive(Debug, Clone, Copy)]
pub struct LogServer {
    protocol: Protocol,
    server: SocketAddr,
}

impl fmt::Display for LogServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
        };
        write!(f, "{protocol}:{}", self.server)
    }
}

impl LogServer {
    /// Reads an option.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (protocol, server) = text.split_once(':').ok_or("needs udp:ADDRESS:PORT or tcp:ADDRESS:PORT")?;
        let protocol = match protocol {
            "udp" => Protocol::Udp,
            "tcp" => Protocol::Tcp,
            other => return Err(format!("'{other}' is neither udp nor tcp")),
        };
        let server = server.parse().map_err(|_| format!("'{server}' is no ADDRESS:PORT"))?;
        Ok(Self { protocol, server })
    }

    /// The output, with this host's name.
    ///
    /// # Errors
    /// The host name can't be read, or no socket made.
    pub fn open(self) -> Result<SyslogOutput> {
        const HOSTNAME: &str = "/proc/sys/kernel/hostname";
        let host =
            std::fs::read_to_string(HOSTNAME).map_err(|error| Error::os("read host name from", HOSTNAME, &error))?;
        SyslogOutput::new(self.protocol, self.server, host.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::LogServer;

    #[test]
    fn words() {
        assert!(LogServer::parse("udp:192.0.2.1:514").is_ok() && LogServer::parse("tcp:[2001:db8::1]:514").is_ok());
        assert_eq!(LogServer::parse("udp:192.0.2.1:514").unwrap().to_string(), "udp:192.0.2.1:514");
        for bad in ["http:192.0.2.1:514", "udp:192.0.2.1", "192.0.2.1:514", ""] {
            assert!(LogServer::parse(bad).is_err(), "{bad}");
        }
    }
}
