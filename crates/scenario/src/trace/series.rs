//! The rows of a table as series over time.

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{ConfigError, Probability, RateConfig, Series};

use super::header::Role;
use super::units::FASTEST;
use super::{Interpolation, Notes, Trace, TraceFileError, TraceOptions, wrong};

/// Between two rows a value that changes evenly does so in steps of this.
const LINEAR_STEP: u64 = 10_000_000;

/// The most steps between two rows.
const LINEAR_STEPS: u64 = 100;

/// The most steps of a file beside one for each row: where they would be more, they are longer.
const MOST_STEPS: u64 = 5_000_000;

/// Values of a column; those that are missing are NaN.
type Values = Option<Vec<f64>>;

/// The rows so far: times in nanoseconds, and the columns that are there.
pub(super) struct Rows {
    pub(super) times: Vec<u64>,
    rate: Values,
    rtt: Values,
    loss: Values,
    /// True if the rates are amounts, of which those at one time are one sum.
    are_amounts: bool,
}

impl Rows {
    pub(super) fn with(has: impl Fn(Role) -> bool, are_amounts: bool) -> Self {
        let values = |role| has(role).then(Vec::new);
        Self {
            times: Vec::new(),
            rate: values(Role::Rate),
            rtt: values(Role::Rtt).or(values(Role::Delay)),
            loss: values(Role::Loss),
            are_amounts,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// The last two rows have one time: the values of the second hold, where it has any.
    pub(super) fn merge_last(&mut self) {
        self.times.pop();
        if let Some(amounts) = self.rate.as_mut().filter(|_| self.are_amounts)
            && let [.., first, second] = amounts.as_mut_slice()
            && !first.is_nan()
        {
            *second += *first;
        }
        for values in [&mut self.rate, &mut self.rtt, &mut self.loss].into_iter().flatten() {
            if let (Some(second), Some(first)) = (values.pop(), values.last_mut())
                && !second.is_nan()
            {
                *first = second;
            }
        }
    }

    pub(super) fn push(&mut self, role: Role, value: f64) {
        let values = match role {
            Role::Time => return,
            Role::Rate => &mut self.rate,
            Role::Rtt | Role::Delay => &mut self.rtt,
            Role::Loss => &mut self.loss,
        };
        if let Some(values) = values {
            values.push(value);
        }
    }

    pub(super) fn push_missing(&mut self, role: Role) {
        self.push(role, f64::NAN);
    }

    /// Makes rates of the bytes since the row before: each row holds from there to its own time.
    pub(super) fn divide_by_times(&mut self, usual: u64) -> Result<(), TraceFileError> {
        let Some(amounts) = &mut self.rate else { return Ok(()) };
        if usual == 0 {
            return wrong("nothing says how long a row is; write rate_unit = \"B/s\" or another");
        }
        let mut begin = 0;
        for (amount, time) in amounts.iter_mut().zip(&mut self.times) {
            let end = *time + usual;
            *amount *= 1e9 / (end - begin) as f64;
            if *amount > FASTEST {
                return wrong(format!(
                    "from {} s to {} s more than 1 Tbit/s; write another rate_unit or time_unit",
                    begin as f64 / 1e9,
                    end as f64 / 1e9
                ));
            }
            *time = begin;
            begin = end;
        }
        Ok(())
    }

    /// Leaves out columns without any value beside others that have some.
    pub(super) fn drop_empty(&mut self) -> Vec<Role> {
        let is_empty = |values: &[f64]| values.iter().all(|value| value.is_nan());
        let columns = [&mut self.rate, &mut self.rtt, &mut self.loss];
        if !columns.iter().any(|values| values.as_ref().is_some_and(|v| !is_empty(v))) {
            return Vec::new();
        }
        let mut dropped = Vec::new();
        for (values, roles) in
            columns.into_iter().zip([&[Role::Rate][..], &[Role::Rtt, Role::Delay], &[Role::Loss]])
        {
            if values.as_ref().is_some_and(|v| is_empty(v)) {
                *values = None;
                dropped.extend(roles);
            }
        }
        dropped
    }
}

/// Fills each gap with the value before it, and a gap at the beginning with the first value. False
/// if there is no value.
fn fill(values: &mut [f64]) -> bool {
    let Some(mut last) = values.iter().copied().find(|value| !value.is_nan()) else { return false };
    for value in values {
        if value.is_nan() {
            *value = last;
        }
        last = *value;
    }
    true
}

/// The steps of a column; equal values behind each other are one.
fn steps<V: PartialEq>(
    times: &[u64],
    values: &[f64],
    interpolation: Interpolation,
    of: impl Fn(f64) -> V,
) -> Vec<(Duration, V)> {
    let mut steps: Vec<(Duration, V)> = Vec::new();
    let mut push = |at: u64, value: f64| {
        let value = of(value);
        if steps.last().is_none_or(|(_, before)| *before != value) {
            steps.push((Duration::from_nanos(at), value));
        }
    };
    let whole = times.last().zip(times.first()).map_or(0, |(last, first)| last - first);
    let step = LINEAR_STEP.max(whole / MOST_STEPS);
    for (i, (at, value)) in times.iter().zip(values).enumerate() {
        match (interpolation, times.get(i + 1).zip(values.get(i + 1))) {
            (Interpolation::Linear, Some((next_at, next))) => {
                let length = next_at - at;
                let count = (length / step).clamp(1, LINEAR_STEPS);
                for n in 0..count {
                    // The value in the middle of the step: then the area below is the same.
                    let part = (n as f64 + 0.5) / count as f64;
                    let after = u128::from(length) * u128::from(n) / u128::from(count);
                    push(at + after as u64, value + (next - value) * part);
                }
            }
            _ => push(*at, *value),
        }
    }
    steps.shrink_to_fit();
    steps
}

/// A series that ends, or begins again, at a time; without one it is as it was.
pub(super) fn cut<V: Clone + PartialEq>(series: Series<V>, length: Duration) -> Series<V> {
    if length == Duration::ZERO {
        return series;
    }
    let steps = series.steps().iter().filter(|(at, _)| *at < length).cloned();
    let period = series.period().map(|_| length);
    Series::new(steps.collect::<Vec<_>>(), period).unwrap_or(series)
}

/// A series without its beginning, which is shorter than it.
pub(super) fn from<V: Clone + PartialEq>(series: &Series<V>, beginning: Duration) -> Series<V> {
    let steps = series.steps();
    // What holds at that time does so from there.
    let first = steps.partition_point(|(at, _)| *at <= beginning).saturating_sub(1);
    let later = |(at, value): &(Duration, V)| (*at - beginning, value.clone());
    let period = series.period().map(|period| period - beginning);
    let left: Vec<(Duration, V)> = steps[first..].iter().map(later).collect();
    Series::new(left, period).unwrap_or_else(|_| series.clone())
}

/// The series of a table's columns.
pub(super) fn trace(
    mut rows: Rows,
    notes: Notes,
    options: &TraceOptions,
) -> Result<Trace, TraceFileError> {
    let interpolation = options.interpolation.unwrap_or_default();
    let is_endless = notes.length == Duration::ZERO || options.repeat == Some(false);
    let period = (!is_endless).then_some(notes.length);
    let error = |e: ConfigError| TraceFileError(e.to_string());
    let times = std::mem::take(&mut rows.times);
    let prepared = |role: Role, values: &mut Values| -> Result<Values, TraceFileError> {
        let Some(mut values) = values.take() else { return Ok(None) };
        if fill(&mut values) {
            return Ok(Some(values));
        }
        wrong(format!("no row has a value in the column of the {}", role.name()))
    };
    let rate = match prepared(Role::Rate, &mut rows.rate)? {
        None => None,
        Some(values) => {
            let of = |v: f64| Rate::from_bytes_per_sec(v.round() as u64);
            let steps = steps(&times, &values, interpolation, of);
            if steps.iter().all(|(_, rate)| *rate == Rate::ZERO) {
                return wrong("every rate is 0, and nothing would ever arrive");
            }
            let ends = steps.last().is_some_and(|(_, rate)| *rate == Rate::ZERO);
            if ends && is_endless {
                return wrong(
                    "the last rate is 0 and would hold for ever; leave out repeat = false, or end with one above 0",
                );
            }
            Some(RateConfig::Series(Series::new(steps, period).map_err(error)?))
        }
    };
    let rtt = match prepared(Role::Rtt, &mut rows.rtt)? {
        None => None,
        Some(values) => {
            let of = |v: f64| Duration::from_nanos(v.round() as u64);
            let steps = steps(&times, &values, interpolation, of);
            Some(Series::new(steps, period).map_err(error)?)
        }
    };
    let loss = match prepared(Role::Loss, &mut rows.loss)? {
        None => None,
        Some(values) => {
            let of = |v: f64| Probability::new(v).unwrap_or(Probability::ONE);
            let steps = steps(&times, &values, interpolation, of);
            Some(Series::new(steps, period).map_err(error)?)
        }
    };
    Ok(Trace { rate, rtt, loss, notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_two_days_has_no_more_steps_than_fit() {
        let count = |seconds: u64| {
            let times: Vec<u64> = (0..seconds).map(|s| s * 1_000_000_000).collect();
            let values: Vec<f64> = (0..seconds).map(|s| (s % 3) as f64 * 1e6).collect();
            let of = |v: f64| Rate::from_bytes_per_sec(v.round() as u64);
            let steps = steps(&times, &values, Interpolation::Linear, of);
            let mean = Series::new(steps.as_slice(), None).expect("a series");
            let mean = RateConfig::Series(mean).nominal().as_bytes_per_sec() as f64;
            assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}: the area below stays");
            steps.len() as u64
        };
        assert_eq!(count(101), 10_001);
        let two_days = count(2 * 86_400);
        assert!(two_days <= MOST_STEPS + 2 * 86_400, "{two_days}");
        assert!(two_days > MOST_STEPS / 2, "{two_days}");
    }
}
