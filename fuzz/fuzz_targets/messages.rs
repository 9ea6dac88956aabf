//! Owns: any bytes as both sides of a conversation that is read message by message, or as a datagram: MQTT, DCE/RPC, SMB, SMTP, SSH, RFB,
//! FTP and its data, SIP, SNMP, IKE.
//! The input's first byte says how long the segments are, the second where its sides change, the third which datagram it is.
#![no_main]

#[path = "../detector.rs"]
mod detector;
#[path = "../frames.rs"]
mod frames;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ringtap_detect::{Policy, Program};

const RULES: &[u8] = br#"alert mqtt any any -> any any (mqtt.type:CONNECT; mqtt.connect.clientid; content:"a"; sid:1;)
alert mqtt any any -> any any (mqtt.publish.message; content:"a"; mqtt.flags:!dup; sid:2;)
alert tcp any any -> any any (dcerpc.opnum:1-9; dcerpc.stub_data; content:"a"; sid:3;)
alert tcp any any -> any any (file.data; url_decode; content:"a"; sid:4;)
alert smb any any -> any any (smb.named_pipe; content:"IPC"; sid:5;)
alert smtp any any -> any any (fileext:"exe"; file.data; base64_decode; base64_data; content:"a"; sid:6;)
alert ssh any any -> any any (ssh.hassh; content:"a"; ssh.hassh.string; content:"a"; sid:7;)
alert rfb any any -> any any (rfb.name; content:"a"; rfb.sectype:1; sid:8;)
alert sip any any -> any any (sip.method; content:"A"; sip.uri; to_md5; content:"a"; sid:9;)
alert snmp any any -> any any (snmp.community; content:"a"; snmp.version:2; sid:10;)
alert ftp-data any any -> any any (ftpdata_command:retr; file.data; content:"a"; sid:11;)
alert tcp any any -> any any (ftpbounce; sid:12;)
alert ike any any -> any any (ike.chosen_sa_attribute:alg_enc=1; sid:13;)
alert ike any any -> any any (ike.vendor; content:"6"; ike.nonce_payload_length:>1; sid:14;)
alert tcp any any -> any any (file.name; dataset:set,a,type string,hashsize 16; sid:15;)"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));

fuzz_target!(|input: &[u8]| {
    let [size, turn, kind, bytes @ ..] = input else { return };
    let port = 445;
    let (size, turn) = (usize::from(*size) + 1, usize::from(*turn) + 1);
    let mut frames: Vec<Vec<u8>> = frames::handshake(port).into();
    let mut at = [0; 2];
    for (number, text) in bytes.chunks(turn).enumerate() {
        let side = number % 2;
        for part in text.chunks(size) {
            frames.push(frames::tcp(side == 0, port, at[side], frames::ACK, part));
            at[side] += part.len() as u32;
        }
    }
    let server = [5060, 161, 500, 53][usize::from(kind & 3)];
    frames.push(frames::udp(server, &bytes[..bytes.len().min(1400)]));
    // The connection that FTP may have announced (PASV, port 1025).
    frames.extend(frames::handshake(1025));
    frames.push(frames::tcp(kind & 4 == 0, 1025, 0, frames::ACK, bytes));
    detector::run(&mut detector::small(&PROGRAM, Policy::Bsd), frames);
});
