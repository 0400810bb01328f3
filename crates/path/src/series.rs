//! A value over time, as it was measured somewhere.

use std::sync::Arc;

use fullpipe_units::Duration;

use crate::ConfigError;
use crate::config::validate_steps;

/// Values over time, each until the next one. Copies share the values, so that a series of an hour
/// costs its memory once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series<V> {
    steps: Arc<[(Duration, V)]>,
    period: Option<Duration>,
    start: Duration,
}

impl<V> Series<V> {
    /// The values and the times from which they hold, which ascend from 0 on. With a period it
    /// begins again after that time; without one the last value holds for ever.
    ///
    /// # Errors
    /// [`ConfigError::NoFirstStep`] or [`ConfigError::Unordered`] for times that do not ascend from
    /// 0 on, [`ConfigError::ShortPeriod`] for a period that is over before the last value begins.
    pub fn new(
        steps: impl Into<Arc<[(Duration, V)]>>,
        period: Option<Duration>,
    ) -> Result<Self, ConfigError> {
        let steps = steps.into();
        validate_steps(&steps)?;
        let last = steps.last().map_or(Duration::ZERO, |(at, _)| *at);
        if period.is_some_and(|period| period <= last) {
            return Err(ConfigError::ShortPeriod);
        }
        Ok(Self { steps, period, start: Duration::ZERO })
    }

    /// The values and the times from which they hold, counted from the start of the series.
    pub fn steps(&self) -> &[(Duration, V)] {
        &self.steps
    }

    /// The time after which it begins again, if it does.
    pub fn period(&self) -> Option<Duration> {
        self.period
    }

    /// The same times with other values.
    #[must_use]
    pub fn map<W>(&self, of: impl Fn(&V) -> W) -> Series<W> {
        let steps = self.steps.iter().map(|(at, value)| (*at, of(value))).collect();
        Series { steps, period: self.period, start: self.start }
    }

    /// The time at which it starts; until then the first value holds. Outages are different: see
    /// [`ElementConfig::BlackholeSeries`](crate::ElementConfig::BlackholeSeries).
    pub fn start(&self) -> Duration {
        self.start
    }

