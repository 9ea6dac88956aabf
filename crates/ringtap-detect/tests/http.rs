//! HTTP through the whole detector: what rules see of requests and responses, whatever pieces they come in.

mod support;

use ringtap_detect::{Alert, FlowView, HttpView, LinkType, Sink, Transaction};
use support::{ACK, detector, handshake, sids, tcp};

const FIN: u8 = 1;

/// A session in which client and server speak in turn, each text cut into pieces of this size.
fn session(texts: &[(bool, &[u8])], piece: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut at) = (handshake(), [0u32, 0]);
    for &(from_client, text) in texts {
        let own = usize::from(!from_client);
        for part in text.chunks(piece) {
            frames.push(tcp(from_client, at[own], at[1 - own], ACK, part));
            at[own] += part.len() as u32;
            frames.push(tcp(!from_client, at[1 - own], at[own], ACK, b""));
        }
    }
    frames.push(tcp(false, at[1], at[0], ACK | FIN, b""));
    frames.push(tcp(true, at[0], at[1] + 1, ACK | FIN, b""));
    frames
}

fn found(rules: &str, texts: &[(bool, &[u8])], piece: usize) -> Vec<u32> {
    let mut list = sids(&mut detector(rules), &session(texts, piece));
    list.sort_unstable();
    list
}

const REQUEST: &[u8] = b"POST /a/../b%20c//d?q=%41+#f HTTP/1.1\r\nHost: WWW.Example.org:80\r\nUser-Agent: me\r\n\
    Cookie: c=1\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 11\r\n\r\nuser=secret";
const RESPONSE: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nServer: nginx\r\nSet-Cookie: s=2\r\nTransfer-Encoding: chunked\r\n\r\n\
    4\r\nhell\r\n5;x\r\no ---\r\n0\r\n\r\n";

#[test]
fn each_buffer_has_its_value() {
    let rules = r#"
        alert http any any -> any any (http.uri; content:"/b c/d?q=A+#f"; bsize:13; sid:1;)
        alert http any any -> any any (http.uri.raw; content:"/a/../b%20c//d?q=%41+#f"; bsize:23; sid:2;)
        alert http any any -> any any (http.header; content:"X-A: 1, 2|0d 0a|"; content:!"Cookie"; sid:3;)
        alert http any any -> any any (http.header_names; content:"|0d 0a|Host|0d 0a|User-Agent|0d 0a|Cookie|0d 0a|X-A|0d 0a|Content-Length|0d 0a 0d 0a|"; startswith; endswith; sid:4;)
        alert http any any -> any any (http.host; content:"www.example.org"; bsize:15; http.host.raw; content:":80"; endswith; sid:5;)
        alert tcp any any -> any 80 (content:"POST"; http_method; content:"me"; http_user_agent; content:"c=1"; http_cookie; pcre:"/^\/b/U"; content:"secret"; http_client_body; sid:6;)
        alert http any any -> any any (http.stat_code; content:"404"; http.stat_msg; content:"Not Found"; http.server; content:"nginx"; http.cookie; content:"s=2"; sid:7;)
        alert http any any -> any any (file_data; content:"hello ---"; bsize:9; sid:8;)
        alert http any any -> any any (flow:to_server; http.method; content:"POST"; http.request_body; content:"user="; http.response_line; content:"x"; sid:9;)
        alert http any any -> any any (http.host; dotprefix; content:".example.org"; endswith; sid:10;)
        alert http any any -> any any (http.request_line; content:"POST "; startswith; http.start; content:"X-A: 1, 2|0d 0a|"; http.protocol; content:"HTTP/1.1"; sid:11;)
        alert tcp any any -> any any (urilen:13; uricontent:"/b c"; app-layer-protocol:http; sid:12;)
        alert http any any -> any any (http.uri; content:"%20"; sid:13;)
    "#;
    for piece in [1, 7, 1000] {
        let expected = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12];
        assert_eq!(found(rules, &[(true, REQUEST), (false, RESPONSE)], piece), expected, "{piece}");
    }
}

