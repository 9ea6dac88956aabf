//! Owns: options that ask whether something is in a list: `dataset`, `iprep`.
//! Does not: read lists (`rules/lists.rs`).

use super::{Builder, Fault};
use crate::rules::lists::{Ask, Kind};
use crate::rules::numbers::compare;
use crate::rules::rule::{Buffer, Compare, HeaderTest, Membership, Reputed, Test};

impl Builder<'_, '_> {
    /// Whether this was such an option.
    pub(super) fn lists(&mut self, name: &str, value: &str) -> Result<bool, Fault> {
        match name {
            "dataset" => self.dataset(value)?,
            "iprep" => self.iprep(value)?,
            "ip.src" => self.buffer = Buffer::Source,
            "ip.dst" => self.buffer = Buffer::Destination,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `COMMAND,NAME[,type TYPE][,load FILE][,save FILE][,hashsize NUMBER]`
    fn dataset(&mut self, value: &str) -> Result<(), Fault> {
        let mut words = value.split(',').map(str::trim);
        let how = match words.next() {
            Some("isset") => Membership::IsSet,
            Some("isnotset") => Membership::IsNotSet,
            Some("set") => Membership::Set,
            Some("unset") => Membership::Unset,
            _ => return Err("needs isset, isnotset, set or unset, and a name".into()),
        };
        let name = words.next().filter(|name| !name.is_empty()).ok_or("needs a name")?;
        let (mut kind, mut file, mut room, mut is_saved) = (None, None, None, false);
        for (key, value) in words.map(|word| word.split_once(' ').unwrap_or((word, ""))) {
            match (key, value.trim()) {
                ("type", name) => {
                    kind = Some(Kind::named(name).ok_or_else(|| Fault::Form(format!("type {name}")))?);
                }
                ("load", name) => file = Some(name),
                ("hashsize", number) => {
                    room = Some(number.parse().map_err(|_| Fault::Bad(format!("'{number}' is no number")))?);
                }
                // What a list may take is bounded anyway.
                ("memcap", _) => {}
                ("save", _) => is_saved = true,
                ("state", _) => return Err(Fault::Form(key.to_owned())),
                _ => return Err(Fault::Bad(format!("'{key}' is not known"))),
            }
        }
        let meta = &self.rule.meta;
        let ask = Ask { name, kind, file, writes: how.writes(), room, rules: &meta.file };
        let list = self.context.lists.dataset(&ask, &mut self.context.bits.sets).map_err(Fault::Bad)?;
        if is_saved {
            let note = format!(
                "{}:{}: dataset {name} is not saved: it lasts as long as the sensor runs",
                meta.file, meta.line
            );
            self.context.lists.note_unsaved(note);
        }
        self.test(Test::In { list, how })
    }

    /// `any|src|dst|both,CATEGORY,OPERATOR,SCORE`, or `isset`, `isnotset`.
    fn iprep(&mut self, value: &str) -> Result<(), Fault> {
        let words: Vec<&str> = value.split(',').map(str::trim).collect();
        let (side, category, scores) = match words[..] {
            [side, category, "isset"] => (side, category, Some(Compare { low: 0, high: 127, negated: false })),
            [side, category, "isnotset"] => (side, category, None),
            [side, category, operator @ (">" | "<" | "=" | ">=" | "<="), score] => {
                (side, category, Some(compare(&format!("{}{score}", operator.trim_start_matches('=')), 127)?))
            }
            _ => return Err("needs any, src, dst or both, a category, and a comparison or isset, isnotset".into()),
        };
        let whose = match side {
            "any" => Reputed::Any,
            "src" => Reputed::Source,
            "dst" => Reputed::Destination,
            "both" => Reputed::Both,
            other => return Err(Fault::Bad(format!("'{other}' is none of any, src, dst, both"))),
        };
        let list = self.context.lists.reputation(category).map_err(Fault::Bad)?;
        self.rule.headers.push(HeaderTest::Reputation { whose, list, scores });
        Ok(())
    }
}
