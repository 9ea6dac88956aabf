//! Owns: who may look: on loopback whoever is on this host, elsewhere who has the token.
//! Does not: encrypt: a proxy in front does TLS (docs/web.md).

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_run::secrets::read_private;

use crate::http::{Answer, Request};

/// The shortest token, bytes: what is shorter is guessed.
const SHORTEST: usize = 16;
/// What a wrong token costs who tries it.
const WRONG: Duration = Duration::from_millis(500);

/// What it goes by.
pub(crate) enum Guard {
    /// Bound to loopback: no other host can ask, but a page in a browser on this one might be led here by a name of its own.
    Loopback,
    /// `session` is what the cookie holds: made at the start, so that the token itself is in no browser. Its name has the port, as cookies
    /// know none: a host may have several pages.
    Token { token: String, cookie: String, session: String },
}

impl Guard {
    /// Of a page at `address`.
    ///
    /// # Errors
    /// The address is not loopback and there is no token; its file can't be read, may be read by others, or holds no token.
    pub(crate) fn new(address: SocketAddr, token: Option<&Path>) -> Result<Self> {
        let Some(path) = token else {
            if address.ip().is_loopback() {
                return Ok(Self::Loopback);
            }
            return Err(Error::usage("serve a page at", address.to_string(), "other hosts can reach this address")
                .way_out("name a file with a token (--web-token FILE), or 127.0.0.1"));
        };
        let token = read_private("token", path)?.trim().to_owned();
        if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::failed("read the token", path.display().to_string(), "it holds no token")
                .way_out(format!("at least {SHORTEST} letters and digits, such as of: openssl rand -hex 16")));
        }
        let mut session = [0; 16];
        getrandom::fill(&mut session).map_err(|error| Error::failed("make", "a session", error))?;
        let session = session.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self::Token { token, cookie: format!("ringtap-{}=", address.port()), session })
    }

    /// What is answered instead of what was asked for; `None`: this one may look.
    pub(crate) fn refusal(&self, request: &Request, login: impl FnOnce(bool) -> Answer) -> Option<Answer> {
        match self {
            // A name that leads here may be anybody's (DNS rebinding).
            Self::Loopback if request.header("host").is_none_or(is_this_host) => None,
            Self::Loopback => Some(Answer::text(421, "this page answers to 127.0.0.1, [::1] and localhost alone")),
            Self::Token { token, cookie: name, session } => {
                if request.method == "POST" && request.path == "/login" {
                    let given = String::from_utf8_lossy(&request.content);
                    let given = given.split('&').find_map(|field| field.strip_prefix("token=")).unwrap_or_default();
                    if !is_equal(&decoded(given), token) {
                        std::thread::sleep(WRONG);
                        return Some(login(true));
                    }
                    // A proxy in front says that it does TLS.
                    let is_tls = request.header("x-forwarded-proto") == Some("https");
                    let secure = if is_tls { "; Secure" } else { "" };
                    let cookie = format!("{name}{session}; HttpOnly; SameSite=Strict; Path=/{secure}");
                    let seen = Answer::text(303, "see /").with("Location", "/").with("Set-Cookie", cookie);
                    return Some(seen);
                }
                let cookies = request.header("cookie").unwrap_or_default();
                let has_cookie = cookies
                    .split("; ")
                    .filter_map(|one| one.strip_prefix(name.as_str()))
                    .any(|one| is_equal(one, session));
                let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
                if has_cookie || bearer.is_some_and(|bearer| is_equal(bearer.trim(), token)) {
                    return None;
                }
                Some(login(false))
            }
        }
    }
}

/// Whether a Host header names this host by what nobody else's name can be.
fn is_this_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// In a time that does not tell how much of it is right.
fn is_equal(given: &str, right: &str) -> bool {
    let differences = given.bytes().zip(right.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0 && given.len() == right.len()
}

/// A form's field (application/x-www-form-urlencoded).
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                u8::from_str_radix(digits, 16).unwrap_or(b'?')
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn refused(guard: &Guard, request: &Request) -> Option<u16> {
        guard.refusal(request, |_| Answer::text(401, "token")).map(|answer| answer.status)
    }

    #[test]
    fn on_loopback_names_of_others_lead_nowhere() {
        let guard = Guard::new("127.0.0.1:80".parse().unwrap(), None).unwrap();
        for host in ["localhost", "localhost:9400", "127.0.0.1:9400", "[::1]:9400", "::1", "127.9.9.9"] {
            assert_eq!(refused(&guard, &Request::get("/", &[("host", host)])), None, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:9400", "10.0.0.1", "", "localhost.evil.example"] {
            assert_eq!(refused(&guard, &Request::get("/", &[("host", host)])), Some(421), "{host}");
        }
    }

    proptest::proptest! {
        /// Nobody comes in by what is not the token, whatever is sent.
        #[test]
        fn what_is_not_the_token_opens_nothing(value in "\\PC{0,60}", content in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let (token, session) = ("0123456789abcdef".to_owned(), "fedcba9876543210".to_owned());
            let guard = Guard::Token { token, cookie: "ringtap-80=".to_owned(), session };
            for name in ["authorization", "cookie", "host"] {
                assert_eq!(refused(&guard, &Request::get("/", &[(name, &value)])), Some(401));
            }
            // It may be no panic, and takes its time when it is wrong: looked at without it.
            let field = String::from_utf8_lossy(&content);
            assert!(!is_equal(&decoded(&field), "0123456789abcdef") || field.contains("0123456789abcdef") || field.contains('%'));
            assert!(is_this_host(&value) == is_this_host(&value.to_ascii_uppercase()));
        }
    }

    #[test]
    fn elsewhere_the_token_opens() {
        let address = "192.0.2.1:80".parse().unwrap();
        let error = Guard::new(address, None).err().unwrap().to_string();
        assert!(error.contains("--web-token"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef+\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(Guard::new(address, Some(&path)).is_err(), "others may read it");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let guard = Guard::new(address, Some(&path)).unwrap();
        let Guard::Token { session, .. } = &guard else { panic!("it has a token") };
        let with = |name: &str, value: &str| Request::get("/", &[("host", "any.example"), (name, value)]);
        assert_eq!(refused(&guard, &with("authorization", "Bearer 0123456789abcdef+")), None);
        assert_eq!(refused(&guard, &with("cookie", &format!("a=b; ringtap-80={session}"))), None);
        for (name, value) in [
            ("authorization", "Bearer 0123456789abcdef"),
            ("authorization", "Bearer "),
            ("authorization", "0123456789abcdef+"),
            ("cookie", "ringtap-80="),
            ("cookie", "ringtap-80=0123456789abcdef+"),
        ] {
            assert_eq!(refused(&guard, &with(name, value)), Some(401), "{name}: {value}");
        }
        let post = |content: &str| {
            let mut request = Request::get("/login", &[]);
            (request.method, request.content) = ("POST".to_owned(), content.as_bytes().to_vec());
            request
        };
        assert_eq!(refused(&guard, &post("token=0123456789abcdef%2B")), Some(303));
        assert_eq!(refused(&guard, &post("token=0123456789abcdef%2")), Some(401));
        assert_eq!(refused(&guard, &post("")), Some(401));
        std::fs::write(&path, "short\n").unwrap();
        assert!(Guard::new(address, Some(&path)).is_err());
    }
}
