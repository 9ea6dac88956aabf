//! Owns: the automaton as bytes, and back.
//! Does not: trust them: what is read has to be `sound`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{
    Automaton, Base, Compare, Detection, Expression, Feed, Formula, Hash, How, Input, Kind, Logsource, Range, Regex,
    Rule, Shape, Test,
};
use crate::bytes::{Damaged, Reader, Writer};
use crate::limits::{Limits, MAX_CONDITION_DEPTH, MAX_DEPTH};
use crate::rules::{Head, Level};

/// Version of the bytes that [`Automaton::encode`] writes; others are refused.
pub const FORMAT: u16 = 1;

const MAGIC: [u8; 4] = *b"RTSG";
/// Nesting that any rule within its bounds has.
const MAX_NESTED: usize = MAX_CONDITION_DEPTH * 3 + MAX_DEPTH;

impl Automaton {
    /// The automaton as bytes: the same wherever the same rules were compiled with the same limits.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        w.raw(&MAGIC);
        w.u16(FORMAT);
        limits(&mut w, &self.limits);
        w.list(&self.fields, |w, name| w.text(name));
        w.list(&self.logsources, |w, logsource| {
            [&logsource.category, &logsource.product, &logsource.service].into_iter().for_each(|part| w.text(part));
        });
        w.list(&self.detections, detection);
        w.list(&self.rules, rule);
        let mut hash = Hash::of("ringtap sigma automaton");
        hash.add(&bytes);
        bytes.extend_from_slice(&hash.whole());
        bytes
    }

    /// SHA-256 of all it means; it ends [`encode`](Self::encode)'s bytes.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        let bytes = self.encode();
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(&bytes[bytes.len() - 32..]);
        fingerprint
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Another format, or damaged bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let Some((content, fingerprint)) = bytes.split_last_chunk::<32>() else {
            return Err(Damaged { at: 0, expected: "an automaton" });
        };
        let mut hash = Hash::of("ringtap sigma automaton");
        hash.add(content);
        let mut r = Reader::new(content);
        if r.array()? != MAGIC {
            return Err(Damaged { at: 0, expected: "an automaton" });
        }
        if r.u16()? != FORMAT {
            return Err(Damaged { at: 4, expected: "an automaton of this version's format" });
        }
        if hash.whole() != *fingerprint {
            return Err(Damaged { at: content.len(), expected: "the fingerprint of these bytes" });
        }
        let limits = Limits { window_bytes: r.u32()?, waiting: r.u32()?, members: r.u32()? };
        let fields = r.list(Reader::text)?;
        let logsources = r.list(|r| Ok(Logsource { category: r.text()?, product: r.text()?, service: r.text()? }))?;
        let detections = r.list(read_detection)?;
        let mut number = 0..=u16::MAX;
        let rules = r.list(|r| {
            let number = number.next().ok_or(r.damaged("fewer rules"))?;
            read_rule(r, number, limits)
        })?;
        r.end()?;
        let automaton = Self { limits, fields, logsources, detections, rules };
        if automaton.is_sound() { Ok(automaton) } else { Err(r.damaged("rules that fit each other")) }
    }
}

fn limits(w: &mut Writer<'_>, limits: &Limits) {
    w.u32(limits.window_bytes);
    w.u32(limits.waiting);
    w.u32(limits.members);
}

fn head(w: &mut Writer<'_>, head: &Head) {
    [&head.title, &head.id, &head.name].into_iter().for_each(|text| w.text(text));
    w.u8(head.level as u8);
    w.list(&head.tags, |w, tag| w.text(tag));
}

fn read_head(r: &mut Reader<'_>) -> Result<Head, Damaged> {
    let (title, id, name) = (r.text()?, r.text()?, r.text()?);
    let level = r.u8()?;
    let level = *Level::ALL.get(usize::from(level)).ok_or(r.damaged("a level"))?;
    Ok(Head { title, id, name, level, tags: r.list(Reader::text)? })
}

fn feeds(w: &mut Writer<'_>, feeds: &[Feed]) {
    w.list(feeds, |w, feed| {
        w.u16(feed.rule);
        w.u8(feed.input);
    });
}

fn read_feeds(r: &mut Reader<'_>) -> Result<Vec<Feed>, Damaged> {
    r.list(|r| Ok(Feed { rule: r.u16()?, input: r.u8()? }))
}

