//! Owns: the texts of rules, which records only name.
//! Does not: parse rules.

use std::collections::HashMap;
use std::sync::Arc;

use ringtap_detect::rules::Classes;
use ringtap_detect::rules::rule::Rule;

use crate::record::RuleKey;

/// What an alert says of its rule.
#[derive(Clone, Debug, Default)]
pub struct RuleText {
    /// `msg`
    pub signature: String,
    /// Description of its class.
    pub category: String,
    /// `allowed`: the sensor watches, whatever the rule asks for.
    pub action: &'static str,
    /// `metadata`: values by key, each key once.
    pub metadata: Vec<(String, Vec<String>)>,
}

/// Texts by rule. Rules that a reload took away stay: their last alerts may still be on the way.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    texts: HashMap<RuleKey, Arc<RuleText>>,
}

impl Catalogue {
    /// Adds rules.
    pub fn add<'r>(&mut self, rules: impl Iterator<Item = &'r Rule>, classes: &Classes) {
        for rule in rules {
            let meta = &rule.meta;
            let mut metadata: Vec<(String, Vec<String>)> = Vec::new();
            for (key, value) in &meta.metadata {
                match metadata.iter_mut().find(|(known, _)| known == key) {
                    Some((_, values)) => values.push(value.clone()),
                    None => metadata.push((key.clone(), vec![value.clone()])),
                }
            }
            metadata.shrink_to_fit();
            let category = classes.find(&meta.class).map(|class| class.description.clone()).unwrap_or_default();
            let text = RuleText { signature: meta.message.clone(), category, action: "allowed", metadata };
            self.texts.insert(RuleKey { gid: meta.gid, sid: meta.sid, rev: meta.rev }, Arc::new(text));
        }
    }

    /// The texts of a rule.
    #[must_use]
    pub fn find(&self, rule: RuleKey) -> Option<&RuleText> {
        self.texts.get(&rule).map(Arc::as_ref)
    }
}
