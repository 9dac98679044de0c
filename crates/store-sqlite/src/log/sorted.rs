//! A sorted list that is mostly appended to.

use super::key::Key;

/// Maximum keys per chunk, which bounds the work of an insertion; 10 million keys make 20,000 chunks.
const CHUNK: usize = 512;

/// Sorted keys, each with the number of its record, in chunks: cheap to append to, to insert into, and to ask
/// for a rank.
#[derive(Debug, Default)]
pub(crate) struct SortedKeys {
    chunks: Vec<Vec<(Key, u32)>>,
    len: usize,
}

impl SortedKeys {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, key: Key, record: u32) {
        self.len += 1;
        let chunk = self.chunks.partition_point(|chunk| chunk[0].0 <= key).saturating_sub(1);
        let last = chunk + 1 >= self.chunks.len();
        let Some(keys) = self.chunks.get_mut(chunk) else {
            self.chunks.push(vec![(key, record)]);
            return;
        };
        let place = keys.partition_point(|(other, _)| *other < key);
        if keys.len() < CHUNK {
            keys.insert(place, (key, record));
        } else if last && place == keys.len() {
            self.chunks.push(vec![(key, record)]);
        } else {
            let mut upper = keys.split_off(CHUNK / 2);
            match place.checked_sub(CHUNK / 2) {
                Some(place) => upper.insert(place, (key, record)),
                None => keys.insert(place, (key, record)),
            }
            self.chunks.insert(chunk + 1, upper);
        }
    }

    /// The rank of `key`: how many keys are less.
    pub(crate) fn rank(&self, key: Key) -> usize {
        let chunk = self.chunks.partition_point(|chunk| chunk[0].0 < key).saturating_sub(1);
        let Some(keys) = self.chunks.get(chunk) else { return 0 };
        let before: usize = self.chunks[..chunk].iter().map(Vec::len).sum();
        before + keys.partition_point(|(other, _)| *other < key)
    }

    /// The key at a rank.
    pub(crate) fn get(&self, mut rank: usize) -> Option<(Key, u32)> {
        for chunk in &self.chunks {
            match chunk.get(rank) {
                Some(entry) => return Some(*entry),
                None => rank -= chunk.len(),
            }
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, u32)> + '_ {
        self.chunks.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_vector(starts in prop::collection::vec(0_u64..3000, 0..3000), probes in prop::collection::vec(0_u64..3100, 20)) {
            let mut keys = SortedKeys::default();
            let mut model = Vec::new();
            for (at, start) in starts.iter().enumerate() {
                let key = Key::new(*start, at as u128);
                keys.insert(key, at as u32);
                model.push((key, at as u32));
            }
            model.sort();
            prop_assert!(keys.iter().eq(model.iter().copied()));
            prop_assert_eq!(keys.len(), model.len());
            for probe in probes {
                let key = Key::new(probe, 0);
                prop_assert_eq!(keys.rank(key), model.partition_point(|(other, _)| *other < key));
                prop_assert_eq!(keys.get(probe as usize), model.get(probe as usize).copied());
            }
        }
    }
}
