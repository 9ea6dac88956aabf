//! Owns: options that say what an alert tells of its rule, and those without any effect here.
//! Does not: know which classes there are; the caller's [`Classes`](crate::rules::Classes) do.

use super::{Builder, Fault};
use crate::rules::lines::unquote;

impl Builder<'_, '_> {
    /// Whether this was such an option.
    pub(super) fn meta(&mut self, name: &str, value: &str) -> Result<bool, Fault> {
        let rule = &mut self.rule;
        match name {
            "msg" => rule.meta.message = unquote(value),
            "sid" => rule.meta.sid = value.parse().ok().filter(|&sid| sid > 0).ok_or("needs a number above 0")?,
            "gid" => rule.meta.gid = value.parse().map_err(|_| "needs a number".to_owned())?,
            "rev" => rule.meta.rev = value.parse().map_err(|_| "needs a number".to_owned())?,
            "classtype" => {
                rule.meta.class = value.to_owned();
                if let Some(class) = self.context.classes.find(value)
                    && !self.priority_given
                {
                    rule.meta.priority = class.priority;
                }
            }
            "priority" => {
                rule.meta.priority =
                    value.parse().ok().filter(|&priority| priority > 0).ok_or("needs a number from 1 to 255")?;
                self.priority_given = true;
            }
            "reference" => {
                let (kind, id) = value.split_once(',').ok_or("needs kind and identifier")?;
                rule.meta.references.push((kind.trim().to_owned(), unquote(id.trim())));
            }
            "metadata" => {
                for pair in value.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
                    let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
                    rule.meta.metadata.push((key.to_owned(), value.trim().to_owned()));
                }
            }
            "noalert" => rule.silent = true,
            "alert" => rule.silent = false,
            // What these say is of use to other programs, or is our business anyway.
            "target" | "filestore" => {}
            "prefilter" => self.is_prefilter = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
