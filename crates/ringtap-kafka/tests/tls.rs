//! TLS and SASL/PLAIN against a real broker: whose certificate is believed, for which name, and what is said where it is not.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringtap_kafka::{Brokers, Consumer, Fetched, Mechanism, Output, Sasl, Security, Target};
use support::Broker;

const TEST: &str = "kafka_within_tls";
const PASSWORD: &str = "p3ncil";

/// Two authorities; a certificate of the first for `localhost` alone, with its key and as the broker wants it (PEM, PKCS 8); one for us.
fn certificates(folder: &Path) {
    let openssl = |arguments: &str| {
        let arguments = arguments.split(' ').map(|word| word.replace('@', &format!("{}/", folder.display())));
        let output = Command::new("openssl").args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("did not run: {TEST}: openssl: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    for name in ["ca", "other"] {
        openssl(&format!("{new} -subj /CN={name} -keyout @{name}.key -out @{name}.pem"));
    }
    let signed = format!("{new} -CA @ca.pem -CAkey @ca.key -addext basicConstraints=CA:FALSE");
    openssl(&format!(
        "{signed} -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout @broker.key -out @broker.crt"
    ));
    openssl(&format!("{signed} -subj /CN=ringtap -keyout @ringtap.key -out @ringtap.pem"));
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    std::fs::write(folder.join("broker.pem"), text("broker.key") + &text("broker.crt")).unwrap();
}

/// A broker with a listener within TLS that asks for a certificate as `client_auth` says, and a password.
fn start(folder: &Path, client_auth: &str) -> Broker {
    let at = |name: &str| folder.join(name).display().to_string();
    let of = |key: &str, value: &str| format!("listener.name.sasl_ssl.{key}={value}");
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    let properties = [
        "listeners=PLAINTEXT://127.0.0.1:PORT2,SASL_SSL://127.0.0.1:PORT,CONTROLLER://127.0.0.1:PORT1".to_owned(),
        "advertised.listeners=PLAINTEXT://127.0.0.1:PORT2,SASL_SSL://localhost:PORT".to_owned(),
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT".to_owned(),
        "sasl.enabled.mechanisms=PLAIN".to_owned(),
        of("plain.sasl.jaas.config", &format!("{plain} user_ringtap=\"{PASSWORD}\";")),
        of("ssl.keystore.type", "PEM"),
        of("ssl.keystore.location", &at("broker.pem")),
        of("ssl.truststore.type", "PEM"),
        of("ssl.truststore.location", &at("ca.pem")),
        of("ssl.client.auth", client_auth),
    ];
    Broker::start(&properties.iter().map(String::as_str).collect::<Vec<_>>())
}

fn security(folder: &Path, authority: Option<&str>, own: bool, password: &str) -> Security {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let own = own.then(|| (read("ringtap.pem"), read("ringtap.key")));
    let own = own.as_ref().map(|(chain, key)| (chain.as_slice(), key.as_slice()));
    let sasl = Sasl { mechanism: Mechanism::Plain, user: "ringtap".into(), password: password.into() };
    Security::new(authority.map(read).as_deref(), own, Some(sasl)).unwrap()
}

fn open(folder: &Path, at: &str, security: Security) -> ringtap::Result<Output> {
    let (brokers, topic, key) = (at.parse().unwrap(), "alarms".to_owned(), "north".to_owned());
    Output::open(Target { brokers, topic, key, spool: folder.join("spool"), spool_bytes: 1 << 20, security })
}

#[test]
fn kafka_within_tls_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    certificates(folder);
    let broker = start(folder, "none");
    broker.topic_at(2, "alarms", 1);
    let at = broker.address().replace("127.0.0.1", "localhost");
    let refused = |at: &str, security: Security| open(folder, at, security).unwrap_err().to_string();
    let good = || security(folder, Some("ca.pem"), false, PASSWORD);

    let error = refused(&at, security(folder, Some("other.pem"), false, PASSWORD));
    assert!(error.contains("nobody in tls-ca has signed its certificate") && error.contains(&at), "{error}");
    // By an address that its certificate does not name.
    let error = refused(&broker.address(), good());
    assert!(error.contains("its certificate is refused") && error.contains("127.0.0.1"), "{error}");
    let error = refused(&at, security(folder, Some("ca.pem"), false, "wrong"));
    assert!(error.contains("user or password is wrong") && !error.contains(PASSWORD), "{error}");
    let brokers: Brokers = at.parse().unwrap();
    let read = |security| Consumer::open(&brokers, security, vec!["alarms".into()], |_| None);
    let error = read(security(folder, Some("other.pem"), false, PASSWORD)).err().unwrap().to_string();
    assert!(error.contains("nobody in tls-ca"), "{error}");
    // The other listener has no TLS. An output waits there, as for one that is away.
    let plain: Brokers = broker.address_of(2).parse().unwrap();
    let error = Consumer::open(&plain, good(), vec!["alarms".into()], |_| None).err().unwrap().to_string();
    assert!(error.contains("does not speak TLS") || error.contains("ended the connection"), "{error}");

    let mut output = open(folder, &at, good()).unwrap();
    for number in 0..1000 {
        assert!(output.line(format!("{number}").as_bytes()));
    }
    assert_eq!(output.flush(), (1000, 0));
    drop(output);
    let mut consumer = read(good()).unwrap();
    assert_eq!(consumer.fetch(Duration::from_millis(100)), Fetched::Records { is_all: true });
    let values = std::iter::from_fn(|| consumer.next_record()).map(|it| String::from_utf8(it.value).unwrap());
    assert!(values.eq((0..1000).map(|number| number.to_string())));
}

#[test]
fn kafka_within_tls_with_a_certificate_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    certificates(folder);
    let broker = start(folder, "required");
    broker.topic_at(2, "alarms", 1);
    let at = broker.address().replace("127.0.0.1", "localhost");
    let error = open(folder, &at, security(folder, Some("ca.pem"), false, PASSWORD)).unwrap_err().to_string();
    assert!(error.contains("it wants a certificate of ours"), "{error}");
    let mut output = open(folder, &at, security(folder, Some("ca.pem"), true, PASSWORD)).unwrap();
    assert!(output.line(b"one"));
    assert_eq!(output.flush(), (1, 0));
    drop(output);
    let brokers: Brokers = at.parse().unwrap();
    let security = security(folder, Some("ca.pem"), true, PASSWORD);
    let mut consumer = Consumer::open(&brokers, security, vec!["alarms".into()], |_| None).unwrap();
    assert_eq!(consumer.fetch(Duration::from_millis(100)), Fetched::Records { is_all: true });
    assert_eq!(consumer.next_record().unwrap().value, b"one");
}
