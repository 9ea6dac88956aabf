//! Owns: the outer form of rule files: comments, continued lines, the rule's seven header words, and options split at
//! unescaped semicolons.
//! Does not: know any option.

/// A rule is at most this long; longer ones are named and left out.
const MAX_RULE_BYTES: usize = 64 << 10;

/// One rule's text and the line it begins at, from 1.
pub(crate) struct Line {
    pub(crate) number: u32,
    /// The rule, or why it can't be one.
    pub(crate) text: Result<String, String>,
}

/// The rules of a file, comments and empty lines left out. Bytes that are not UTF-8 are kept as Latin-1, so that a
/// broken comment or message breaks nothing.
pub(crate) fn rules(file: &[u8]) -> Vec<Line> {
    let mut found = Vec::new();
    let mut lines = file.split(|&byte| byte == b'\n').enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let mut whole = line.to_vec();
        while whole.ends_with(b"\\") {
            whole.pop();
            let Some((_, more)) = lines.next() else { break };
            whole.extend_from_slice(more.trim_ascii());
            if whole.len() > MAX_RULE_BYTES {
                break;
            }
        }
        let text = if whole.len() > MAX_RULE_BYTES {
            Err(format!("longer than {MAX_RULE_BYTES} bytes"))
        } else {
            Ok(String::from_utf8(whole)
                .unwrap_or_else(|error| error.as_bytes().iter().map(|&b| char::from(b)).collect()))
        };
        found.push(Line { number: index as u32 + 1, text });
    }
    found
}

/// The words before the options, and the options' text.
pub(crate) struct Parts<'a> {
    pub(crate) action: &'a str,
    pub(crate) protocol: &'a str,
    pub(crate) source: (&'a str, &'a str),
    pub(crate) destination: (&'a str, &'a str),
    pub(crate) both_ways: bool,
    pub(crate) options: &'a str,
}

/// Splits a rule.
///
/// # Errors
/// What is missing.
pub(crate) fn split(text: &str) -> Result<Parts<'_>, String> {
    let open = text.find('(').ok_or("there is no '(' before the options")?;
    let options = text[open + 1..].trim_end().strip_suffix(')').ok_or("there is no ')' at the end")?;
    let words = header_words(&text[..open]);
    let [action, protocol, from, from_ports, arrow, to, to_ports] = words[..] else {
        return Err(format!(
            "the header has {} words, not 7 (action protocol address port -> address port)",
            words.len()
        ));
    };
    let both_ways = match arrow {
        "->" => false,
        "<>" => true,
        other => return Err(format!("'{other}' is no direction, -> or <>")),
    };
    Ok(Parts { action, protocol, source: (from, from_ports), destination: (to, to_ports), both_ways, options })
}

/// Words apart by white space, except inside brackets.
fn header_words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut open) = (Vec::new(), None, 0usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => open += 1,
            ']' => open = open.saturating_sub(1),
            _ => {}
        }
        if letter.is_whitespace() && open == 0 {
            if let Some(from) = start.take() {
                words.push(&text[from..at]);
            }
        } else if start.is_none() {
            start = Some(at);
        }
    }
    if let Some(from) = start {
        words.push(&text[from..]);
    }
    words
}

/// The options as (name, value); the value is empty where there is none.
///
/// # Errors
/// The last one does not end with a semicolon.
pub(crate) fn options(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut list = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, letter) in text.char_indices() {
        if letter == ';' && !escaped {
            let option = text[start..at].trim();
            start = at + 1;
            if option.is_empty() {
                continue;
            }
            let (name, value) = option.split_once(':').unwrap_or((option, ""));
            list.push((name.trim(), value.trim()));
        }
        escaped = letter == '\\' && !escaped;
    }
    if text[start..].trim().is_empty() {
        Ok(list)
    } else {
        Err(format!("'{}' does not end with ';'", text[start..].trim()))
    }
}

/// A quoted text without its quotes and with `\"`, `\;`, `\\` resolved; a text without quotes as it is.
pub(crate) fn unquote(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let mut out = String::with_capacity(inner.len());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_continued_lines() {
        let lines = rules(b"# no\n\nalert ip \\\n  any\n  #no\nlast \xff\n");
        let texts: Vec<_> = lines.iter().map(|line| (line.number, line.text.clone().unwrap())).collect();
        assert_eq!(texts, [(3, "alert ip any".to_owned()), (6, "last \u{ff}".to_owned())]);
        assert!(rules(&[b'a'; MAX_RULE_BYTES + 1])[0].text.is_err());
    }

    #[test]
    fn parts_and_options() {
        let parts =
            split(r#"alert tcp [1.2.3.4, 5.6.7.8] any <> $X [80, 81] (msg:"a\;(b)"; content:"x|3b|"; nocase;)"#)
                .unwrap();
        assert_eq!((parts.source.0, parts.destination.1, parts.both_ways), ("[1.2.3.4, 5.6.7.8]", "[80, 81]", true));
        let list = options(parts.options).unwrap();
        assert_eq!(list, [("msg", r#""a\;(b)""#), ("content", r#""x|3b|""#), ("nocase", "")]);
        assert_eq!(unquote(list[0].1), "a;(b)");
        for bad in
            ["alert tcp any any -> any any", "alert tcp any -> any any (sid:1;)", "alert tcp a b <- c d (sid:1;)"]
        {
            assert!(split(bad).is_err(), "{bad}");
        }
        assert!(options("sid:1; rev:2").is_err());
    }
}
