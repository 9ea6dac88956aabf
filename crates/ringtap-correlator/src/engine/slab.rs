//! Owns: things by number, in pieces of memory that never move: millions of them grow without being copied.
//! Does not: know what they are.

/// Things of one piece.
const PIECE: usize = 256;

type Piece<T> = Box<[(u32, Option<T>)]>;

/// Numbers are used again; how often each was, tells an old one from a new one.
pub(super) struct Slab<T> {
    pieces: Vec<Piece<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Bytes of each.
    pub(super) const EACH: usize = size_of::<(u32, Option<T>)>() + size_of::<u32>();

    pub(super) fn len(&self) -> usize {
        self.pieces.len() * PIECE - self.free.len()
    }

    fn at(&self, number: u32) -> Option<&(u32, Option<T>)> {
        self.pieces.get(number as usize / PIECE)?.get(number as usize % PIECE)
    }

    fn at_mut(&mut self, number: u32) -> Option<&mut (u32, Option<T>)> {
        self.pieces.get_mut(number as usize / PIECE)?.get_mut(number as usize % PIECE)
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
        if self.free.is_empty() {
            let first = (self.pieces.len() * PIECE) as u32;
            self.pieces.push((0..PIECE).map(|_| (0, None)).collect());
            self.free.extend((first..first + PIECE as u32).rev());
        }
        let number = self.free.pop().unwrap_or_default();
        let Some((generation, place)) = self.at_mut(number) else { return (number, 0) };
        *generation = generation.wrapping_add(1);
        *place = Some(thing);
        (number, *generation)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::default();
        let all: Vec<(u32, u32)> = (0..3 * PIECE).map(|thing| slab.insert(thing)).collect();
        assert!(all.iter().enumerate().all(|(thing, (number, _))| slab.get(*number) == Some(&thing)));
        let (number, generation) = all[PIECE];
        assert_eq!((slab.remove(number), slab.remove(number), slab.len()), (Some(PIECE), None, 3 * PIECE - 1));
        assert!(slab.get(number).is_none() && !slab.is(number, generation));
        let again = slab.insert(7);
        assert!(again.0 == number && !slab.is(number, generation) && slab.is(number, again.1));
        assert_eq!((slab.len(), slab.iter().count()), (3 * PIECE, 3 * PIECE));
    }
}
