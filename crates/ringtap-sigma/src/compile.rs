//! Owns: rules into an automaton: which rule means which, in what order, what each has to hand to those above it.
//! Does not: read YAML. A rule that rests on one that is not used is not used either, and says so.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::automaton::{Automaton, Base, Detection, Feed, Input, Logsource, Rule, codec, version};
use crate::bytes::Writer;
use crate::limits::{Limits, MAX_CHAIN, MAX_RULES, MAX_SLOTS};
use crate::rules::correlation::Correlation;
use crate::rules::{Fault, Fields, Placed, Rejected, RuleSet};

pub(crate) fn compile(mut set: RuleSet, limits: Limits) -> (Automaton, Vec<Rejected>) {
    let names = Names::of(&mut set);
    let mut refused: BTreeMap<usize, Fault> = BTreeMap::new();
    let automaton = loop {
        let order = order(&set, &names, &mut refused, limits);
        match build(&set, &names, &order, limits) {
            Ok(automaton) => break automaton,
            Err((index, fault)) => {
                refused.insert(index, fault);
            }
        }
    };
    for (index, fault) in refused {
        let placed = &set.correlations[index];
        let (file, label) = (placed.file.clone(), placed.head.label().to_owned());
        set.reject(&file, label, fault);
    }
    let mut rejected = set.rejected;
    rejected.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    (automaton, rejected)
}

/// What the names and ids of rules mean.
struct Names(BTreeMap<String, Named>);

/// A detection or a correlation by its place in the rule set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Detection(usize),
    Correlation(usize),
}

impl Names {
    /// Rules with a name or id that is taken are left out of the set.
    fn of(set: &mut RuleSet) -> Self {
        let mut names = BTreeMap::new();
        let mut rejected = Vec::new();
        let mut kept = 0;
        set.detections.retain(|placed| Self::keep(&mut names, &mut rejected, &mut kept, placed, Named::Detection));
        kept = 0;
        set.correlations.retain(|placed| Self::keep(&mut names, &mut rejected, &mut kept, placed, Named::Correlation));
        set.rejected.append(&mut rejected);
        Self(names)
    }

    fn keep<T>(
        names: &mut BTreeMap<String, Named>,
        rejected: &mut Vec<Rejected>,
        kept: &mut usize,
        placed: &Placed<T>,
        named: fn(usize) -> Named,
    ) -> bool {
        let own: BTreeSet<_> =
            [&placed.head.id, &placed.head.name].into_iter().filter(|name| !name.is_empty()).collect();
        let fault = match own.iter().find(|name| names.contains_key(**name)) {
            Some(name) => format!("another rule is called {name:?}"),
            None if *kept >= MAX_RULES => format!("there are more than {MAX_RULES} rules"),
            None => {
                names.extend(own.into_iter().map(|name| (name.clone(), named(*kept))));
                *kept += 1;
                return true;
            }
        };
        let (file, line, rule) = (placed.file.clone(), placed.line, placed.head.label().to_owned());
        rejected.push(Rejected { file, line, rule, reason: Fault::broken(line, "", fault).reason });
        false
    }

    fn find(&self, name: &str) -> Option<Named> {
        self.0.get(name).copied()
    }
}

/// Usable correlations, each after those it rests on, with their levels; the others go to `refused`.
fn order(set: &RuleSet, names: &Names, refused: &mut BTreeMap<usize, Fault>, limits: Limits) -> Vec<(usize, u8)> {
    let mut waits: Vec<BTreeSet<usize>> = Vec::new();
    let mut above: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, placed) in set.correlations.iter().enumerate() {
        let bases = placed.rule.rules.iter().filter_map(|name| match names.find(name) {
            Some(Named::Correlation(base)) => Some(base),
            _ => None,
        });
        waits.push(bases.collect());
        for base in &waits[index] {
            above.entry(*base).or_default().push(index);
        }
    }
    let mut ready: BTreeSet<usize> = (0..waits.len()).filter(|index| waits[*index].is_empty()).collect();
    let mut levels: BTreeMap<usize, u8> = BTreeMap::new();
    let (mut done, mut order) = (BTreeSet::new(), Vec::new());
    while let Some(index) = ready.pop_first() {
        done.insert(index);
        if !refused.contains_key(&index) {
            match judge(set, names, index, refused, &levels, limits) {
                Ok(level) => {
                    levels.insert(index, level);
                    order.push((index, level));
                }
                Err(fault) => {
                    refused.insert(index, fault);
                }
            }
        }
        for next in above.get(&index).into_iter().flatten() {
            waits[*next].remove(&index);
            if waits[*next].is_empty() {
                ready.insert(*next);
            }
        }
    }
    for (index, placed) in set.correlations.iter().enumerate().filter(|(index, _)| !done.contains(index)) {
        refused
            .entry(index)
            .or_insert_with(|| Fault::broken(placed.rule.line, "rules", "the rules rest on each other"));
    }
    order
}

