//! A map that forgets what was not used for a while, and that never grows beyond a bound.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Two generations: what is used moves to the young one, and the old one goes when the young one is
/// full or old. An entry is kept for the time after its last use at least, unless there are more
/// than `most` newer ones.
#[derive(Debug)]
pub(crate) struct ExpiringMap<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    turned: Instant,
    keep: Duration,
    most: usize,
}

impl<K: Hash + Eq, V> ExpiringMap<K, V> {
    pub(crate) fn new(keep: Duration, most: usize, now: Instant) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), turned: now, keep, most }
    }

    /// Lets the time pass. Whether a generation was forgotten.
    pub(crate) fn age(&mut self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.turned) >= self.keep
            || self.young.len() >= self.most;
        if due {
            self.turned = now;
            self.old = std::mem::take(&mut self.young);
        }
        due
    }

    /// The entry, which counts as used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V>
    where
        K: Copy,
    {
        if let Some(value) = self.old.remove(key) {
            self.young.insert(*key, value);
        }
        self.young.get_mut(key)
    }

    pub(crate) fn get_or_insert(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V
    where
        K: Copy,
    {
        if let Some(old) = self.old.remove(&key) {
            self.young.insert(key, old);
        }
        self.young.entry(key).or_insert_with(value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.old.remove(key);
        self.young.remove(key).or(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut map = ExpiringMap::new(Duration::from_secs(10), 100, start);
        map.get_or_insert(1, || "used");
        map.get_or_insert(2, || "unused");
        for second in 0..40 {
            map.age(at(second));
            assert!(map.get(&1).is_some());
        }
        assert_eq!((map.get(&1).copied(), map.get(&2)), (Some("used"), None));
        assert_eq!(map.remove(&1), Some("used"));
        assert_eq!(map.get(&1), None);
    }

    #[test]
    fn it_has_a_bound() {
        let now = Instant::now();
        let mut map = ExpiringMap::new(Duration::from_secs(10), 100, now);
        for key in 0..10_000 {
            map.age(now);
            map.get_or_insert(key, || ());
            assert!(map.young.len() + map.old.len() <= 200);
        }
        assert!((9900..10_000).all(|key| map.get(&key).is_some()), "the newest are there");
    }
}