#[test]
fn a_first_request_with_a_method_of_its_own_is_read() {
    let rules = r#"
        alert http any any -> any 80 (flow:to_server; http.method; content:"FROB"; http.uri; content:"/attack"; sid:1;)
        alert http any 80 -> any any (flow:to_client; http.stat_code; content:"405"; file.data; content:"no"; sid:2;)
    "#;
    let request: &[u8] = b"FROB /attack HTTP/1.1\r\nHost: a\r\n\r\n";
    let response: &[u8] = b"HTTP/1.1 405 No\r\nContent-Length: 2\r\n\r\nno";
    for piece in [1, 5, 1000] {
        assert_eq!(found(rules, &[(true, request), (false, response)], piece), [1, 2], "{piece}");
    }
    assert_eq!(found(rules, &[(true, request)], 1000), [1], "nobody answers");
    // Something else that ends its first line alike, and lines that don't.
    for other in ["\u{1}FROB /attack HTTP/1.1\r\n", "FROB /attack SIP/2.0\r\n\r\n", "FROB\r\n/attack HTTP/1.1\r\n"] {
        assert_eq!(found(rules, &[(true, other.as_bytes())], 1000), [] as [u32; 0], "{other}");
    }
}

#[test]
fn pipelined_requests_are_told_apart() {
    let rules = r#"
        alert http any any -> any any (http.uri; content:"/one"; http.host; content:"b"; sid:1;)
        alert http any any -> any any (http.uri; content:"/two"; http.host; content:"b"; sid:2;)
        alert http any any -> any any (http.stat_code; content:"20"; file.data; content:"twice"; sid:3;)
    "#;
    let requests =
        b"GET /one HTTP/1.1\r\nHost: a\r\n\r\nHEAD /two HTTP/1.1\r\nHost: b\r\n\r\nGET /three HTTP/1.1\r\n\r\n";
    // The response to HEAD has no content, whatever it says.
    let responses = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntwiceHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\
        HTTP/1.1 206 OK\r\nContent-Length: 5\r\n\r\ntwice";
    for piece in [1, 1000] {
        assert_eq!(found(rules, &[(true, requests), (false, responses)], piece), [2, 3, 3], "{piece}");
    }
}

#[test]
fn interim_responses_and_tunnels() {
    let rules = r#"
        alert http any any -> any any (http.stat_code; content:"100"; http.header; content:"x"; sid:1;)
        alert http any any -> any any (file.data; content:"content"; sid:2;)
        alert http any any -> any any (http.method; content:"GET"; http.host; content:"inner"; sid:3;)
    "#;
    let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent";
    let put = b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(found(rules, &[(true, put), (false, interim)], 1000), [2]);
    let connect = b"CONNECT inner:80 HTTP/1.1\r\n\r\n";
    let inner: &[u8] = b"GET / HTTP/1.1\r\nHost: inner\r\n\r\n";
    let texts = [(true, &connect[..]), (false, b"HTTP/1.1 200 OK\r\n\r\n"), (true, inner)];
    assert_eq!(found(rules, &texts, 1000), [3]);
    let texts = [
        (true, &connect[..]),
        (false, b"HTTP/1.1 200 OK\r\n\r\n"),
        (true, &b"\x16\x03\x01\0GET / HTTP/1.1\r\nHost: inner\r\n\r\n"[..]),
    ];
    assert_eq!(found(rules, &texts, 1000), [] as [u32; 0], "anything else is no HTTP");
}

#[test]
fn content_is_looked_at_as_a_whole_once_and_then_by_windows() {
    let rules = r#"
        alert http any any -> any any (http.stat_code; content:"200"; file.data; content:"needle"; content:"end"; distance:0; sid:1;)
        alert http any any -> any any (file.data; content:"needle"; sid:2;)
        alert http any any -> any any (file.data; content:!"end"; content:"start"; sid:3;)
    "#;
    let mut body = b"HTTP/1.1 200 OK\r\n\r\nstart".to_vec();
    body.resize(60_000, b'x');
    body.extend_from_slice(b"needle");
    body.resize(70_000, b'y');
    body.extend_from_slice(b"end");
    // The third rule is true of what is looked at first.
    assert_eq!(found(rules, &[(true, b"GET / HTTP/1.0\r\n\r\n"), (false, &body)], 1400), [1, 2, 3]);
    // Behind 100 KiB nothing is looked at.
    body.resize(110_000, b'z');
    body.extend_from_slice(b"late");
    let late = r#"alert http any any -> any any (file.data; content:"late"; sid:4;)"#;
    assert_eq!(found(late, &[(true, b"GET / HTTP/1.0\r\n\r\n"), (false, &body)], 1400), [] as [u32; 0]);
}

