//! What a program says of its devices while it runs: which of them have ended, and whose link is down.
//!
//! Owns the words and what was said already. Does not: look at devices, or know where lines go.

use ringtap::interface::InterfaceState;
use ringtap::receiver::Ended;

/// Interfaces with their states.
pub type States<'a> = [(&'a str, InterfaceState)];

/// Says which devices have ended while `others` go on; the last of all is returned instead, where none does.
pub fn note_ended(
    operation: &'static str,
    mut ended: Vec<Ended>,
    is_finished: bool,
    others: &States<'_>,
    mut note: impl FnMut(&str),
) -> Option<Ended> {
    let last = if is_finished { ended.pop() } else { None };
    let others: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    ended.iter().for_each(|each| note(&each.line(operation, &others)));
    last
}

/// Says when an interface went down or came up again; `down` are those that are.
pub fn note_links(states: &States<'_>, down: &mut Vec<String>, mut note: impl FnMut(&str)) {
    for (name, state) in states {
        let known = down.iter().position(|known| known == name);
        match (state, known) {
            (InterfaceState::Down, None) => {
                down.push((*name).to_owned());
                note(&format!("{name} is down: nothing arrives until it is up again"));
            }
            (InterfaceState::Up, Some(known)) => {
                down.swap_remove(known);
                note(&format!("{name} is up again"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtap::receiver::DeviceEnd;

    use super::*;

    #[test]
    fn each_port_is_told_of_once() {
        let (mut down, mut said) = (Vec::new(), Vec::new());
        let mut look =
            |one, other| note_links(&[("p0", one), ("p1", other)], &mut down, |line| said.push(line.to_owned()));
        for _ in 0..3 {
            look(InterfaceState::Down, InterfaceState::Up);
        }
        look(InterfaceState::Down, InterfaceState::Down);
        look(InterfaceState::Up, InterfaceState::Down);
        let wait = "is down: nothing arrives until it is up again";
        assert_eq!(said, [format!("p0 {wait}"), format!("p1 {wait}"), "p0 is up again".to_owned()]);
    }

    #[test]
    fn the_last_of_all_is_returned_and_others_are_told_of() {
        let ended = |names: &[&str]| {
            let end = |name: &&str| Ended { device: (*name).to_owned(), end: DeviceEnd::Failed };
            names.iter().map(end).collect::<Vec<_>>()
        };
        let mut said = Vec::new();
        let last = note_ended("split", ended(&["p0"]), false, &[("p1", InterfaceState::Up)], |line| {
            said.push(line.to_owned())
        });
        assert!(last.is_none());
        assert!(said[0].contains("p0") && said[0].ends_with("going on with p1"), "{said:?}");
        said.clear();
        let last = note_ended("split", ended(&["p1", "p2"]), true, &[], |line| said.push(line.to_owned()));
        assert_eq!((last.unwrap().device.as_str(), said.len()), ("p2", 1));
    }
}
