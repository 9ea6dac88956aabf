//! Owns: options about bytes: contents and where they lie, expressions, numbers, lengths.
//! Does not: say which bytes; that is the keyword's before them.

use super::{Builder, Fault, MAX_TESTS};
use crate::rules::numbers::{RuleVariables, compare, number};
use crate::rules::rule::{AppBuffer, Buffer, Content, Expression, Test, Value};

/// Characters of Base64 that one test decodes.
const MAX_BASE64: u32 = 64 << 10;

impl Builder<'_, '_> {
    /// Whether this was such an option.
    pub(super) fn bytes(&mut self, name: &str, value: &str) -> Result<bool, Fault> {
        let test = match name {
            "content" => Test::Content(content(value)?),
            "pcre" => {
                let (expression, flag) = expression(value)?;
                let buffer = flag.map_or(self.buffer, Buffer::App);
                self.test_in(buffer, Test::Expression(expression))?;
                return Ok(true);
            }
            "uricontent" => {
                let uri = AppBuffer::behind_content("http_uri").ok_or("there is no such buffer")?;
                self.test_in(Buffer::App(uri), Test::Content(content(value)?))?;
                return Ok(true);
            }
            "urilen" => {
                self.target_len(value)?;
                return Ok(true);
            }
            "base64_decode" => base64_decode(value)?,
            "isdataat" => data_at(value, &self.variables)?,
            "byte_test" => self.variables.byte_test(value).map_err(unsupported_flag)?,
            "byte_jump" => self.variables.byte_jump(value).map_err(unsupported_flag)?,
            "byte_extract" => self.variables.byte_extract(value).map_err(unsupported_flag)?,
            "byte_math" => self.variables.byte_math(value).map_err(unsupported_flag)?,
            "bsize" => Test::Size(compare(value, u64::from(u32::MAX))?),
            _ => return self.of_content(name, value),
        };
        self.test(test)?;
        Ok(true)
    }

    /// A test of the buffer at hand.
    pub(super) fn test(&mut self, test: Test) -> Result<(), Fault> {
        // Relative to what is before it, which an older form may have moved to another buffer.
        let buffer = if self.buffer == Buffer::Payload && is_relative(&test) { self.last } else { self.buffer };
        self.test_in(buffer, test)
    }

    /// `urilen:SIZE[,norm|raw]`
    fn target_len(&mut self, value: &str) -> Result<(), Fault> {
        let (size, form) = value.rsplit_once(',').map_or((value, "norm"), |(size, form)| (size, form.trim()));
        let is_raw = form == "raw";
        if !is_raw && form != "norm" {
            return Err(Fault::Bad(format!("'{form}' is neither norm nor raw")));
        }
        let keyword = if is_raw { "http_raw_uri" } else { "http_uri" };
        let buffer = AppBuffer::behind_content(keyword).ok_or("there is no such buffer")?;
        let (test, last) = (Test::Size(compare(size, u64::from(u32::MAX))?), self.last);
        self.test_in(Buffer::App(buffer), test)?;
        self.last = last;
        Ok(())
    }

    /// The last content is in this buffer.
    fn move_content(&mut self, to: AppBuffer) -> Result<(), Fault> {
        self.last_content()?;
        let from = self.last_content;
        let tests = self.rule.buffers.iter_mut().find(|(buffer, _)| *buffer == from).map(|(_, tests)| tests);
        let taken = tests.and_then(|tests| {
            let at = tests.iter().rposition(|test| matches!(test, Test::Content(_)))?;
            Some(tests.remove(at))
        });
        taken.map_or(Ok(()), |test| self.test_in(Buffer::App(to), test))
    }

