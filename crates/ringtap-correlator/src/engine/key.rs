//! Owns: a key's bytes: in place where they are few, as those of two IPv4 addresses.
//! Does not: know what they say.

/// Bytes that have room in place.
const IN_PLACE: usize = 38;

pub(super) enum Key {
    Short(u8, [u8; IN_PLACE]),
    Long(Box<[u8]>),
}

impl Key {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut room = [0; IN_PLACE];
        match room.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Self::Short(bytes.len() as u8, room)
            }
            None => Self::Long(bytes.into()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(len, room) => &room[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }

    /// Memory of its own.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Short(..) => 0,
            Self::Long(bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length() {
        for len in [0, 1, IN_PLACE - 1, IN_PLACE, IN_PLACE + 1, 5000] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let key = Key::new(&bytes);
            assert_eq!(key.bytes(), bytes);
            assert_eq!(key.weight(), if len > IN_PLACE { len } else { 0 });
        }
    }
}