    /// The same series, which starts later by this much.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        Self { start: self.start + by, ..self }
    }

    pub(crate) fn shared(&self) -> Arc<[(Duration, V)]> {
        self.steps.clone()
    }

    /// The sum of `of(value, nanoseconds)` over the time from 0 to `end`, without the start.
    fn sum(&self, end: u64, of: &impl Fn(&V, u64) -> u128) -> u128 {
        let one_round = |end: u64| {
            let mut sum = 0;
            for (i, (at, value)) in self.steps.iter().enumerate() {
                let at = at.as_nanos();
                if at >= end {
                    break;
                }
                let next = self.steps.get(i + 1).map_or(end, |(next, _)| next.as_nanos().min(end));
                sum += of(value, next - at);
            }
            sum
        };
        match self.period.map(Duration::as_nanos) {
            Some(period) if end > period => {
                u128::from(end / period) * one_round(period) + one_round(end % period)
            }
            _ => one_round(end),
        }
    }

    /// The sum of `of(value, nanoseconds)` over the time from 0 to `end`.
    pub(crate) fn integral(&self, end: Duration, of: impl Fn(&V, u64) -> u128) -> u128 {
        let (end, start) = (end.as_nanos(), self.start.as_nanos());
        let before = self.steps.first().map_or(0, |(_, first)| of(first, end.min(start)));
        before + self.sum(end.saturating_sub(start), &of)
    }

    /// As [`Self::integral`] to each of these times, which ascend, in one walk along the series.
    pub(crate) fn integrals(
        &self,
        ends: impl Iterator<Item = Duration>,
        of: impl Fn(&V, u64) -> u128,
    ) -> impl Iterator<Item = u128> {
        let period = self.period.map(Duration::as_nanos);
        let whole = period.map_or(0, |period| self.sum(period, &of));
        let start = self.start.as_nanos();
        // The value that holds at `at`, in the round that began at `round`, and the sum until then.
        let (mut i, mut round, mut at, mut sum) = (0, 0_u64, 0_u64, 0_u128);
        ends.map(move |end| {
            let end = end.as_nanos();
            let before = self.steps.first().map_or(0, |(_, first)| of(first, end.min(start)));
            let end = end.saturating_sub(start);
            if let Some(period) = period
                && at == round
                && i == 0
            {
                let rounds = (end - at) / period;
                sum += u128::from(rounds) * whole;
                round += rounds * period;
                at = round;
            }
            while at < end
                && let Some((_, value)) = self.steps.get(i)
            {
                let next = self.steps.get(i + 1).map(|(next, _)| next.as_nanos()).or(period);
                let next = next.and_then(|next| round.checked_add(next)).unwrap_or(u64::MAX);
                sum += of(value, next.min(end) - at);
                at = next.min(end);
                if at < next {
                    break;
                }
                i += 1;
                if i == self.steps.len() {
                    (i, round) = (0, next);
                    if let Some(period) = period {
                        let rounds = (end - at) / period;
                        sum += u128::from(rounds) * whole;
                        round += rounds * period;
                        at = round;
                    }
                }
            }
            before + sum
        })
    }

    /// The sum of `of(value)` times nanoseconds over one period, or over none.
    pub(crate) fn work_of_a_round(&self, of: impl Fn(&V) -> u64) -> u128 {
        let end = self.period.map_or(0, Duration::as_nanos);
        self.sum(end, &|value, nanos| u128::from(of(value)) * u128::from(nanos))
    }

    /// The mean of `of(value)` over one period. Without one the last value counts as long as the
    /// others do on average, and not for ever.
    pub(crate) fn mean(&self, of: impl Fn(&V) -> u64) -> u64 {
        let last = self.steps.last().map_or(0, |(at, _)| at.as_nanos());
        let each = last / (self.steps.len() as u64 - 1).max(1);
        let end = self.period.map_or(last.saturating_add(each), Duration::as_nanos).max(1);
        let sum = self.sum(end, &|value, nanos| u128::from(of(value)) * u128::from(nanos));
        u64::try_from(sum / u128::from(end)).unwrap_or(u64::MAX)
    }
}

impl Series<Duration> {
    /// The mean over one period; without one the last value counts as long as the others on
    /// average.
    pub fn mean_time(&self) -> Duration {
        Duration::from_nanos(self.mean(|time| time.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn times_ascend_from_zero_and_a_period_has_room_for_them() {
        let series = |steps: &[(u64, u8)], period: Option<u64>| {
            let steps: Vec<_> = steps.iter().map(|(at, value)| (ms(*at), *value)).collect();
            Series::new(steps, period.map(ms)).map(|_| ())
        };
        assert_eq!(series(&[(0, 1), (5, 2)], Some(6)), Ok(()));
        assert_eq!(series(&[(0, 1)], None), Ok(()));
        assert_eq!(series(&[], None), Err(ConfigError::NoFirstStep));
        assert_eq!(series(&[(1, 1)], None), Err(ConfigError::NoFirstStep));
        assert_eq!(series(&[(0, 1), (5, 2)], Some(5)), Err(ConfigError::ShortPeriod));
        assert!(matches!(series(&[(0, 1), (0, 2)], None), Err(ConfigError::Unordered(_))));
    }

    #[test]
    fn the_integral_counts_rounds_and_what_holds_before_the_start() {
        let series = Series::new([(ms(0), 1_u64), (ms(10), 3)], Some(ms(20))).expect("a series");
        let by_ms = |series: &Series<u64>, end: u64| {
            series.integral(ms(end), |value, ns| u128::from(*value) * u128::from(ns)) / 1_000_000
        };
        let each = [0, 5, 15, 20, 25, 60].map(|end| by_ms(&series, end));
        assert_eq!(each, [0, 5, 25, 40, 45, 120]);
        let later = series.clone().later(ms(7));
        assert_eq!([5, 7, 12, 27].map(|end| by_ms(&later, end)), [5, 7, 12, 47]);
        assert_eq!(series.mean(|value| *value), 2);
        let once = Series::new([(ms(0), 1_u64), (ms(10), 3)], None).expect("a series");
        assert_eq!((by_ms(&once, 110), once.mean(|value| *value)), (310, 2));
    }
}