    /// Options about the content before them.
    fn of_content(&mut self, name: &str, value: &str) -> Result<bool, Fault> {
        match name {
            "rawbytes" => self.last_content().map(|_| ())?,
            "nocase" => self.last_content()?.nocase = true,
            "fast_pattern" => self.fast_pattern(value)?,
            "startswith" => {
                let content = self.last_content()?;
                if content.offset.is_some() || content.depth.is_some() || content.is_relative() {
                    return Err("goes with no other position".into());
                }
                content.offset = Some(Value::Number(0));
                content.depth = Some(Value::Number(content.bytes.len() as i64));
            }
            "endswith" => self.last_content()?.at_end = true,
            "offset" | "depth" | "distance" | "within" => self.position(name, value)?,
            _ => match AppBuffer::behind_content(name) {
                Some(buffer) => self.move_content(buffer)?,
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn test_in(&mut self, buffer: Buffer, test: Test) -> Result<(), Fault> {
        if self.rule.buffers.iter().map(|(_, tests)| tests.len()).sum::<usize>() == MAX_TESTS {
            return Err("too many tests".into());
        }
        self.last = buffer;
        if matches!(test, Test::Content(_)) {
            self.last_content = buffer;
        }
        match self.rule.buffers.iter_mut().find(|(of, _)| *of == buffer) {
            Some((_, tests)) => tests.push(test),
            None => self.rule.buffers.push((buffer, vec![test])),
        }
        Ok(())
    }

    fn last_content(&mut self) -> Result<&mut Content, Fault> {
        let tests =
            self.rule.buffers.iter_mut().find(|(buffer, _)| *buffer == self.last_content).map(|(_, tests)| tests);
        let contents = tests.into_iter().flatten().rev().filter_map(|test| match test {
            Test::Content(content) => Some(content),
            _ => None,
        });
        { contents }.next().ok_or_else(|| "there is no content before it".into())
    }

    fn position(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let value = self.variables.value(value)?;
        let content = self.last_content()?;
        let len = content.bytes.len() as i64;
        if let Value::Number(number) = value {
            if matches!(name, "offset" | "depth" | "within") && number < 0 {
                return Err("may not be below 0".into());
            }
            if matches!(name, "depth" | "within") && number < len {
                return Err(Fault::Bad(format!("{number} leaves no room for {len} bytes")));
            }
            if number.abs() > 1 << 20 {
                return Err(Fault::Bad(format!("{number} is out of bounds")));
            }
        }
        let place = match name {
            "offset" => &mut content.offset,
            "depth" => &mut content.depth,
            "distance" => &mut content.distance,
            _ => &mut content.within,
        };
        if place.replace(value).is_some() {
            return Err("given twice".into());
        }
        Ok(())
    }

    fn fast_pattern(&mut self, value: &str) -> Result<(), Fault> {
        let content = self.last_content()?;
        content.fast = true;
        if !value.is_empty() && value != "only" {
            let (offset, len) = value.split_once(',').ok_or("needs offset,length")?;
            let (offset, len) =
                (number(offset).ok_or("bad offset")? as usize, number(len).ok_or("bad length")? as usize);
            if len == 0 || offset.checked_add(len).is_none_or(|end| end > content.bytes.len()) {
                return Err("reaches past the content".into());
            }
            content.chop = Some((offset, len));
        }
        Ok(())
    }
}

/// `[!]"text|hex|"`
fn content(value: &str) -> Result<Content, Fault> {
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value),
    };
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).ok_or("is not in quotes")?;
    let mut bytes = Vec::with_capacity(inner.len());
    let (mut in_hex, mut high) = (false, None);
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii() {
            return Err("has a letter that is not ASCII: write its bytes as |hex|".into());
        }
        match letter {
            '|' => {
                if high.is_some() {
                    return Err("half a byte of hex".into());
                }
                in_hex = !in_hex;
            }
            letter if in_hex => match (letter.to_digit(16), high) {
                (Some(digit), None) => high = Some(digit as u8),
                (Some(digit), Some(first)) => {
                    bytes.push(first << 4 | digit as u8);
                    high = None;
                }
                (None, None) if letter.is_whitespace() => {}
                _ => return Err(Fault::Bad(format!("'{letter}' in hex"))),
            },
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | '"' | ';' | ':')) => bytes.push(escaped as u8),
                Some(other) => return Err(Fault::Bad(format!("'\\{other}' is no escape"))),
                None => return Err("ends with a backslash".into()),
            },
            '"' => return Err("has a quote inside: write \\\"".into()),
            letter => bytes.push(letter as u8),
        }
    }
    if in_hex {
        return Err("hex is not closed".into());
    }
    if bytes.is_empty() {
        return Err("is empty".into());
    }
    if bytes.len() > 1024 {
        return Err("is longer than 1,024 bytes".into());
    }
    Ok(Content { negated, ..Content::of(bytes) })
}

