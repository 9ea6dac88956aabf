//! Owns: the texts of rules, which records only name.
//! Does not: parse rules.

use std::collections::HashMap;

use ringtap_detect::rules::Classes;
use ringtap_detect::rules::rule::Rule;
use serde::Serialize;

use crate::record::RuleKey;

/// What an alarm says of its rule.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RuleText {
    /// `msg`
    pub signature: String,
    /// Description of its class.
    pub category: String,
    /// `allowed`: the sensor watches, whatever the rule asks for.
    pub action: &'static str,
    /// `metadata`, values by key.
    pub metadata: std::collections::BTreeMap<String, Vec<String>>,
}

/// Texts by rule. Rules that a reload took away stay: their last alarms may still be on the way.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    texts: HashMap<RuleKey, RuleText>,
}

impl Catalogue {
    /// Adds rules.
    pub fn add<'r>(&mut self, rules: impl Iterator<Item = &'r Rule>, classes: &Classes) {
        for rule in rules {
            let meta = &rule.meta;
            let mut metadata = std::collections::BTreeMap::<String, Vec<String>>::new();
            for (key, value) in &meta.metadata {
                metadata.entry(key.clone()).or_default().push(value.clone());
            }
            let category = classes.find(&meta.class).map(|class| class.description.clone()).unwrap_or_default();
            let text = RuleText { signature: meta.message.clone(), category, action: "allowed", metadata };
            self.texts.insert(RuleKey { gid: meta.gid, sid: meta.sid, rev: meta.rev }, text);
        }
    }

    /// The texts of a rule.
    #[must_use]
    pub fn find(&self, rule: RuleKey) -> Option<&RuleText> {
        self.texts.get(&rule)
    }
}
