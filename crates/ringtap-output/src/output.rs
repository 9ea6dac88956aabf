//! Owns: an output of lines by its name: what became of them, and what is said when it begins to lose lines and when it takes them
//! again.
//! Does not: know what lines say.

use std::net::SocketAddr;
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_kafka::{Output as KafkaOutput, Target};

use crate::file::FileOutput;
use crate::socket::UnixOutput;
use crate::syslog::SyslogOutput;
use crate::tcp::TcpOutput;
use crate::{LogServer, Severity, printable};

/// What is told by lines, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Announced {
    /// Their plural: `alarms`.
    pub what: &'static str,
    /// The command that has them all the same.
    pub kept_by: Option<&'static str>,
}

/// What became of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Lines that an output took.
    pub written: u64,
    /// Lines that could not be written: full disk, dead socket.
    pub failed: u64,
}

impl Taken {
    /// One line.
    pub(crate) fn count(&mut self, is_done: bool) {
        *if is_done { &mut self.written } else { &mut self.failed } += 1;
    }

    /// So many that were taken, and so many that were not.
    fn add(&mut self, (written, failed): (u64, u64)) {
        self.written += written;
        self.failed += failed;
    }
}

/// One output.
#[derive(Debug)]
pub struct Output {
    name: String,
    way: Way,
    announced: Announced,
    /// Since the last flush.
    taken: Taken,
    /// Lines lost since it began to lose them.
    lost: u64,
    /// Lines lost in all.
    lost_in_all: u64,
}

#[derive(Debug)]
enum Way {
    File(FileOutput),
    Unix(UnixOutput),
    Tcp(TcpOutput),
    Syslog(SyslogOutput),
    Kafka(KafkaOutput),
}

impl Output {
    fn new(name: String, way: Way, announced: Announced) -> Self {
        Self { name, way, announced, taken: Taken::default(), lost: 0, lost_in_all: 0 }
    }

    /// A file, appended to; `-` is standard output. With `rotate` (bytes, number) `PATH.1` is the newest old file.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn file(path: &Path, rotate: Option<(u64, u32)>, announced: Announced) -> Result<Self> {
        Ok(Self::new(path.display().to_string(), Way::File(FileOutput::open(path, rotate)?), announced))
    }

    /// A Unix socket, where nobody needs to listen yet.
    #[must_use]
    pub fn unix(path: &Path, announced: Announced) -> Self {
        Self::new(path.display().to_string(), Way::Unix(UnixOutput::new(path)), announced)
    }

    /// A TCP connection, made when there is a line.
    #[must_use]
    pub fn tcp(address: SocketAddr, announced: Announced) -> Self {
        Self::new(address.to_string(), Way::Tcp(TcpOutput::new(address)), announced)
    }

    /// A syslog server.
    ///
    /// # Errors
    /// As of [`LogServer`]: no name of this host, or no socket.
    pub fn syslog(server: LogServer, announced: Announced) -> Result<Self> {
        Ok(Self::new(server.to_string(), Way::Syslog(server.open()?), announced))
    }

    /// A topic of Kafka, through a spool on disk: brokers need not be there yet.
    ///
    /// # Errors
    /// The spool can't be used, or a broker answers and has no such topic, or refuses us.
    pub fn kafka(target: Target, announced: Announced) -> Result<Self> {
        let name = format!("Kafka's topic {}", target.topic);
        Ok(Self::new(name, Way::Kafka(KafkaOutput::open(target)?), announced))
    }

    /// Writes one line, which ends with its line feed. `None`: it tells of nothing wrong, or of a condition that is gone.
    pub fn line(&mut self, line: &[u8], severity: Option<Severity>) {
        let is_done = match &mut self.way {
            // It knows only when it hands lines on.
            Way::File(file) => return file.line(line, &mut self.taken),
            Way::Unix(socket) => socket.line(line),
            Way::Tcp(connection) => connection.line(line),
            Way::Syslog(syslog) => syslog.line(line, severity),
            Way::Kafka(kafka) => {
                if !kafka.line(line) {
                    self.taken.failed += 1;
                }
                if kafka.is_full() {
                    self.taken.add(kafka.flush());
                }
                return;
            }
        };
        self.taken.count(is_done);
    }

    /// Hands on what is buffered; called when there is nothing else to do, and at the end. What became of lines since the last
    /// time; that it begins to lose them, or takes them again, is said on standard error.
    #[must_use]
    pub fn flush(&mut self) -> Taken {
        if let Way::File(file) = &mut self.way {
            file.flush(&mut self.taken);
        }
        if let Way::Kafka(kafka) = &mut self.way {
            self.taken.add(kafka.flush());
        }
        let taken = std::mem::take(&mut self.taken);
        self.lost_in_all += taken.failed;
        if taken.failed > 0 {
            if self.lost == 0 {
                say(&self.begun().to_string());
            }
            self.lost += taken.failed;
        } else if taken.written > 0 && self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            say(&format!("{} takes {} again; {lost} lines were lost", self.name, self.announced.what));
        }
        taken
    }

    /// Opens files again: they were moved away.
    pub fn reopen(&mut self) {
        if let Way::File(file) = &mut self.way {
            file.reopen(&mut self.taken);
        }
    }

    /// Of a file, why not all lines are in it. Whoever listens at a socket comes and goes, a file is there or its disk has failed.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        (self.lost_in_all > 0 && matches!(self.way, Way::File(_))).then(|| {
            let has = match self.announced.kept_by {
                Some(command) => format!("`{command}` has them"),
                None => "they are in no other place".to_owned(),
            };
            self.failure().way_out(format!("{} lines were lost: free some space there; {has}", self.lost_in_all))
        })
    }

    /// What is said when it begins.
    fn begun(&self) -> Error {
        let (room, each) = match &self.way {
            Way::File(_) => ("free some space there: ", "each second"),
            Way::Syslog(_) => ("", "each second"),
            Way::Kafka(_) => ("free some space there, or allow it more: ", "with each line"),
            Way::Unix(_) | Way::Tcp(_) => ("", "twice a second"),
        };
        let has = self.announced.kept_by.map_or_else(String::new, |command| format!(", and `{command}` has them"));
        self.failure()
            .way_out(format!("{room}it is tried again {each}; lines that are lost until then are counted{has}"))
    }

    fn failure(&self) -> Error {
        let operation = format!("tell {} to", self.announced.what);
        match &self.way {
            Way::File(file) if let Some(cause) = file.cause() => Error::os(operation, &self.name, cause),
            Way::Kafka(kafka) => match kafka.failure() {
                Some(cause) => Error::os(operation, &self.name, cause),
                None => Error::failed(operation, &self.name, "the spool is full"),
            },
            _ => Error::failed(operation, &self.name, "it takes no lines"),
        }
    }
}

fn say(line: &str) {
    eprintln!("ringtap: {}", printable(line));
}