#[test]
fn files_in_forms_and_what_is_odd() {
    let rules = r#"
        alert http any any -> any any (flow:to_server; file.data; content:"file text"; bsize:9; sid:1;)
        alert http any any -> any any (app-layer-event:http.invalid_transfer_encoding_value_in_request; sid:2;)
    "#;
    let form = b"--xy\r\nContent-Disposition: form-data; name=a; filename=f\r\n\r\nfile text\r\n--xy--\r\n";
    let request = [
        format!(
            "POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=xy\r\nContent-Length: {}\r\n\r\n",
            form.len()
        )
        .as_bytes(),
        form,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ]
    .concat();
    assert_eq!(found(rules, &[(true, &request)], 50), [1, 2]);
}

/// A rule about files means one of them, and is told of each.
#[test]
fn files_of_a_form_are_told_one_by_one() {
    let rules = r#"
        alert http any any -> any any (http.method; content:"POST"; filename:"pic"; sid:1;)
        alert http any any -> any any (filename:"pic1"; file.data; content:"second"; sid:2;)
        alert http any any -> any any (filename:"pic2"; file.data; content:"second"; sid:3;)
        alert http any any -> any any (http.method; content:"POST"; http.request_body; content:"first"; sid:4;)
    "#;
    let part = |name: &str, text: &str| {
        format!("--xy\r\nContent-Disposition: form-data; name=a; filename={name}\r\n\r\n{text}\r\n")
    };
    let form = [part("pic1", "the first"), part("pic2", "the second"), "--xy--\r\n".to_owned()].concat();
    let head = "POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=xy\r\nContent-Length: ";
    let request = format!("{head}{}\r\n\r\n{form}", form.len());
    for piece in [20, 1000] {
        assert_eq!(found(rules, &[(true, request.as_bytes())], piece), [1, 1, 3, 4], "{piece}");
    }
    // More of them than are shown one by one: the last come together.
    let many: String = (0..40).map(|number| part(&format!("pic{number}"), "x")).collect();
    let request = format!("{head}{}\r\n\r\n{many}--xy--\r\n", many.len() + 8);
    let rule = r#"alert http any any -> any any (filename:"pic39"; sid:1;)"#;
    assert_eq!(found(rule, &[(true, request.as_bytes())], 1000), [1]);
}

/// What records would say.
#[derive(Default)]
struct Told(Vec<String>);

impl Sink for Told {
    fn alert(&mut self, _alert: &Alert<'_>) {}

    fn transaction(&mut self, transaction: &Transaction<'_>, _flow: &FlowView<'_>, _now_ns: u64) {
        let view = HttpView::new(transaction.said);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (method, host, target) = (text(view.method()), text(view.host()), text(view.target()));
        let kind = text(view.response_field(b"content-type"));
        let (id, length) = (transaction.id, transaction.contents[1].sent);
        self.0.push(format!("{id} {method} {host}{target} {} {length} {kind}", view.status()));
    }
}

#[test]
fn transactions_are_told_once() {
    let requests =
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET http://B/2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\n\r\n";
    let responses =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 304 No\r\n\r\n";
    let mut told = Told::default();
    let mut detector = detector("");
    for frame in session(&[(true, requests), (false, responses)], 20) {
        detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, 1_000_000, &mut told);
    }
    assert_eq!(told.0, ["0 GET a/1 200 3 text/html", "1 GET Bhttp://B/2 304 0 ", "2 GET /3 0 0 "]);
    detector.finish(2_000_000, &mut told);
    assert_eq!(told.0.len(), 3);
}

