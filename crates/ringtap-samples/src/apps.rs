//! Owns: what applications say: DNS, TLS, SSH, FTP, HTTP, RADIUS, syslog and others.
//! Does not: put it into packets ([`crate::frames`]).

use crate::frames::join;

fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').filter(|label| !label.is_empty());
    let mut name: Vec<u8> = labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    name.push(0);
    name
}

/// A DNS question.
#[must_use]
pub fn dns_query(id: u16, text: &str, kind: u16) -> Vec<u8> {
    let head = [id, 0x0100, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
    join(&[&head, &name(text), &kind.to_be_bytes(), &[0, 1]])
}

/// The answer to it: a CNAME, and an address whose name points back into the message.
#[must_use]
pub fn dns_answer(id: u16, text: &str, address: [u8; 4]) -> Vec<u8> {
    let head = [id, 0x8180, 1, 2, 0, 0].map(u16::to_be_bytes).concat();
    let question = join(&[&name(text), &[0, 1, 0, 1]]);
    let other = name("host.example.net");
    let at = 12 + question.len() + 12;
    let alias = join(&[&[0xc0, 12, 0, 5, 0, 1, 0, 0, 1, 0, 0, other.len() as u8], &other]);
    let pointer = (0xc000 | at as u16).to_be_bytes();
    let record = join(&[&pointer, &[0, 1, 0, 1, 0, 0, 1, 0, 0, 4], &address]);
    join(&[&head, &question, &alias, &record])
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    join(&[&kind.to_be_bytes(), &(content.len() as u16).to_be_bytes(), content])
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    join(&[&[kind, 3, 1], &(content.len() as u16).to_be_bytes(), content])
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    join(&[&[kind], &(body.len() as u32).to_be_bytes()[1..], body])
}

/// A TLS ClientHello that asks for `server`.
#[must_use]
pub fn client_hello(server: &str) -> Vec<u8> {
    let host = join(&[&[0], &(server.len() as u16).to_be_bytes(), server.as_bytes()]);
    let names = join(&[&(host.len() as u16).to_be_bytes(), &host]);
    let extensions = [
        extension(0, &names),
        extension(10, &[0, 4, 0, 29, 0, 23]),
        extension(13, &[0, 4, 4, 3, 8, 4]),
        extension(16, b"\0\x0c\x02h2\x08http/1.1"),
        extension(43, &[4, 3, 4, 3, 3]),
    ]
    .concat();
    let body = join(&[
        &[3, 3],
        &[0xab; 32],
        &[0],
        &[0, 6, 0x13, 1, 0xc0, 0x2f, 0, 0xff],
        &[1, 0],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]);
    record(22, &handshake(1, &body))
}

/// A ServerHello, the change of cipher, and a record of application data.
#[must_use]
pub fn server_hello() -> Vec<u8> {
    let extensions = extension(43, &[3, 4]);
    let body = join(&[&[3, 3], &[0xcd; 32], &[0, 0x13, 1, 0], &(extensions.len() as u16).to_be_bytes(), &extensions]);
    join(&[&record(22, &handshake(2, &body)), &record(20, &[1]), &record(23, &[0x55; 200])])
}

/// An SSH identification line.
#[must_use]
pub fn ssh_banner(software: &str) -> Vec<u8> {
    format!("SSH-2.0-{software}\r\n").into_bytes()
}

/// An SSH key exchange packet with the names of methods.
#[must_use]
pub fn ssh_kexinit() -> Vec<u8> {
    let mut body = vec![20];
    body.extend([0x11; 16]);
    for list in [
        "curve25519-sha256",
        "ssh-ed25519",
        "aes128-ctr",
        "aes128-ctr",
        "hmac-sha2-256",
        "hmac-sha2-256",
        "none",
        "none",
        "",
        "",
    ] {
        body.extend((list.len() as u32).to_be_bytes());
        body.extend(list.bytes());
    }
    body.extend([0; 5]);
    let padding = 8 + (8 - (5 + body.len() + 8) % 8) % 8;
    let length = (1 + body.len() + padding) as u32;
    join(&[&length.to_be_bytes(), &[padding as u8], &body, &vec![0; padding]])
}

/// An HTTP request.
#[must_use]
pub fn http_request(path: &str, host: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sample/1.0\r\nAccept: */*\r\n\r\n").into_bytes()
}

/// An HTTP answer with a body of this length.
#[must_use]
pub fn http_answer(len: usize) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\nServer: sample\r\n\r\n");
    let body: Vec<u8> = (0..len).map(|at| b"the quick brown fox jumps over the lazy dog\n"[at % 44]).collect();
    [head.into_bytes(), body].concat()
}

/// A RADIUS packet: code, identifier, attributes.
#[must_use]
pub fn radius(code: u8, id: u8) -> Vec<u8> {
    let attribute = |kind: u8, value: &[u8]| join(&[&[kind, 2 + value.len() as u8], value]);
    let attributes = [
        attribute(1, b"somebody"),
        attribute(2, &[0x42; 16]),
        attribute(4, &[192, 0, 2, 5]),
        attribute(5, &[0, 0, 0, 9]),
        attribute(26, &[0, 0, 0, 9, 1, 6, b'a', b'=', b'b', b'c']),
    ]
    .concat();
    join(&[&[code, id], &(20 + attributes.len() as u16).to_be_bytes(), &[0x77; 16], &attributes])
}

/// An NTP packet of this mode.
#[must_use]
pub fn ntp(mode: u8) -> Vec<u8> {
    join(&[&[0x20 | mode, 2, 6, 0xec], &[0, 0, 4, 0, 0, 0, 8, 0, 192, 0, 2, 3], &[0xe9; 32]])
}

/// A DHCP message of this type.
#[must_use]
pub fn dhcp(kind: u8) -> Vec<u8> {
    let mut message = vec![if kind % 2 == 1 { 1 } else { 2 }, 1, 6, 0, 0xde, 0xad, 0xbe, kind, 0, 0, 0x80, 0];
    message.extend([0; 16]);
    message.extend([2, 0, 0, 0, 0, 0x11]);
    message.resize(236, 0);
    message.extend([0x63, 0x82, 0x53, 0x63, 53, 1, kind, 55, 3, 1, 3, 6, 12, 4, b'h', b'o', b's', b't', 255]);
    message.resize(300, 0);
    message
}

/// syslog messages in the forms of RFC 5424 and RFC 3164, and without a priority.
#[must_use]
pub fn syslog() -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = (0..192)
        .step_by(7)
        .map(|priority| {
            if priority % 2 == 0 {
                format!(
                    "<{priority}>1 2026-11-23T10:00:00.003Z router7 su - ID47 - 'su root' failed for user{priority}"
                )
            } else {
                format!("<{priority}>Nov 23 10:00:00 router7 su[{priority}]: 'su root' failed on /dev/pts/8")
            }
            .into_bytes()
        })
        .collect();
    messages.push(b"no priority at all".to_vec());
    messages.push(b"<34>Oct 11 22:14:15 mymachine su: 'su root' failed".to_vec());
    messages.push(
        b"<165>1 2026-11-23T10:00:00Z host app 8710 ID47 [one@32473 a=\"3\" b=\"x\"][two@32473 c=\"4\"] text".to_vec(),
    );
    messages
}