/// The level of a correlation whose bases were judged.
fn judge(
    set: &RuleSet,
    names: &Names,
    index: usize,
    refused: &BTreeMap<usize, Fault>,
    levels: &BTreeMap<usize, u8>,
    limits: Limits,
) -> Result<u8, Fault> {
    let rule = &set.correlations[index].rule;
    let fault = |option: &str, detail: String| Err(Fault::broken(rule.line, option, detail));
    let (mut level, mut seen) = (0, Vec::new());
    for name in &rule.rules {
        let Some(named) = names.find(name) else {
            return fault("rules", format!("there is no usable rule {name:?}"));
        };
        if seen.contains(&named) {
            return fault("rules", format!("{name:?} is there a second time"));
        }
        seen.push(named);
        if let Named::Correlation(base) = named {
            if refused.contains_key(&base) {
                return fault("rules", format!("rests on {name:?}, which is not used"));
            }
            level = level.max(levels.get(&base).map_or(0, |level| level + 1));
        }
    }
    if usize::from(level) >= MAX_CHAIN {
        return fault("rules", format!("more than {MAX_CHAIN} correlations above each other"));
    }
    for alias in &rule.aliases {
        let used = rule.group_by.contains(&alias.name) || rule.value.contains(&alias.name);
        for name in &rule.rules {
            if used && alias_of(rule, &alias.name, names, name).is_none() {
                return fault("aliases", format!("{:?} has no field for the rule {name:?}", alias.name));
            }
        }
        if let Some((name, _)) =
            alias.of.iter().find(|(name, _)| names.find(name).is_none_or(|named| !seen.contains(&named)))
        {
            return fault("aliases", format!("{name:?} is none of 'rules'"));
        }
    }
    let shell = shell(set, names, index, level, limits);
    if shell.window_bytes() > u64::from(limits.window_bytes) {
        let detail = format!("one key could need {} bytes, {} are allowed", shell.window_bytes(), limits.window_bytes);
        return fault("condition", detail);
    }
    Ok(level)
}

/// The field that an alias means for one of the rules.
fn alias_of<'a>(rule: &'a Correlation, alias: &str, names: &Names, base: &str) -> Option<&'a str> {
    let named = names.find(base)?;
    let alias = rule.aliases.iter().find(|known| known.name == alias)?;
    alias.of.iter().find(|(name, _)| names.find(name) == Some(named)).map(|(_, field)| field.as_str())
}

/// A rule without what depends on its place in the automaton.
fn shell(set: &RuleSet, names: &Names, index: usize, level: u8, limits: Limits) -> Rule {
    let Placed { head, rule, .. } = &set.correlations[index];
    let input = |(name, place): (&String, &u8)| Input {
        base: match names.find(name) {
            Some(Named::Correlation(_)) => Base::Rule(0),
            _ => Base::Detection(0),
        },
        place: *place,
        key: Vec::new(),
        value: Vec::new(),
        slots: Vec::new(),
    };
    Rule {
        number: 0,
        head: head.clone(),
        version: [0; 16],
        announces: true,
        level,
        timespan_ns: rule.timespan_ns,
        reach_ns: rule.timespan_ns,
        monotone: true,
        group_by: rule.group_by.clone(),
        shape: rule.shape.clone(),
        places: rule.places.iter().max().map_or(1, |place| place + 1),
        inputs: rule.rules.iter().zip(&rule.places).map(input).collect(),
        slots: Vec::new(),
        feeds: Vec::new(),
        limits,
    }
}

fn build(set: &RuleSet, names: &Names, order: &[(usize, u8)], limits: Limits) -> Result<Automaton, (usize, Fault)> {
    let mut fields = set.fields.clone();
    let mut rules: Vec<Rule> = order.iter().map(|(index, level)| shell(set, names, *index, *level, limits)).collect();
    let numbers: BTreeMap<usize, u16> = order.iter().map(|(index, _)| *index).zip(0u16..).collect();
    // From the top down: what a rule must hand up is known when those above it are done.
    for number in (0..rules.len()).rev() {
        let (index, _) = order[number];
        rules[number].number = number as u16;
        let sources = Sources { set, names, index, numbers: &numbers };
        sources.resolve(number, &mut rules, &mut fields).map_err(|fault| (index, fault))?;
    }
    let logsources: BTreeSet<Logsource> = set.detections.iter().map(|placed| placed.rule.logsource.clone()).collect();
    let logsources: Vec<_> = logsources.into_iter().collect();
    let mut detections: Vec<Detection> = set
        .detections
        .iter()
        .map(|placed| Detection {
            head: placed.head.clone(),
            announces: false,
            logsource: logsources.binary_search(&placed.rule.logsource).unwrap_or(0) as u16,
            version: [0; 16],
            selections: placed.rule.selections.clone(),
            condition: placed.rule.condition.clone(),
            feeds: Vec::new(),
        })
        .collect();
    link(set, order, &mut detections, &mut rules);
    versions(&logsources, fields.names(), &mut detections, &mut rules);
    Ok(Automaton { limits, fields: fields.into_names(), logsources, detections, rules })
}