/// Whether a test counts from the end of the one before it.
fn is_relative(test: &Test) -> bool {
    match test {
        Test::DataAt { relative, .. } | Test::Base64 { relative, .. } => *relative,
        Test::ByteTest { number, .. }
        | Test::ByteJump { number, .. }
        | Test::ByteExtract { number, .. }
        | Test::ByteMath { number, .. } => number.relative,
        _ => false,
    }
}

/// `pcre:"[!]/pattern/flags"`, and the buffer that one of the flags names.
pub(super) fn expression(value: &str) -> Result<(Expression, Option<AppBuffer>), Fault> {
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value),
    };
    // Quotes may be left out.
    let inner = value.strip_prefix('"').unwrap_or(value);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let (negated, inner) = inner.strip_prefix('!').map_or((negated, inner), |inner| (true, inner));
    let open =
        inner.strip_prefix('/').or_else(|| inner.strip_prefix('m')?.strip_prefix('/')).ok_or("needs /pattern/")?;
    let close = open.rfind('/').ok_or("needs /pattern/")?;
    let (pattern, letters) = (&open[..close], &open[close + 1..]);
    let (mut flags, mut relative, mut buffer) = (String::new(), false, None);
    for letter in letters.chars() {
        match letter {
            'i' | 'm' | 's' | 'x' | 'A' | 'E' | 'G' => flags.push(letter),
            'R' => relative = true,
            'B' => {}
            // Without effect on what matches: the sensor's own limits hold.
            'O' => {}
            other => match AppBuffer::of_flag(other) {
                Some(named) => buffer = Some(named),
                None => return Err(Fault::Form(format!("flag {other}"))),
            },
        }
    }
    if pattern.is_empty() {
        return Err("the expression is empty".into());
    }
    // `;` and `"` are escaped for the rule language, which an expression takes as the same letters.
    Ok((Expression { pattern: pattern.as_bytes().to_vec(), flags, negated, relative }, buffer))
}

fn data_at(value: &str, variables: &RuleVariables) -> Result<Test, Fault> {
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut words = value.split(',').map(str::trim);
    let bytes = variables.value(words.next().unwrap_or_default())?;
    let mut relative = false;
    for word in words {
        match word {
            "relative" => relative = true,
            "rawbytes" => {}
            other => return Err(Fault::Bad(format!("'{other}' is not known"))),
        }
    }
    if matches!(bytes, Value::Number(number) if !(0..=65535).contains(&number)) {
        return Err("needs a number from 0 to 65535".into());
    }
    Ok(Test::DataAt { bytes, relative, negated })
}

/// `[bytes N][, offset N][, relative]`
fn base64_decode(value: &str) -> Result<Test, Fault> {
    let (mut bytes, mut offset, mut relative) = (MAX_BASE64, 0, false);
    for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (name, number_of) = word.split_once(char::is_whitespace).unwrap_or((word, ""));
        let number = || number(number_of).and_then(|number| u32::try_from(number).ok());
        match name {
            "bytes" => {
                bytes = number().filter(|&bytes| bytes > 0).ok_or("bytes needs a number above 0")?.min(MAX_BASE64);
            }
            "offset" => offset = number().ok_or("offset needs a number")?,
            "relative" if number_of.is_empty() => relative = true,
            other => return Err(Fault::Bad(format!("'{other}' is not known"))),
        }
    }
    Ok(Test::Base64 { bytes, offset, relative })
}

/// `…is not supported` is about a form, everything else about a mistake.
fn unsupported_flag(detail: String) -> Fault {
    if detail.ends_with("is not supported") { Fault::Form(detail) } else { Fault::Bad(detail) }
}
