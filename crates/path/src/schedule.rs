//! A value that changes at given times.

use std::sync::Arc;

use fullpipe_units::{Duration, Instant};

use crate::Series;

/// Steps in the order of time; the first holds from the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Schedule<V> {
    steps: Arc<[(Duration, V)]>,
    current: usize,
    /// The start of the present round, in nanoseconds.
    round: u64,
    /// After these nanoseconds it begins again; 0 if never.
    period: u64,
}

impl<V: Copy> Schedule<V> {
    /// `steps` are not empty and in order: the configuration was validated.
    pub(crate) fn new(steps: &[(Duration, V)]) -> Self {
        Self { steps: steps.into(), current: 0, round: 0, period: 0 }
    }

    pub(crate) fn of(series: &Series<V>) -> Self {
        let period = series.period().map_or(0, Duration::as_nanos);
        Self { steps: series.shared(), current: 0, round: series.start().as_nanos(), period }
    }

    /// The value at `now`, which never goes back.
    pub(crate) fn at(&mut self, now: Instant) -> V {
        if self.period > 0 {
            self.skip_rounds(now.as_nanos());
        }
        while self.next_step().is_some_and(|at| at <= now) {
            self.current += 1;
        }
        self.steps[self.current].1
    }

    /// Goes to the round of `now`.
    fn skip_rounds(&mut self, now: u64) {
        let rounds = now.saturating_sub(self.round) / self.period;
        if rounds > 0 {
            self.round += rounds * self.period;
            self.current = 0;
        }
    }

    /// The time at which the value of the last [`Self::at`] ends.
    pub(crate) fn next_step(&self) -> Option<Instant> {
        let after = match self.steps.get(self.current + 1) {
            Some((at, _)) => at.as_nanos(),
            None if self.period > 0 => self.period,
            None => return None,
        };
        self.round.checked_add(after).map(Instant::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_begins_again_after_its_period_and_starts_when_it_is_told_to() {
        let ms = Duration::from_millis;
        let at = |n: u64| Instant::default() + ms(n);
        let series = Series::new([(ms(0), 'a'), (ms(3), 'b')], Some(ms(5))).expect("a series");
        let mut schedule = Schedule::of(&series);
        let read: String = (0..12).map(|n| schedule.at(at(n))).collect();
        assert_eq!(read, "aaabbaaabbaa");
        assert_eq!(schedule.next_step(), Some(at(13)));
        // A long pause ends in a later round.
        assert_eq!((schedule.at(at(5003)), schedule.next_step()), ('b', Some(at(5005))));
        let mut later = Schedule::of(&series.later(ms(2)));
        let read: String = (0..9).map(|n| later.at(at(n))).collect();
        assert_eq!(read, "aaaaabbaa");
    }

    #[test]
    fn the_end_of_time_is_no_step() {
        let far = Duration::from_nanos(u64::MAX - 1);
        let series = Series::new([(Duration::ZERO, 1)], Some(far)).expect("a series");
        let mut schedule = Schedule::of(&series.later(Duration::from_nanos(5)));
        assert_eq!((schedule.at(Instant::from_nanos(u64::MAX)), schedule.next_step()), (1, None));
    }
}