#[test]
fn missing_bytes_of_content_are_skipped() {
    let rules = r#"
        alert http any any -> any any (http.uri; content:"/next"; sid:1;)
        alert http any any -> any any (http.request_body; content:"tail"; sid:2;)
    "#;
    let head = b"POST / HTTP/1.1\r\nContent-Length: 30\r\n\r\n0123456789";
    let at = head.len() as u32;
    let mut frames = handshake();
    frames.push(tcp(true, 0, 0, ACK, head));
    // Ten bytes that only the server has seen.
    frames.push(tcp(true, at + 10, 0, ACK, b"......tailGET /next HTTP/1.1\r\n\r\n"));
    frames.push(tcp(false, 0, at + 10, ACK, b""));
    let mut list = sids(&mut detector(rules), &frames);
    list.sort_unstable();
    assert_eq!(list, [1, 2]);
}

#[test]
fn lines_behind_a_response_are_looked_at_together() {
    let rule =
        r#"alert http any any -> any any (http.stat_code; content:"200"; file.data; content:"li|0a|li"; sid:1;)"#;
    let response = [&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..], &b"li\n".repeat(400)].concat();
    let mut list = session(&[(true, b"GET / HTTP/1.1\r\n\r\n"), (false, &response)], 1400);
    let mut detector =
        detector(&format!("{rule}\nalert http any any -> any any (file.data; content:\"li|0a|li|0d|\"; sid:2;)"));
    assert_eq!(sids(&mut detector, &list), [1]);
    // One of the request, few of the response: not one for each line.
    let checks: u64 = detector.profile().iter().map(|profile| profile.checks).sum();
    assert!(checks < 20, "{checks}");
    list = session(
        &[
            (true, b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
            (false, &[&response[..], b"HTTP/1.1 404 No\r\n\r\n"].concat()),
        ],
        1400,
    );
    assert_eq!(sids(&mut support::detector(rule), &list), [1], "before the next response");
}

#[test]
fn decompressors_make_so_much_for_a_message() {
    let rule = r#"alert http any any -> any any (file.data; content:"needle"; sid:1;)"#;
    let answer = |name: usize| {
        let mut inner = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
        inner.resize(10 + name, b'a');
        inner.push(0);
        inner.extend_from_slice(&miniz_oxide::deflate::compress_to_vec(b"needle", 6));
        let outer = miniz_oxide::deflate::compress_to_vec(&inner, 6);
        let head = b"HTTP/1.0 200 OK\r\nContent-Encoding: deflate, gzip\r\n\r\n";
        found(rule, &[(true, b"GET / HTTP/1.0\r\n\r\n"), (false, &[&head[..], &outer].concat())], 500)
    };
    assert_eq!(answer(100_000), [1]);
    assert_eq!(answer(3 << 20), [] as [u32; 0], "behind three megabytes of which nothing is kept");
}

/// As many codings as are asked for; a bomb in the innermost ends there, and what follows on the connection is read.
#[test]
fn codings_within_codings() {
    let rules = r#"alert http any any -> any any (file.data; content:"needle"; sid:1;)
        alert http any any -> any any (http.uri; content:"/next"; sid:2;)"#;
    let gzip = |inner: &[u8]| {
        [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &miniz_oxide::deflate::compress_to_vec(inner, 9)].concat()
    };
    let run = |layers: usize, codings: &str, content: &[u8]| {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: {codings}\r\nContent-Length: {}\r\n\r\n", content.len());
        let response = [head.as_bytes(), content].concat();
        let texts: [(bool, &[u8]); 3] =
            [(true, b"GET / HTTP/1.1\r\n\r\n"), (false, &response), (true, b"GET /next HTTP/1.1\r\n\r\n")];
        let mut limits = support::limits();
        limits.http.layers = layers;
        let mut detector = ringtap_detect::Detector::new(support::program(rules), limits);
        let mut found = sids(&mut detector, &session(&texts, 1400));
        found.sort_unstable();
        (found, detector.counters().http.not_decoded)
    };
    let [once, twice, thrice] = [1, 2, 3].map(|times| (0..times).fold(b"a needle".to_vec(), |inner, _| gzip(&inner)));
    assert_eq!(run(1, "gzip", &once), (vec![1, 2], 0));
    assert_eq!(run(1, "gzip, gzip", &twice), (vec![2], 1));
    assert_eq!(run(2, "gzip, gzip", &twice), (vec![1, 2], 0));
    assert_eq!(run(2, "gzip, gzip, gzip", &thrice), (vec![2], 1));
    assert_eq!(run(3, "gzip, gzip, gzip", &thrice), (vec![1, 2], 0));
    let bomb = (0..3).fold([&vec![b'a'; 20 << 20][..], b"needle"].concat(), |inner, _| gzip(&inner));
    assert!(bomb.len() < 1000, "{}", bomb.len());
    assert_eq!(run(3, "gzip, gzip, gzip", &bomb).0, [2]);
}

