//! Connections within TLS.

use std::path::Path;
use std::process::Command;

use rustls::crypto::cipher::{OutboundChunks, OutboundPlainMessage};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, ProtocolVersion, RootCertStore,
    SupportedCipherSuite,
};

use super::*;
use crate::tls;

/// One certificate of "localhost" for all: it signs itself.
struct Pair {
    folder: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = "[req]\ndistinguished_name = name\nx509_extensions = leaf\n[name]\n[leaf]\n\
            basicConstraints = critical, CA:FALSE\nsubjectAltName = DNS:localhost\n";
        std::fs::write(folder.path().join("openssl.cnf"), text).unwrap();
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
            -config openssl.cnf -keyout key -out certificate";
        let made = Command::new("openssl").current_dir(folder.path()).args(words.split_whitespace()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A server; with `asks`, one that asks for this certificate.
    fn server(&self, asks: bool) -> Arc<ServerConfig> {
        let clients = self.path("certificate");
        tls::server(&self.path("certificate"), &self.path("key"), Some(&*clients).filter(|_: &&Path| asks)).unwrap()
    }

    fn client(&self, shows: bool) -> Arc<ClientConfig> {
        let certificate = CertificateDer::from_pem_file(self.path("certificate")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let mut provider = default_provider();
        provider.cipher_suites = vec![TLS13_AES_128_GCM_SHA256];
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let key = || PrivateKeyDer::from_pem_file(self.path("key")).unwrap();
        let mut config = match shows {
            true => builder.with_client_auth_cert(vec![certificate], key()).unwrap(),
            false => builder.with_no_client_auth(),
        };
        config.enable_secret_extraction = true;
        Arc::new(config)
    }
}

/// A peer whose handshake is done.
fn shake_hands(world: &mut World, config: &Arc<ClientConfig>) -> (ClientConnection, TcpStream) {
    let mut stream = world.connect();
    let mut client = ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
    let thread = std::thread::spawn(move || {
        client.complete_io(&mut stream).unwrap();
        (client, stream)
    });
    while !thread.is_finished() || world.server.connections.last().unwrap().is_handshaking() {
        world.pass(Duration::ZERO);
    }
    thread.join().unwrap()
}

fn say(world: &mut World, (client, stream): &mut (ClientConnection, TcpStream), line: &[u8]) {
    client.writer().write_all(line).unwrap();
    while client.wants_write() {
        client.write_tls(stream).unwrap();
    }
    let open = world.server.connections.len();
    while !world.server.wait(world.now)[open - 1] {}
}

/// The peer's next records, with these contents.
fn records(client: ClientConnection, contents: &[&[u8]]) -> Vec<u8> {
    let (next, secrets) = client.dangerous_extract_secrets().unwrap().tx;
    let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else { panic!("another cipher") };
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else { panic!("another version") };
    let mut sealer = suite.aead_alg.encrypter(key, iv);
    let (typ, version) = (ContentType::ApplicationData, ProtocolVersion::TLSv1_2);
    let sealed = contents.iter().zip(next..).map(|(content, number)| {
        let payload = OutboundChunks::Single(content);
        sealer.encrypt(OutboundPlainMessage { typ, version, payload }, number).unwrap().encode()
    });
    sealed.flatten().collect()
}

#[test]
fn records_with_nothing_in_them_hold_nobody_up_and_end_their_connection() {
    let pair = Pair::new();
    let mut world = World::with(Senders::default(), Some(pair.server(false)));
    let (client, mut stream) = shake_hands(&mut world, &pair.client(false));
    let mut other = shake_hands(&mut world, &pair.client(false));
    stream.write_all(&records(client, &[b"".as_slice(); 5000])).unwrap();
    while !world.server.wait(world.now)[0] {}
    say(&mut world, &mut other, b"<27>in time\n");
    world.pass(Duration::ZERO);
    assert_eq!(world.messages(), ["<27>in time"]);
    assert_eq!(world.open(), [other.1.local_addr().unwrap()]);
}

#[test]
fn a_record_that_trickles_ends_its_connection_and_one_in_some_parts_does_not() {
    let pair = Pair::new();
    let mut world = World::with(Senders::default(), Some(pair.server(false)));
    let (client, mut stream) = shake_hands(&mut world, &pair.client(false));
    stream.set_nodelay(true).unwrap();
    let long = [b"<27>".as_slice(), &[b'x'; 16_000], b"\n"].concat();
    let bytes = records(client, &[&long, &long]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    for part in first.chunks(100) {
        stream.write_all(part).unwrap();
        world.hear();
    }
    assert_eq!((world.messages().len(), world.counted().open), (1, 1));
    for (number, byte) in second.chunks(1).enumerate() {
        assert!(number < connection::HOLLOW, "it is still open");
        stream.write_all(byte).unwrap();
        world.hear();
        if world.server.connections.is_empty() {
            assert_eq!(number + 1, connection::HOLLOW);
            return;
        }
    }
}

#[test]
fn who_shows_a_certificate_is_known_and_others_are_not() {
    let pair = Pair::new();
    for (asks, service) in [(true, Service::CertifiedSyslog), (false, Service::Syslog)] {
        let mut world = World::with(Senders::default(), Some(pair.server(asks)));
        let mut peer = shake_hands(&mut world, &pair.client(true));
        say(&mut world, &mut peer, b"<27>hello\n<27>half");
        world.pass(Duration::ZERO);
        assert_eq!(world.server.connections[0].is_known, asks);
        drop(peer);
        while !world.server.connections.is_empty() {
            world.pass(Duration::ZERO);
        }
        let heard = ["<27>hello", "<27>half"].map(|text| (service, text.to_owned()));
        assert_eq!(world.heard(), heard);
    }
}

#[test]
fn handshakes_that_are_not_done_give_their_place() {
    let pair = Pair::new();
    let mut world = World::with(Senders::default(), Some(pair.server(false)));
    world.server.limits = Limits { all: 12, network: 4, address: 3 };
    let mut done = shake_hands(&mut world, &pair.client(false));
    let _hanging: Vec<TcpStream> = (0..6).map(|number| world.connect_from([127, 0, 0, 2 + number])).collect();
    assert_eq!(world.counted(), Counted { open: 4, closed: 3, refused: 0, timed_out: 0 }, "of one network");
    let _elsewhere: Vec<TcpStream> = (0..6).map(|number| world.connect_from([127, 1, number, 1])).collect();
    assert_eq!(world.counted(), Counted { open: 6, closed: 7, refused: 0, timed_out: 0 }, "of all");
    world.pass(Duration::ZERO);
    assert!(world.open().contains(&done.1.local_addr().unwrap()), "one that is done stays");
    done.0.writer().write_all(b"<27>still here\n").unwrap();
    done.0.write_tls(&mut done.1).unwrap();
    world.hear();
    assert_eq!(world.messages(), ["<27>still here"]);
}
