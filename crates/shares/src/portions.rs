//! A dynamic threshold: who has some gets more only while it then has at most three times what remains. Alone it
//! gets three quarters; whoever comes next finds a quarter, and gets at most three quarters of that. What cannot be
//! divided goes to who comes first.
//!
//! Ports of a switch share its buffer so: Choudhury and Hahne, *Dynamic Queue Length Thresholds for Shared-Memory
//! Packet Switches*, 1998.

use std::{collections::HashMap, hash::Hash};

/// How many times what remains one may have.
const OF_THE_REST: usize = 3;

/// How much of something limited each has. Only counts: its user locks it, and gives back what is dropped.
#[derive(Debug)]
pub struct Portions<K: ToOwned + ?Sized> {
    all: usize,
    /// What all have together.
    sum: usize,
    /// Those that have some.
    of: HashMap<K::Owned, usize>,
}

impl<K> Portions<K>
where
    K: ToOwned<Owned: Hash + Eq> + Hash + Eq + ?Sized,
{
    /// So much, and nobody has any.
    pub fn new(all: usize) -> Self {
        Self { all, sum: 0, of: HashMap::new() }
    }

    /// What all have together.
    pub fn sum(&self) -> usize {
        self.sum
    }

    /// What nobody has.
    pub fn rest(&self) -> usize {
        self.all.saturating_sub(self.sum)
    }

    /// What it has.
    pub fn has(&self, who: &K) -> usize {
        self.of.get(who).copied().unwrap_or(0)
    }

    /// How many times it may have so much more. At least once if it has none: whether there is so much, the
    /// [`rest`](Self::rest) says.
    pub fn allows(&self, who: &K, more: usize) -> usize {
        let has = self.has(who);
        let times = self.times(has, more);
        if has == 0 { times.max(1) } else { times }
    }

    /// Whether it may have so much more of what others have, of which so much could be had.
    pub fn may_take_over(&self, who: &K, more: usize, of: usize) -> bool {
        more <= of && times(self.has(who), more, self.rest().saturating_add(of)) > 0
    }

    /// Whether a part of what it has may grow by so much: within the threshold, or by all that remains if it has
    /// nothing else.
    pub fn may_grow(&self, who: &K, part: usize, more: usize) -> bool {
        let has = self.has(who);
        more <= self.rest() && (has == part || self.times(has, more) > 0)
    }

    /// Gives it so much more, whatever it may have.
    pub fn add(&mut self, who: &K, more: usize) {
        self.sum += more;
        match self.of.get_mut(who) {
            Some(has) => *has += more,
            None => drop(self.of.insert(who.to_owned(), more)),
        }
    }

    /// Takes so much of what it has; whoever then has none is forgotten.
    pub fn remove(&mut self, who: &K, less: usize) {
        self.sum -= less;
        if let Some(has) = self.of.get_mut(who) {
            *has -= less;
            if *has == 0 {
                self.of.remove(who);
            }
        }
    }

    fn times(&self, has: usize, more: usize) -> usize {
        times(has, more, self.rest())
    }
}

/// How many times one that has so much may have more: each time, what it has grows and what remains shrinks.
fn times(has: usize, more: usize, rest: usize) -> usize {
    OF_THE_REST.saturating_mul(rest).saturating_sub(has) / (more.max(1) * (OF_THE_REST + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so much, if it may.
    fn take(portions: &mut Portions<str>, who: &str, many: usize) -> bool {
        let may = many <= portions.rest() && portions.allows(who, many) > 0;
        if may {
            portions.add(who, many);
        }
        may
    }

    /// Takes one after the other as long as it may.
    fn take_all(portions: &mut Portions<str>, who: &str) -> usize {
        std::iter::from_fn(|| take(portions, who, 1).then_some(())).count()
    }

    #[test]
    fn each_leaves_something_to_the_next() {
        let mut portions = Portions::new(256);
        let names = ["a", "b", "c", "d", "e"];
        let counts = names.map(|name| take_all(&mut portions, name));
        assert_eq!((counts, portions.rest()), ([192, 48, 12, 3, 1], 0));
        for (name, count) in names.into_iter().zip(counts) {
            portions.remove(name, count);
        }
        assert_eq!((portions.sum(), portions.of.len()), (0, 0), "nothing is kept of those that have none");
        assert_eq!((portions.allows("e", 1), take_all(&mut portions, "e")), (192, 192));
    }

    #[test]
    fn little_goes_to_who_comes_first() {
        for (all, first) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3)] {
            let mut portions = Portions::new(all);
            let counts = ["a", "b"].map(|name| take_all(&mut portions, name));
            assert_eq!(counts, [first, usize::from(all > first)], "{all}");
        }
    }

    #[test]
    fn one_may_need_all() {
        let mut portions = Portions::new(64);
        assert!(take(&mut portions, "a", 64));
        assert!(!take(&mut portions, "b", 1) && !take(&mut portions, "a", 1));
        portions.remove("a", 64);
        assert!(take(&mut portions, "a", 40));
        assert!(!take(&mut portions, "a", 9), "48 are its share");
        assert!(take(&mut portions, "a", 8));
        assert!(!take(&mut portions, "b", 17) && take(&mut portions, "b", 16), "there are no more");
    }

    #[test]
    fn what_others_could_give_counts_as_what_remains() {
        let mut portions = Portions::new(16);
        portions.add("a", 8);
        portions.add("b", 8);
        assert_eq!(portions.allows("a", 1), 0);
        // Of the eight, four may go: then it has twelve, and four remain.
        assert!(portions.may_take_over("a", 4, 8) && !portions.may_take_over("a", 5, 8));
        assert!(portions.may_take_over("a", 1, 4) && !portions.may_take_over("a", 1, 3));
        assert!(!portions.may_take_over("c", 2, 1), "there is no more");
    }

    #[test]
    fn what_is_all_of_ones_may_grow_to_all_that_remains() {
        let mut portions = Portions::new(64);
        portions.add("a", 16);
        assert!(portions.may_grow("a", 16, 48) && !portions.may_grow("a", 16, 49));
        assert!(portions.may_grow("b", 0, 48) && !portions.may_grow("b", 0, 49));
        portions.add("a", 16);
        assert!(
            portions.may_grow("a", 16, 16) && !portions.may_grow("a", 16, 17),
            "of two, 48 are the share"
        );
        // Its user gave it more than there is.
        portions.add("a", 64);
        assert_eq!(portions.rest(), 0);
        assert!(!portions.may_grow("a", 96, 1) && !portions.may_grow("b", 0, 1));
    }
}