#[test]
fn zeros_before_a_chunks_length_and_a_tunnel_refused() {
    let rules = r#"
        alert http any any -> any any (file.data; content:"needle"; sid:1;)
        alert http any any -> any any (http.uri; content:"/next"; sid:2;)
    "#;
    let chunk = format!("{}6\r\nneedle\r\n0\r\n\r\n", "0".repeat(100));
    let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
    for piece in [1, 30, 1000] {
        assert_eq!(found(rules, &[(true, b"GET / HTTP/1.1\r\n\r\n"), (false, response.as_bytes())], piece), [1]);
    }
    let requests = b"CONNECT inner:80 HTTP/1.1\r\n\r\nGET /next HTTP/1.1\r\n\r\n";
    let refused = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(found(rules, &[(true, requests), (false, refused)], 1000), [2]);
}

#[test]
fn a_connection_that_was_given_up_goes_on_with_a_message() {
    let rules = r#"alert http any any -> any any (http.request_line; content:"line of a form"; sid:1;)
        alert http any any -> any any (http.uri; content:"/next"; sid:2;)"#;
    let texts: [&[u8]; 3] =
        [b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n", b"a line of a form\r\n", b"GET /next HTTP/1.1\r\n\r\n"];
    let mut settings = support::limits();
    settings.http.connections = 1;
    let mut detector = ringtap_detect::Detector::new(support::program(rules), settings);
    let (mut frames, mut at) = (handshake(), 0);
    for text in texts {
        frames.push(tcp(true, at, 0, ACK, text));
        at += text.len() as u32;
    }
    // Another connection, which takes the only place: the same frames from another port.
    let mut others = handshake();
    others.push(tcp(true, 0, 0, ACK, b"GET / HTTP/1.1\r\n\r\n"));
    for other in &mut others {
        let port = if other[34..36] == [0, 80] { 36 } else { 34 };
        other[port] ^= 1;
    }
    let rest = frames.split_off(4);
    frames.extend(others);
    frames.extend(rest);
    assert_eq!(sids(&mut detector, &frames), [2]);
}

#[test]
fn a_fin_that_is_discarded_has_nothing_looked_at() {
    let rule = r#"alert http any any -> any any (http.request_body; content:"piece"; content:!"a piece"; sid:1;)"#;
    let mut detector = detector(rule);
    let head = b"POST / HTTP/1.1\r\nContent-Length: 9000\r\n\r\n";
    let (mut frames, mut at) = (handshake(), head.len() as u32);
    frames.push(tcp(true, 0, 0, ACK, head));
    for _ in 0..30 {
        frames.push(tcp(true, at, 0, ACK, b"a piece"));
        at += 7;
        // It acknowledges what was never sent.
        frames.push(tcp(true, at, 1_000_000, ACK | FIN, b""));
    }
    assert_eq!(sids(&mut detector, &frames), [] as [u32; 0]);
    assert!(detector.profile()[0].checks < 5, "{:?}", detector.profile()[0]);
}

/// "a needle in the page" in Brotli, and 50,000,000 zeros.
const NEEDLE: &[u8] = &[
    0x1b, 0x13, 0x00, 0xf8, 0x05, 0x36, 0xc6, 0xd6, 0x6d, 0xdf, 0x20, 0x47, 0x10, 0x85, 0x40, 0xe1, 0x52, 0xd6, 0x21,
    0x43, 0xbd, 0x1e, 0x01,
];
const ZEROS: &[u8] = &[
    0xcf, 0xff, 0xff, 0x7f, 0x00, 0x24, 0x00, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf9, 0xff, 0xff, 0x0f, 0x80, 0x04,
    0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x7f, 0xfe, 0xc1, 0xeb, 0x03, 0x90, 0x00, 0x88, 0xc3, 0x02, 0xd0, 0x41, 0xd7,
    0x07,
];

/// Nothing tells Brotli from other bytes: what comes out of it is looked at, and the bytes as they were sent.
#[test]
fn brotli_and_its_bytes() {
    let rules = r#"alert http any any -> any any (file.data; content:"a needle in the page"; sid:1;)
        alert http any any -> any any (file.data; content:"plain words"; sid:2;)
        alert http any any -> any any (http.response_body; content:"a needle in the page"; sid:3;)
        alert http any any -> any any (http.uri; content:"/next"; sid:4;)"#;
    let stock = support::limits();
    let run = |decompressors: usize, codings: &str, content: &[u8], size: usize| {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: {codings}\r\nContent-Length: {}\r\n\r\n", content.len());
        let response = [head.as_bytes(), content].concat();
        let texts: [(bool, &[u8]); 3] =
            [(true, b"GET / HTTP/1.1\r\n\r\n"), (false, &response), (true, b"GET /next HTTP/1.1\r\n\r\n")];
        let mut limits = stock.clone();
        limits.http.brotli = decompressors;
        let mut detector = ringtap_detect::Detector::new(support::program(rules), limits);
        let mut found = sids(&mut detector, &session(&texts, size));
        found.sort_unstable();
        (found, detector.counters().http.not_decoded)
    };
    for size in [1, 9, 1400] {
        assert_eq!(run(2, "br", NEEDLE, size), (vec![1, 3, 4], 0), "{size}");
        // Sent as it is: who does not know the coding reads that.
        assert_eq!(run(2, "br", b"these are plain words", size), (vec![2, 4], 0), "{size}");
        // Beside a stream in the same content.
        assert_eq!(run(2, "br", &[NEEDLE, b"plain words"].concat(), size), (vec![1, 2, 3, 4], 0), "{size}");
        assert_eq!(run(2, "br", &[ZEROS, b"plain words"].concat(), size).0, [2, 4], "behind a bomb, {size}");
        // What was done last is named last.
        let outer = miniz_oxide::deflate::compress_to_vec(NEEDLE, 6);
        assert_eq!(run(2, "br, deflate", &outer, size).0, [1, 3, 4], "{size}");
    }
    // Without a decompressor the bytes are what they are.
    assert_eq!(run(0, "br", b"plain words", 1400), (vec![2, 4], 1));
}

/// Texts as Brotli without compression, a block for each, behind so many that are skipped, of 5,000 bytes (RFC 7932 §9.2).
fn blocks(skipped: usize, texts: &[&[u8]]) -> Vec<u8> {
    const SKIPPED: u32 = 5000;
    // The window's size, and a block of nothing.
    let mut stream = vec![0x0c];
    for _ in 0..skipped {
        let head = 0b10_0110 | (SKIPPED - 1) << 6;
        stream.extend_from_slice(&head.to_le_bytes()[..3]);
        stream.extend_from_slice(&[b'#'; SKIPPED as usize]);
    }
    for text in texts {
        let head = (text.len() as u32 - 1) << 3 | 1 << 19;
        stream.extend_from_slice(&head.to_le_bytes()[..3]);
        stream.extend_from_slice(text);
    }
    stream.push(3);
    stream
}

const ANSWER: &str = r#"alert http any any -> any any (file.data; content:"evil-answer"; sid:1;)"#;
const BROTLI_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n";

/// What nothing comes out of is the packets' to pay for: a message's content lies behind as much of it as its sender likes.
#[test]
fn brotli_that_is_skipped_takes_nothing_from_its_message() {
    for skipped in [0, 14, 300] {
        let response = [BROTLI_HEAD, &blocks(skipped, &[b"an evil-", b"answer"])].concat();
        let texts: [(bool, &[u8]); 2] = [(true, b"GET / HTTP/1.0\r\n\r\n"), (false, &response)];
        for size in [1400, 9000, 60_000] {
            let mut detector = detector(ANSWER);
            assert_eq!(sids(&mut detector, &session(&texts, size)), [1], "{skipped} in segments of {size}");
            assert_eq!(detector.counters().http.not_decoded, 0, "{skipped} in segments of {size}");
        }
    }
}

/// What ends a message's decoding before as much has come out as is looked at is told.
#[test]
fn what_is_not_decoded_is_counted() {
    // A megabyte comes out of the outer one, the header of what is within.
    let inner = [&[0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3][..], &vec![b'a'; 2 << 20], b"\0"].concat();
    let outer = miniz_oxide::deflate::compress_to_vec(&inner, 6);
    let response = [b"HTTP/1.0 200 OK\r\nContent-Encoding: deflate, gzip\r\n\r\n", &outer[..]].concat();
    let mut detector = detector(ANSWER);
    sids(&mut detector, &session(&[(true, b"GET / HTTP/1.0\r\n\r\n"), (false, &response)], 100));
    assert_eq!(detector.counters().http.not_decoded, 1);
}

/// Who has said that no more comes may be early, and who is silent may go on: what was sent is not put between what came out.
#[test]
fn a_pause_puts_nothing_into_brotli() {
    let body = blocks(0, &[b"an evil-", b"answer", b"."]);
    let at = body.len() - 5 - 6;
    let response = [BROTLI_HEAD, &body].concat();
    let cut = BROTLI_HEAD.len() + at;
    let end = response.len() as u32;
    for waits in [false, true] {
        let request = b"GET / HTTP/1.0\r\n\r\n";
        let asked = request.len() as u32;
        let mut frames = handshake();
        frames.push(tcp(true, 0, 0, ACK, request));
        frames.push(tcp(false, 0, asked, ACK, &response[..cut]));
        if !waits {
            frames.push(tcp(false, end, asked, ACK | FIN, b""));
        }
        let (mut detector, mut found) = (detector(ANSWER), support::Sids::default());
        let mut now_ns = 1 << 40;
        let mut feed = |now_ns: u64, frame: &[u8], found: &mut support::Sids| {
            detector.packet(frame, LinkType::Ethernet, frame.len() as u32, now_ns, found);
        };
        for frame in &frames {
            now_ns += 1_000_000;
            feed(now_ns, frame, &mut found);
        }
        now_ns += u64::from(waits) * 601_000_000_000;
        feed(now_ns, &tcp(false, cut as u32, asked, ACK, &response[cut..]), &mut found);
        detector.finish(now_ns, &mut found);
        assert_eq!(found.0, [1], "silent: {waits}");
    }
}

/// What was sent is looked at once all rules have seen what came out of it: it takes none of their time.
#[test]
fn what_was_sent_hides_nothing_that_came_out() {
    let patterns =
        (0..5000).map(|number| format!("alert http any any -> any any (http.response_body; content:\"pattern-{number:04}\"; content:\"none\"; sid:{};)\n", number + 10));
    let rules: String = patterns.chain([ANSWER.to_owned()]).collect();
    let plain = [&b"."[..]; 1500].concat();
    let packed = [&blocks(0, &[&plain, b"an evil-answer"])[..], &b"pattern-x".repeat(11_000)].concat();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: {}\r\n\r\n", packed.len());
    let response = [head.as_bytes(), &packed].concat();
    let texts: [(bool, &[u8]); 2] = [(true, b"GET / HTTP/1.1\r\n\r\n"), (false, &response)];
    let limits = ringtap_detect::Limits { budget: 10_000, ..support::limits() };
    let mut detector = ringtap_detect::Detector::new(support::program(&rules), limits);
    assert_eq!(sids(&mut detector, &session(&texts, 1400)), [1]);
    assert!(detector.counters().budget_hits > 0);
}

/// What comes behind a message's end is looked at together, packed or not.
#[test]
fn what_comes_behind_packed_content_makes_no_look_each() {
    let packed = blocks(0, &[b"an evil-answer"]);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: {}\r\n\r\n", packed.len());
    let response = [head.as_bytes(), &packed, &b"more of it\n".repeat(1000)].concat();
    let rule = r#"alert http any any -> any any (http.stat_code; content:"200"; file.data; content:"more of"; content:!"evil"; sid:1;)"#;
    let mut detector = detector(&[ANSWER.replace("sid:1", "sid:2").as_str(), rule].join("\n"));
    let texts: [(bool, &[u8]); 2] = [(true, b"GET / HTTP/1.1\r\n\r\n"), (false, &response)];
    assert_eq!(sids(&mut detector, &session(&texts, 110)), [2]);
    let checks: u64 = detector.profile().iter().map(|profile| profile.checks).sum();
    assert!(checks < 20, "{checks}");
}
