//! A broker in a folder of its own, ended with the test.
#![allow(dead_code, reason = "each test program uses a part")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// scripts/kafka.
pub fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kafka"))
}

/// Keys and values of a topic, by Kafka's own tool: partition by partition, each in its order.
pub fn records(at: &str, topic: &str) -> Vec<(String, String)> {
    let tool = script()
        .args(["run", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", at, "--topic", topic])
        .args(["--from-beginning", "--timeout-ms", "5000", "--formatter-property", "print.key=true"])
        .output()
        .unwrap();
    let text = String::from_utf8(tool.stdout).unwrap();
    let said = || String::from_utf8_lossy(&tool.stderr).into_owned();
    let record = |line: &str| {
        let (key, value) = line.split_once('\t').unwrap_or_else(|| panic!("{line}: {}", said()));
        (key.to_owned(), value.to_owned())
    };
    text.lines().map(record).collect()
}

/// A running broker.
pub struct Broker {
    folder: tempfile::TempDir,
    port: u16,
    properties: Vec<String>,
}

impl Broker {
    pub fn start(properties: &[&str]) -> Self {
        Self::start_formatted("", properties)
    }

    /// `format`: arguments of Kafka's storage tool. PORT, PORT1 and PORT2 in properties are three ports that are free.
    pub fn start_formatted(format: &str, properties: &[&str]) -> Self {
        let port = free_ports();
        let numbered = |property: &&str| {
            let with = |text: String, name: &str, number: u16| text.replace(name, &number.to_string());
            let text = with(with((*property).to_owned(), "PORT1", port + 1), "PORT2", port + 2);
            with(text, "PORT", port)
        };
        let properties = properties.iter().map(numbered).collect();
        let this = Self { folder: tempfile::tempdir().unwrap(), port, properties };
        this.run(format);
        this
    }

    fn run(&self, format: &str) {
        let mut command = script();
        command.arg("start").arg(self.folder()).arg(self.port.to_string()).args(&self.properties);
        let done = command.env("KAFKA_FORMAT", format).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.code() == Some(3) {
            let why = said.lines().last().unwrap_or_default().to_owned();
            panic!("did not run: scripts/kafka: {why}");
        }
        assert!(done.status.success(), "{said}");
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub fn address(&self) -> String {
        self.address_of(0)
    }

    /// Of the listener `beside` ports on.
    pub fn address_of(&self, beside: u16) -> String {
        format!("127.0.0.1:{}", self.port + beside)
    }

    pub fn topic(&self, name: &str, partitions: u32) {
        self.topic_at(0, name, partitions);
    }

    /// The same, asked for at the listener `beside` ports on.
    pub fn topic_at(&self, beside: u16, name: &str, partitions: u32) {
        let done = script().args(["topic", &self.address_of(beside), name, &partitions.to_string()]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    pub fn kill(&mut self) {
        assert!(script().arg("kill").arg(self.folder()).status().unwrap().success());
    }

    pub fn start_again(&mut self) {
        self.run("");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = script().arg("kill").arg(self.folder()).status();
    }
}

/// The first of three that are free and follow each other.
fn free_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let others: Vec<_> =
            (1..3).filter_map(|more| TcpListener::bind(("127.0.0.1", port.checked_add(more)?)).ok()).collect();
        if others.len() == 2 {
            return port;
        }
    }
}
