//! Owns: HTTP in the rule language.
//! Does not: read messages.

use crate::protocol::{Keyword, Stage, file_extension, file_name};

pub(super) const RULE_NAMES: &[&str] = &["http", "http1"];

pub(super) const METHOD: u8 = 0;
pub(super) const URI: u8 = 1;
pub(super) const URI_RAW: u8 = 2;
pub(super) const PROTOCOL: u8 = 3;
pub(super) const REQUEST_LINE: u8 = 4;
pub(super) const STATUS: u8 = 5;
pub(super) const REASON: u8 = 6;
pub(super) const RESPONSE_LINE: u8 = 7;
pub(super) const HEADER: u8 = 8;
pub(super) const HEADER_RAW: u8 = 9;
pub(super) const HEADER_NAMES: u8 = 10;
pub(super) const HOST: u8 = 11;
pub(super) const HOST_RAW: u8 = 12;
pub(super) const USER_AGENT: u8 = 13;
pub(super) const COOKIE: u8 = 14;
pub(super) const REFERER: u8 = 15;
pub(super) const ACCEPT: u8 = 16;
pub(super) const ACCEPT_ENC: u8 = 17;
pub(super) const ACCEPT_LANG: u8 = 18;
pub(super) const CONNECTION: u8 = 19;
pub(super) const CONTENT_TYPE: u8 = 20;
pub(super) const CONTENT_LEN: u8 = 21;
pub(super) const START: u8 = 22;
pub(super) const SERVER: u8 = 23;
pub(super) const LOCATION: u8 = 24;
pub(super) const REQUEST_FIELD: u8 = 25;
pub(super) const RESPONSE_FIELD: u8 = 26;
pub(super) const EVENT: u8 = 27;
pub(super) const REQUEST_BODY: u8 = 28;
pub(super) const RESPONSE_BODY: u8 = 29;
pub(super) const FILE: u8 = 30;
pub(super) const FILE_NAME: u8 = 31;

const fn line(number: u8, names: &'static [&'static str]) -> Keyword {
    Keyword::buffer(number, names)
}

const fn head(number: u8, names: &'static [&'static str]) -> Keyword {
    Keyword::buffer(number, names).from(Stage::Head)
}

const fn body(number: u8, names: &'static [&'static str]) -> Keyword {
    Keyword::buffer(number, names).from(Stage::Body)
}

pub(super) const KEYWORDS: &[Keyword] = &[
    line(METHOD, &["http.method"]).after_content(&["http_method"], Some('M')),
    line(URI, &["http.uri"]).after_content(&["http_uri"], Some('U')),
    line(URI_RAW, &["http.uri.raw"]).after_content(&["http_raw_uri"], Some('I')),
    line(PROTOCOL, &["http.protocol", "http_protocol"]),
    line(REQUEST_LINE, &["http.request_line", "http_request_line"]),
    line(STATUS, &["http.stat_code"]).after_content(&["http_stat_code"], Some('S')),
    line(REASON, &["http.stat_msg"]).after_content(&["http_stat_msg"], Some('Y')),
    line(RESPONSE_LINE, &["http.response_line", "http_response_line"]),
    head(HEADER, &["http.header"]).after_content(&["http_header"], Some('H')),
    head(HEADER_RAW, &["http.header.raw"]).after_content(&["http_raw_header"], Some('D')),
    head(HEADER_NAMES, &["http.header_names", "http_header_names"]),
    head(HOST, &["http.host"]).after_content(&["http_host"], Some('W')),
    head(HOST_RAW, &["http.host.raw"]).after_content(&["http_raw_host"], Some('Z')),
    head(USER_AGENT, &["http.user_agent"]).after_content(&["http_user_agent"], Some('V')),
    head(COOKIE, &["http.cookie"]).after_content(&["http_cookie"], Some('C')),
    head(REFERER, &["http.referer", "http_referer"]),
    head(ACCEPT, &["http.accept", "http_accept"]),
    head(ACCEPT_ENC, &["http.accept_enc", "http_accept_enc"]),
    head(ACCEPT_LANG, &["http.accept_lang", "http_accept_lang"]),
    head(CONNECTION, &["http.connection", "http_connection"]),
    head(CONTENT_TYPE, &["http.content_type", "http_content_type"]),
    head(CONTENT_LEN, &["http.content_len", "http_content_len"]),
    head(START, &["http.start", "http_start"]),
    head(SERVER, &["http.server"]),
    head(LOCATION, &["http.location"]),
    head(REQUEST_FIELD, &["http.request_header"]),
    head(RESPONSE_FIELD, &["http.response_header"]),
    head(EVENT, &[]),
    body(REQUEST_BODY, &["http.request_body"]).after_content(&["http_client_body"], Some('P')).sought_with(FILE),
    body(RESPONSE_BODY, &["http.response_body"]).after_content(&["http_server_body"], Some('Q')).sought_with(FILE),
    body(FILE, &["file.data", "file_data"]),
    body(FILE_NAME, &["file.name"]).also_value(&[("filename", file_name), ("fileext", file_extension)]),
];
