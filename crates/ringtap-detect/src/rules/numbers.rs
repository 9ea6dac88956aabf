//! Owns: the numeric words of the rule language: comparisons, `byte_…` arguments, variables of one rule.
//! Does not: know which option they belong to.

use super::rule::{Arithmetic, Compare, JumpFrom, Number, Operator, Test, Value};

/// Variables one rule may have.
pub(crate) const MAX_VARIABLES: usize = 8;

/// `N`, `<N`, `>N`, `<=N`, `>=N`, `!N`, `=N`, `A<>B` (both excluded) and `A-B` (both included).
pub(crate) fn compare(text: &str, max: u64) -> Result<Compare, String> {
    let text = text.trim();
    let bad = || format!("'{text}' is no comparison with a number up to {max}");
    let number = |text: &str| number(text).filter(|&number| number <= max).ok_or_else(bad);
    let of = |low, high, negated| Ok(Compare { low, high, negated });
    let empty = Compare { low: 0, high: max, negated: true };
    if let Some((low, high)) = text.split_once("<>").or_else(|| text.split_once('-')) {
        let (low, high) = (number(low)?, number(high)?);
        if low >= high {
            return Err(format!("'{text}' holds no number"));
        }
        return match text.contains("<>") {
            true if high - low < 2 => Err(format!("'{text}' holds no number")),
            true => of(low + 1, high - 1, false),
            false => of(low, high, false),
        };
    }
    if let Some(rest) = text.strip_prefix("<=") {
        return of(0, number(rest)?, false);
    }
    if let Some(rest) = text.strip_prefix(">=") {
        return of(number(rest)?, max, false);
    }
    if let Some(rest) = text.strip_prefix('<') {
        return Ok(number(rest)?.checked_sub(1).map_or(empty, |high| Compare { low: 0, high, negated: false }));
    }
    if let Some(rest) = text.strip_prefix('>') {
        let low = number(rest)?;
        return Ok(if low == max { empty } else { Compare { low: low + 1, high: max, negated: false } });
    }
    if let Some(rest) = text.strip_prefix('!') {
        let value = number(rest)?;
        return of(value, value, true);
    }
    let value = number(text.strip_prefix('=').unwrap_or(text))?;
    of(value, value, false)
}

/// A decimal or `0x` number.
pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// RuleVariables of the variables that `byte_extract` and `byte_math` set, in one rule.
#[derive(Default)]
pub(crate) struct RuleVariables(Vec<String>);

impl RuleVariables {
    /// A number (perhaps below 0), or a variable that was set before.
    pub(crate) fn value(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        if let Some(index) = self.0.iter().position(|name| name == text) {
            return Ok(Value::Variable(index as u8));
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let number = number(digits)
            .and_then(|number| i64::try_from(number).ok())
            .filter(|&number| number <= i64::from(u32::MAX))
            .ok_or_else(|| format!("'{text}' is neither a number nor a variable set before"))?;
        Ok(Value::Number(if negative { -number } else { number }))
    }

    fn define(&mut self, name: &str) -> Result<u8, String> {
        let name = name.trim();
        if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
            return Err(format!("'{name}' is no name of a variable"));
        }
        if let Some(index) = self.0.iter().position(|defined| defined == name) {
            return Ok(index as u8);
        }
        if self.0.len() == MAX_VARIABLES {
            return Err(format!("more than {MAX_VARIABLES} variables"));
        }
        self.0.push(name.to_owned());
        Ok(self.0.len() as u8 - 1)
    }

