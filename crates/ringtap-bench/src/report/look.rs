//! Which receivers there are, in which order, and how each is drawn: the same in every plot of a report.
//!
//! Owns groups, colours (as classes of the style sheet), dashes and markers. Receivers' names are free; only what a name
//! begins with is read.

use crate::book::Book;

/// What a receiver is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The product: waits by the latency bound.
    Hybrid,
    /// Ringtap, waiting in another way.
    Wait,
    /// Ringtap on another back end.
    BackEnd,
    /// Ringtap with a strategy taken away.
    Ablation,
    /// Another program.
    Peer,
}

impl Group {
    fn of(receiver: &str) -> Self {
        let first = receiver.split([' ', '+', ',']).next().unwrap_or_default();
        match first {
            "hybrid" => Self::Hybrid,
            "windowed" | "interrupt" | "timer" | "busy" if receiver.contains('+') => Self::Ablation,
            "windowed" | "interrupt" | "timer" | "busy" => Self::Wait,
            "packet" | "socket" => Self::BackEnd,
            // The sensor and the station as they are started.
            ours if ours.starts_with("ringtap") => Self::Hybrid,
            _ => Self::Peer,
        }
    }

    /// Classes of the style sheet, to be taken in turn. Each way to wait has its own: it is the same in every report.
    fn colours(self, receiver: &str) -> &'static [&'static str] {
        match self {
            Self::Hybrid => &["h0", "h1", "h2"],
            Self::Wait if receiver.starts_with("windowed") => &["w0"],
            Self::Wait if receiver.starts_with("interrupt") => &["w1"],
            Self::Wait if receiver.starts_with("timer") => &["w2"],
            Self::Wait => &["w3"],
            Self::BackEnd => &["b0", "b1"],
            Self::Ablation => &["a0", "a1"],
            Self::Peer => &["p0", "p1", "p2"],
        }
    }
}

/// Shape of the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// ●
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
    /// ▼
    Down,
    /// ✕
    Cross,
    /// +
    Plus,
    /// ◀
    Left,
}

impl Mark {
    const ALL: [Self; 8] =
        [Self::Circle, Self::Square, Self::Triangle, Self::Diamond, Self::Down, Self::Cross, Self::Plus, Self::Left];

    /// The one for the `number`th of several.
    pub fn nth(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// Path around the origin.
    pub fn path(self) -> &'static str {
        match self {
            Self::Circle => "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
            Self::Square => "M-2.9 -2.9h5.8v5.8h-5.8z",
            Self::Triangle => "M0 -3.8L3.7 2.8H-3.7z",
            Self::Diamond => "M0 -4L4 0L0 4L-4 0z",
            Self::Down => "M0 3.8L3.7 -2.8H-3.7z",
            Self::Cross => "M-3 -3L3 3M-3 3L3 -3",
            Self::Left => "M-3.8 0L2.8 -3.7V3.7z",
            Self::Plus => "M-3.8 0H3.8M0 -3.8V3.8",
        }
    }
}

/// Lines of one colour in turn: solid, dashed, dotted.
const DASHES: [&str; 3] = ["", "7 3", "2 3"];

/// How one receiver is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// What it is.
    pub group: Group,
    /// Class of the style sheet that sets its colour.
    pub colour: &'static str,
    /// Shape of its marks.
    pub mark: Mark,
    /// `stroke-dasharray` of its line; empty for a solid one.
    pub dash: &'static str,
}

/// All receivers of a book.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    names: Vec<String>,
    looks: Vec<Look>,
}

impl Looks {
    /// Ringtap first, then what it is compared to; within a group in the order of the book.
    pub fn of(book: &Book) -> Self {
        let mut names: Vec<String> = Vec::new();
        let all = book.samples.iter().map(|sample| &sample.receiver);
        let all = all.chain(book.findings.iter().map(|finding| &finding.receiver));
        for name in all.chain(book.fits.iter().map(|fit| &fit.receiver)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names.sort_by_key(|name| Group::of(name));
        let mut looks: Vec<Look> = Vec::new();
        for name in &names {
            let group = Group::of(name);
            let place = looks.iter().filter(|look| look.group == group).count();
            let colours = group.colours(name);
            let colour = colours[place % colours.len()];
            // The first in a colour has a solid line, but of those that are only compared with.
            let before = looks.iter().filter(|look| look.colour == colour).count();
            let dashed = matches!(group, Group::BackEnd | Group::Ablation);
            let dash = DASHES[(before + usize::from(dashed)) % DASHES.len()];
            looks.push(Look { group, colour, mark: Mark::nth(place), dash });
        }
        Self { names, looks }
    }

    /// Names in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How `receiver` is drawn; as a peer when the book does not know it.
    pub fn look(&self, receiver: &str) -> Look {
        let known = self.names.iter().position(|name| name == receiver);
        known.map_or(Look { group: Group::Peer, colour: "p0", mark: Mark::Circle, dash: "" }, |place| self.looks[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_differ() {
        let sample = |receiver: &str| crate::book::Finding {
            study: String::new(),
            receiver: receiver.into(),
            topology: crate::book::Topology::Nic,
            quantity: String::new(),
            value: 0.0,
            values: Vec::new(),
            at_least: false,
            note: String::new(),
        };
        let names =
            ["tcpdump", "timer 1ms", "timer 250us", "hybrid 1ms", "interrupt", "interrupt + copy", "a", "b", "c", "d"];
        let looks = Looks::of(&Book { findings: names.map(sample).into(), ..Book::default() });
        assert_eq!(looks.names()[..2], ["hybrid 1ms", "timer 1ms"], "Ringtap first");
        for (place, name) in names.iter().enumerate() {
            let look = looks.look(name);
            assert!(names[..place].iter().all(|other| looks.look(other) != look), "{name}");
        }
        assert_eq!((looks.look("timer 250us").colour, looks.look("timer 250us").dash), ("w2", "7 3"));
    }

    #[test]
    fn groups_by_name() {
        let of =
            ["hybrid 1ms", "busy", "interrupt", "interrupt + copy", "packet 1ms", "socket", "busybox", "tcpdump", ""]
                .map(Group::of);
        use Group::*;
        assert_eq!(of, [Hybrid, Wait, Wait, Ablation, BackEnd, BackEnd, Peer, Peer, Peer]);
    }
}