/// Where one rule's keys, values and slots come from.
struct Sources<'a> {
    set: &'a RuleSet,
    names: &'a Names,
    index: usize,
    numbers: &'a BTreeMap<usize, u16>,
}

impl Sources<'_> {
    fn resolve(&self, number: usize, rules: &mut [Rule], fields: &mut Fields) -> Result<(), Fault> {
        let rule = &self.set.correlations[self.index].rule;
        let (below, from) = rules.split_at_mut(number);
        let this = &mut from[0];
        let slots = this.slots.clone();
        for (input, name) in this.inputs.iter_mut().zip(&rule.rules) {
            let base = match self.names.find(name) {
                Some(Named::Correlation(base)) => Base::Rule(self.numbers[&base]),
                Some(Named::Detection(base)) => Base::Detection(base as u16),
                None => return Err(Fault::broken(rule.line, "rules", format!("there is no usable rule {name:?}"))),
            };
            input.base = base;
            let mut source = |wanted: &String| {
                let field = alias_of(rule, wanted, self.names, name).unwrap_or(wanted);
                match base {
                    Base::Detection(_) => fields.number(field).ok_or_else(|| {
                        Fault::broken(rule.line, "group-by", "the rules look at too many different fields")
                    }),
                    Base::Rule(base) => slot(&mut below[usize::from(base)].slots, field).ok_or_else(|| {
                        let detail = format!("the rules above {name:?} need more than {MAX_SLOTS} fields of it");
                        Fault::broken(rule.line, "group-by", detail)
                    }),
                }
            };
            input.key = rule.group_by.iter().map(&mut source).collect::<Result<_, _>>()?;
            input.value = rule.value.iter().map(&mut source).collect::<Result<_, _>>()?;
            input.slots = slots.iter().map(&mut source).collect::<Result<_, _>>()?;
        }
        Ok(())
    }
}

/// The number of a name among what a rule hands up; each rule above asks for a few, so there are few.
fn slot(slots: &mut Vec<String>, name: &str) -> Option<u16> {
    if let Some(at) = slots.iter().position(|slot| slot == name) {
        return Some(at as u16);
    }
    let free = slots.len() < MAX_SLOTS;
    if free {
        slots.push(name.to_owned());
    }
    free.then(|| slots.len() as u16 - 1)
}

/// Who feeds whom, who is told by itself, how far back each looks.
fn link(set: &RuleSet, order: &[(usize, u8)], detections: &mut [Detection], rules: &mut [Rule]) {
    let mut generated = BTreeSet::new();
    for number in 0..rules.len() {
        let inputs: Vec<_> = rules[number].inputs.iter().map(|input| input.base).collect();
        let (mut below, mut monotone) = (0, !rules[number].is_bounded());
        for (input, base) in (0u8..).zip(inputs) {
            let feed = Feed { rule: number as u16, input };
            if set.correlations[order[number].0].rule.generate {
                generated.insert(base);
            }
            match base {
                Base::Detection(base) => detections[usize::from(base)].feeds.push(feed),
                Base::Rule(base) => {
                    let base = &mut rules[usize::from(base)];
                    base.feeds.push(feed);
                    below = below.max(base.reach_ns);
                    monotone &= base.monotone;
                }
            }
        }
        rules[number].reach_ns = rules[number].timespan_ns.saturating_add(below);
        rules[number].monotone = monotone;
    }
    for (number, detection) in (0u16..).zip(detections) {
        detection.announces = detection.feeds.is_empty() || generated.contains(&Base::Detection(number));
    }
    for (number, rule) in (0u16..).zip(rules) {
        rule.announces = rule.feeds.is_empty() || generated.contains(&Base::Rule(number));
    }
}

fn versions(logsources: &[Logsource], fields: &[String], detections: &mut [Detection], rules: &mut [Rule]) {
    for detection in detections.iter_mut() {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        let logsource = &logsources[usize::from(detection.logsource)];
        let parts = [detection.head.label(), &logsource.category, &logsource.product, &logsource.service];
        parts.into_iter().for_each(|part| w.text(part));
        let mut name = |w: &mut Writer<'_>, field: u16| w.text(&fields[usize::from(field)]);
        codec::meaning(&mut w, &detection.selections, &detection.condition, &mut name);
        detection.version = version(&bytes);
    }
    for number in 0..rules.len() {
        let (below, from) = rules.split_at_mut(number);
        let rule = &mut from[0];
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        w.text(rule.head.label());
        codec::shape(&mut w, &rule.shape);
        w.i64(rule.timespan_ns);
        w.list(&rule.group_by, |w, name| w.text(name));
        w.list(&rule.inputs, |w, input| {
            let (version, names) = match input.base {
                Base::Detection(base) => (detections[usize::from(base)].version, fields),
                Base::Rule(base) => (below[usize::from(base)].version, below[usize::from(base)].slots.as_slice()),
            };
            w.raw(&version);
            w.u8(input.place);
            for sources in [&input.key, &input.value] {
                w.list(sources, |w, source| w.text(&names[usize::from(*source)]));
            }
        });
        rule.version = version(&bytes);
    }
}