fn detection(w: &mut Writer<'_>, detection: &Detection) {
    head(w, &detection.head);
    w.u8(u8::from(detection.announces));
    w.u16(detection.logsource);
    w.raw(&detection.version);
    meaning(w, &detection.selections, &detection.condition, &mut |w, field| w.u16(field));
    feeds(w, &detection.feeds);
}

/// What a detection tests, its fields written by `field`.
pub(crate) fn meaning(
    w: &mut Writer<'_>,
    selections: &[Expression<Test>],
    condition: &Expression<Test>,
    field: &mut dyn FnMut(&mut Writer<'_>, u16),
) {
    w.list(selections, |w, selection| expression(w, selection, field));
    expression(w, condition, field);
}

fn read_detection(r: &mut Reader<'_>) -> Result<Detection, Damaged> {
    Ok(Detection {
        head: read_head(r)?,
        announces: r.bool()?,
        logsource: r.u16()?,
        version: r.array()?,
        selections: r.list(|r| read_expression(r, 0))?,
        condition: read_expression(r, 0)?,
        feeds: read_feeds(r)?,
    })
}

fn expression(w: &mut Writer<'_>, it: &Expression<Test>, field: &mut dyn FnMut(&mut Writer<'_>, u16)) {
    match it {
        Expression::All(list) | Expression::Any(list) => {
            w.u8(u8::from(matches!(it, Expression::Any(_))));
            w.list(list, |w, item| expression(w, item, field));
        }
        Expression::Not(inner) => {
            w.u8(2);
            expression(w, inner, field);
        }
        Expression::Selection(number) => {
            w.u8(3);
            w.u16(*number);
        }
        Expression::Test(test) => {
            w.u8(4);
            w.option(test.field, &mut *field);
            kind(w, &test.kind, field);
        }
    }
}

fn read_expression(r: &mut Reader<'_>, depth: usize) -> Result<Expression<Test>, Damaged> {
    if depth > MAX_NESTED {
        return Err(r.damaged("less nesting"));
    }
    Ok(match r.u8()? {
        0 => Expression::All(r.list(|r| read_expression(r, depth + 1))?),
        1 => Expression::Any(r.list(|r| read_expression(r, depth + 1))?),
        2 => Expression::Not(Box::new(read_expression(r, depth + 1)?)),
        3 => Expression::Selection(r.u16()?),
        4 => Expression::Test(Test { field: r.option(Reader::u16)?, kind: read_kind(r)? }),
        _ => return Err(r.damaged("a kind of expression")),
    })
}

const HOWS: [How; 4] = [How::Equals, How::StartsWith, How::EndsWith, How::Contains];
const COMPARES: [Compare; 4] = [Compare::Less, Compare::LessOrEqual, Compare::Greater, Compare::GreaterOrEqual];

fn kind(w: &mut Writer<'_>, kind: &Kind, field: &mut dyn FnMut(&mut Writer<'_>, u16)) {
    match kind {
        Kind::Exists => w.u8(0),
        Kind::Null => w.u8(1),
        Kind::Text { how, cased, values } => {
            w.raw(&[2, *how as u8, u8::from(*cased)]);
            w.list(values, |w, value| w.text(value));
        }
        Kind::Number { how, value } => {
            w.raw(&[3, *how as u8]);
            w.i64(*value);
        }
        Kind::Expression(regex) => {
            w.u8(4);
            w.text(&regex.pattern);
            let flags = [regex.insensitive, regex.multi_line, regex.dot_all, regex.folded];
            flags.into_iter().for_each(|flag| w.u8(u8::from(flag)));
        }
        Kind::Network { version6, address, prefix } => {
            w.raw(&[5, u8::from(*version6), *prefix]);
            w.raw(address);
        }
        Kind::Field { how, cased, other } => {
            w.raw(&[6, *how as u8, u8::from(*cased)]);
            field(w, *other);
        }
    }
}

fn read_kind(r: &mut Reader<'_>) -> Result<Kind, Damaged> {
    let how = |r: &mut Reader<'_>| {
        let number = r.u8()?;
        HOWS.get(usize::from(number)).copied().ok_or(r.damaged("a comparison"))
    };
    Ok(match r.u8()? {
        0 => Kind::Exists,
        1 => Kind::Null,
        2 => Kind::Text { how: how(r)?, cased: r.bool()?, values: r.list(Reader::text)? },
        3 => {
            let number = r.u8()?;
            let how = *COMPARES.get(usize::from(number)).ok_or(r.damaged("a comparison"))?;
            Kind::Number { how, value: r.i64()? }
        }
        4 => Kind::Expression(Regex {
            pattern: r.text()?,
            insensitive: r.bool()?,
            multi_line: r.bool()?,
            dot_all: r.bool()?,
            folded: r.bool()?,
        }),
        5 => {
            let (version6, prefix) = (r.bool()?, r.u8()?);
            Kind::Network { version6, address: r.array()?, prefix }
        }
        6 => Kind::Field { how: how(r)?, cased: r.bool()?, other: r.u16()? },
        _ => return Err(r.damaged("a kind of test")),
    })
}