    /// `byte_test:N,[!]OP,VALUE,OFFSET[,…]`
    pub(crate) fn byte_test(&self, text: &str) -> Result<Test, String> {
        let words = words(text);
        let [bytes, operator, value, offset, flags @ ..] = &words[..] else {
            return Err("needs bytes, operator, value and offset".to_owned());
        };
        let (negated, operator) = match operator.strip_prefix('!') {
            Some("") => (true, "="),
            Some(rest) => (true, rest.trim()),
            None => (false, *operator),
        };
        let operator = match operator {
            "<" => Operator::Less,
            ">" => Operator::Greater,
            "=" | "==" => Operator::Equal,
            "<=" => Operator::AtMost,
            ">=" => Operator::AtLeast,
            "&" => Operator::And,
            "^" => Operator::Xor,
            other => return Err(format!("'{other}' is no operator")),
        };
        let mut number = self.number(bytes, offset, 0)?;
        for flag in flags {
            number_flag(&mut number, flag)?;
        }
        // Digits without a number of them go as far as they go.
        if number.bytes == Value::Number(0) && number.text_base.is_none() {
            return Err("0 bytes make no number".to_owned());
        }
        Ok(Test::ByteTest { number: finished(number)?, operator, negated, value: self.value(value)? })
    }

    /// `byte_jump:N,OFFSET[,…]`
    pub(crate) fn byte_jump(&self, text: &str) -> Result<Test, String> {
        let words = words(text);
        let [bytes, offset, flags @ ..] = &words[..] else {
            return Err("needs bytes and offset".to_owned());
        };
        let mut number = self.number(bytes, offset, 0)?;
        let (mut multiplier, mut align, mut from, mut post) = (1, 1, JumpFrom::Here, Value::Number(0));
        for flag in flags {
            match flag.split_once(' ').map(|(name, value)| (name, value.trim())) {
                Some(("multiplier", value)) => multiplier = positive(value)?,
                Some(("post_offset", value)) => post = self.value(value)?,
                _ => match *flag {
                    "align" => align = 4,
                    "from_beginning" => from = JumpFrom::Start,
                    "from_end" => from = JumpFrom::End,
                    other => number_flag(&mut number, other)?,
                },
            }
        }
        Ok(Test::ByteJump { number: finished(number)?, multiplier, align, from, post })
    }

    /// `byte_extract:N,OFFSET,NAME[,…]`
    pub(crate) fn byte_extract(&mut self, text: &str) -> Result<Test, String> {
        let words = words(text);
        let [bytes, offset, name, flags @ ..] = &words[..] else {
            return Err("needs bytes, offset and a variable's name".to_owned());
        };
        let mut number = self.number(bytes, offset, 1)?;
        let (mut multiplier, mut align) = (1, 1);
        for flag in flags {
            match flag.split_once(' ').map(|(name, value)| (name, value.trim())) {
                Some(("multiplier", value)) => multiplier = positive(value)?,
                Some(("align", value)) => align = positive(value)?,
                _ => number_flag(&mut number, flag)?,
            }
        }
        Ok(Test::ByteExtract { number: finished(number)?, multiplier, align, into: self.define(name)? })
    }

    /// `byte_math:bytes N, offset N, oper OP, rvalue V, result NAME[,…]`
    pub(crate) fn byte_math(&mut self, text: &str) -> Result<Test, String> {
        let (mut bytes, mut offset, mut operator, mut rvalue, mut result) = (None, None, None, None, None);
        let mut flags = Vec::new();
        for word in words(text) {
            match word.split_once(char::is_whitespace).map(|(name, value)| (name, value.trim())) {
                Some(("bytes", value)) => bytes = Some(value),
                Some(("offset", value)) => offset = Some(value),
                Some(("oper", value)) => operator = Some(value),
                Some(("rvalue", value)) => rvalue = Some(value),
                Some(("result", value)) => result = Some(value),
                _ => flags.push(word),
            }
        }
        let (Some(bytes), Some(offset), Some(operator), Some(rvalue), Some(result)) =
            (bytes, offset, operator, rvalue, result)
        else {
            return Err("needs bytes, offset, oper, rvalue and result".to_owned());
        };
        let mut number = self.number(bytes, offset, 1)?;
        for flag in flags {
            number_flag(&mut number, flag)?;
        }
        let operator = match operator {
            "+" => Arithmetic::Add,
            "-" => Arithmetic::Subtract,
            "*" => Arithmetic::Multiply,
            "/" => Arithmetic::Divide,
            "<<" => Arithmetic::ShiftLeft,
            ">>" => Arithmetic::ShiftRight,
            other => return Err(format!("'{other}' is no operator")),
        };
        let value = self.value(rvalue)?;
        if operator == Arithmetic::Divide && value == Value::Number(0) {
            return Err("divides by 0".to_owned());
        }
        Ok(Test::ByteMath { number: finished(number)?, operator, value, into: self.define(result)? })
    }

