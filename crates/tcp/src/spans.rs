//! A set of places, as spans with holes between them.

use alloc::collections::BTreeMap;

use crate::receiver::Span;

/// Disjoint spans, none of which touches another: start and end.
#[derive(Debug, Default)]
pub(crate) struct Spans(BTreeMap<u64, u64>);

impl Spans {
    /// The end of the span that `place` is in.
    pub(crate) fn end_at(&self, place: u64) -> Option<u64> {
        self.0.range(..=place).next_back().map(|(_, end)| *end).filter(|end| *end > place)
    }

    /// Adds `span`, and joins it to what it touches.
    pub(crate) fn insert(&mut self, span: Span) {
        let Span { mut start, mut end } = span;
        if start >= end {
            return;
        }
        if let Some((&before, &its_end)) = self.0.range(..=start).next_back()
            && its_end >= start
        {
            if its_end >= end {
                return;
            }
            start = before;
        }
        while let Some((&inside, &its_end)) = self.0.range(start..=end).next_back() {
            self.0.remove(&inside);
            end = end.max(its_end);
        }
        self.0.insert(start, end);
    }

    /// Removes everything before `place`.
    pub(crate) fn remove_before(&mut self, place: u64) {
        while let Some(first) = self.0.first_entry().filter(|first| *first.key() < place) {
            let end = first.remove();
            if end > place {
                self.0.insert(place, end);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes of memory, about.
    pub(crate) fn memory(&self) -> usize {
        self.0.len() * size_of::<Span>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The same as a set of places.
    #[test]
    fn spans_are_a_set_of_places() {
        let mut spans = Spans::default();
        let mut places = BTreeSet::new();
        let mut dice = 1_u64;
        for _ in 0..5000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (start, bytes, what) = (dice >> 33 & 127, dice >> 44 & 15, dice >> 60);
            if what == 0 {
                spans.remove_before(start);
                places.retain(|place| *place >= start);
            } else {
                spans.insert(Span { start, end: start + bytes });
                places.extend(start..start + bytes);
            }
            for place in 0..150 {
                let end = (place..).find(|place| !places.contains(place));
                assert_eq!(spans.end_at(place), end.filter(|end| *end > place));
            }
            assert!(spans.0.iter().zip(spans.0.keys().skip(1)).all(|((_, end), next)| end < next));
        }
    }
}