fn rule(w: &mut Writer<'_>, rule: &Rule) {
    head(w, &rule.head);
    w.raw(&rule.version);
    w.raw(&[u8::from(rule.announces), rule.level, u8::from(rule.monotone), rule.places]);
    w.i64(rule.timespan_ns);
    w.i64(rule.reach_ns);
    w.list(&rule.group_by, |w, name| w.text(name));
    shape(w, &rule.shape);
    w.list(&rule.inputs, |w, input| {
        match input.base {
            Base::Detection(number) => {
                w.u8(0);
                w.u16(number);
            }
            Base::Rule(number) => {
                w.u8(1);
                w.u16(number);
            }
        }
        w.u8(input.place);
        for sources in [&input.key, &input.value, &input.slots] {
            w.list(sources, |w, source| w.u16(*source));
        }
    });
    w.list(&rule.slots, |w, name| w.text(name));
    feeds(w, &rule.feeds);
}

fn read_rule(r: &mut Reader<'_>, number: u16, limits: Limits) -> Result<Rule, Damaged> {
    let (head, version) = (read_head(r)?, r.array()?);
    let (announces, level, monotone, places) = (r.bool()?, r.u8()?, r.bool()?, r.u8()?);
    let (timespan_ns, reach_ns) = (r.i64()?, r.i64()?);
    let group_by = r.list(Reader::text)?;
    let shape = read_shape(r)?;
    let inputs = r.list(|r| {
        let base = match r.u8()? {
            0 => Base::Detection(r.u16()?),
            1 => Base::Rule(r.u16()?),
            _ => return Err(r.damaged("a kind of input")),
        };
        let place = r.u8()?;
        let mut sources = || r.list(Reader::u16);
        Ok(Input { base, place, key: sources()?, value: sources()?, slots: sources()? })
    })?;
    let (slots, feeds) = (r.list(Reader::text)?, read_feeds(r)?);
    Ok(Rule {
        number,
        head,
        version,
        announces,
        level,
        timespan_ns,
        reach_ns,
        monotone,
        group_by,
        shape,
        places,
        inputs,
        slots,
        feeds,
        limits,
    })
}

pub(crate) fn shape(w: &mut Writer<'_>, shape: &Shape) {
    match shape {
        Shape::Count(range) | Shape::Values(range) => {
            w.u8(u8::from(matches!(shape, Shape::Values(_))));
            w.u32(range.least);
            w.option(range.most, Writer::u32);
        }
        Shape::Together(it) => {
            w.u8(2);
            formula(w, it);
        }
        Shape::Ordered => w.u8(3),
    }
}

fn read_shape(r: &mut Reader<'_>) -> Result<Shape, Damaged> {
    let range = |r: &mut Reader<'_>| Ok(Range { least: r.u32()?, most: r.option(Reader::u32)? });
    Ok(match r.u8()? {
        0 => Shape::Count(range(r)?),
        1 => Shape::Values(range(r)?),
        2 => Shape::Together(read_formula(r, 0)?),
        3 => Shape::Ordered,
        _ => return Err(r.damaged("a kind of correlation")),
    })
}

fn formula(w: &mut Writer<'_>, it: &Formula) {
    match it {
        Formula::All(list) | Formula::Any(list) => {
            w.u8(u8::from(matches!(it, Formula::Any(_))));
            w.list(list, formula);
        }
        Formula::Place(place) => w.raw(&[2, *place]),
        Formula::AtLeast(least) => w.raw(&[3, *least]),
    }
}

fn read_formula(r: &mut Reader<'_>, depth: usize) -> Result<Formula, Damaged> {
    if depth > MAX_NESTED {
        return Err(r.damaged("less nesting"));
    }
    Ok(match r.u8()? {
        0 => Formula::All(r.list(|r| read_formula(r, depth + 1))?),
        1 => Formula::Any(r.list(|r| read_formula(r, depth + 1))?),
        2 => Formula::Place(r.u8()?),
        3 => Formula::AtLeast(r.u8()?),
        _ => return Err(r.damaged("a kind of formula")),
    })
}
