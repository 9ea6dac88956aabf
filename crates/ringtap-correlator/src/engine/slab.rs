//! Owns: things by number, in pieces of memory that never move: millions of them grow without being copied.
//! Does not: know what they are.

use ringtap::prefer_huge_pages;

/// Things of one of the first pieces, and of each further one: who has few things takes little memory for them.
const SMALL: usize = 256;
const LARGE: usize = 1 << 14;
/// Pieces of the first size: together as many things as a further one has.
const SMALL_PIECES: usize = LARGE / SMALL;

/// Numbers are used again; how often each was, tells an old one from a new one.
pub(super) struct Slab<T> {
    pieces: Vec<Vec<(u32, Option<T>)>>,
    /// Numbers that were used and are not.
    free: Vec<u32>,
    /// The first number that never was used.
    next: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: Vec::new(), next: 0 }
    }
}

/// The piece that a number lies in, and its place there.
fn place(number: u32) -> (usize, usize) {
    let number = number as usize;
    if number < LARGE { (number / SMALL, number % SMALL) } else { (SMALL_PIECES - 1 + number / LARGE, number % LARGE) }
}

impl<T> Slab<T> {
    /// Bytes of each.
    pub(super) const EACH: usize = size_of::<(u32, Option<T>)>() + size_of::<u32>();

    pub(super) fn len(&self) -> usize {
        self.next as usize - self.free.len()
    }

    fn at(&self, number: u32) -> Option<&(u32, Option<T>)> {
        let (piece, at) = place(number);
        self.pieces.get(piece)?.get(at)
    }

    fn at_mut(&mut self, number: u32) -> Option<&mut (u32, Option<T>)> {
        let (piece, at) = place(number);
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.at(number)?.1.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.at_mut(number)?.1.as_mut()
    }

    /// With how often the number was used.
    pub(super) fn with_generation(&mut self, number: u32) -> Option<(&mut T, u32)> {
        let (generation, thing) = self.at_mut(number)?;
        Some((thing.as_mut()?, *generation))
    }

    /// Whether the number still means what it did.
    pub(super) fn is(&self, number: u32, generation: u32) -> bool {
        self.at(number).is_some_and(|(current, thing)| *current == generation && thing.is_some())
    }

    /// Its number, and how often that was used.
    pub(super) fn insert(&mut self, thing: T) -> (u32, u32) {
        if let Some(number) = self.free.pop()
            && let Some((generation, place)) = self.at_mut(number)
        {
            *generation = generation.wrapping_add(1);
            *place = Some(thing);
            return (number, *generation);
        }
        let (number, (piece, _)) = (self.next, place(self.next));
        if piece == self.pieces.len() {
            let mut new = Vec::with_capacity(if piece < SMALL_PIECES { SMALL } else { LARGE });
            if piece >= SMALL_PIECES {
                prefer_huge_pages(new.spare_capacity_mut());
            }
            self.pieces.push(new);
        }
        self.pieces[piece].push((1, Some(thing)));
        self.next += 1;
        (number, 1)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.at_mut(number)?.1.take()?;
        self.free.push(number);
        Some(thing)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten().filter_map(|(_, thing)| thing.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten().filter_map(|(_, thing)| thing.as_mut())
    }

    /// The numbers that are used.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(self.pieces.iter().flatten()).filter_map(|(number, (_, thing))| thing.as_ref().map(|_| number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::default();
        let count = 2 * LARGE + 3 * SMALL;
        let all: Vec<(u32, u32)> = (0..count).map(|thing| slab.insert(thing)).collect();
        assert!(all.iter().enumerate().all(|(thing, (number, _))| slab.get(*number) == Some(&thing)));
        assert!(slab.numbers().eq(all.iter().map(|(number, _)| *number)) && slab.iter().copied().eq(0..count));
        for at in [0, SMALL, LARGE - 1, LARGE, 2 * LARGE] {
            let (number, generation) = all[at];
            assert_eq!((slab.remove(number), slab.remove(number), slab.len()), (Some(at), None, count - 1));
            assert!(slab.get(number).is_none() && !slab.is(number, generation));
            let again = slab.insert(7);
            assert!(again.0 == number && !slab.is(number, generation) && slab.is(number, again.1));
            assert_eq!((slab.len(), slab.iter().count()), (count, count));
        }
    }
}