    fn number(&self, bytes: &str, offset: &str, least: i64) -> Result<Number, String> {
        let bytes = self.value(bytes)?;
        if let Value::Number(count) = bytes
            && !(least..=23).contains(&count)
        {
            return Err(format!("{count} bytes make no number"));
        }
        let offset = self.value(offset)?;
        Ok(Number { bytes, offset, relative: false, little: false, text_base: None, mask: None })
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).collect()
}

fn positive(text: &str) -> Result<i64, String> {
    number(text)
        .filter(|number| (1..=65535).contains(number))
        .map(|number| number as i64)
        .ok_or_else(|| format!("'{text}' is no number from 1 to 65535"))
}

fn number_flag(number: &mut Number, flag: &str) -> Result<(), String> {
    let (name, value) = flag.split_once(' ').map_or((flag, ""), |(name, value)| (name, value.trim()));
    match (name, value) {
        ("relative", "") => number.relative = true,
        ("big", "") | ("endian", "big") => number.little = false,
        ("little", "") | ("endian", "little") => number.little = true,
        ("string", "") => number.text_base = number.text_base.or(Some(10)),
        ("hex", "") | ("string", "hex") => number.text_base = Some(16),
        ("dec", "") | ("string", "dec") => number.text_base = Some(10),
        ("oct", "") | ("string", "oct") => number.text_base = Some(8),
        ("bitmask", mask) => {
            let mask = self::number(mask).or_else(|| u64::from_str_radix(mask, 16).ok());
            let mask = mask.and_then(|mask| u32::try_from(mask).ok()).filter(|&mask| mask != 0);
            number.mask = Some(mask.ok_or_else(|| format!("'{value}' is no bit mask"))?);
        }
        _ => return Err(format!("'{flag}' is not supported")),
    }
    Ok(())
}

/// Binary numbers have at most 8 bytes.
fn finished(number: Number) -> Result<Number, String> {
    match (number.text_base, number.bytes) {
        (None, Value::Number(count)) if count > 8 => Err(format!("{count} bytes are more than a binary number has")),
        _ => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        let fits = |text: &str| (0..=20).filter(|&value| compare(text, 20).unwrap().fits(value)).collect::<Vec<_>>();
        assert_eq!(fits("<3"), [0, 1, 2]);
        assert_eq!(fits(">17"), [18, 19, 20]);
        assert_eq!(fits("8<>12"), [9, 10, 11]);
        assert_eq!(fits("8-10"), [8, 9, 10]);
        assert_eq!(fits("!5").len(), 20);
        assert_eq!(fits(">=20"), [20]);
        assert!(fits(">20").is_empty() && fits("<0").is_empty());
        for bad in ["", "21", "3<>4", "9<>3", "x", "<>"] {
            assert!(compare(bad, 20).is_err(), "{bad}");
        }
    }

    #[test]
    fn byte_options() {
        let mut variables = RuleVariables::default();
        assert!(variables.byte_test("4,>,len,0").is_err(), "not set yet");
        assert!(variables.byte_extract("2,0,len,relative,little,multiplier 4").is_ok());
        assert!(matches!(
            variables.byte_test("4,!&,len,0,relative,bitmask 0xff"),
            Ok(Test::ByteTest { negated: true, .. })
        ));
        assert!(matches!(variables.byte_jump("0,0,relative,post_offset -7"), Ok(Test::ByteJump { .. })));
        assert!(variables.byte_math("bytes 1, offset 0, oper /, rvalue 0, result x").is_err());
        assert!(variables.byte_test("9,=,1,0").is_err());
        assert!(variables.byte_test("10,=,1,0,string,dec").is_ok());
        assert!(variables.byte_test("4,=,1,0,dce").is_err());
    }
}
