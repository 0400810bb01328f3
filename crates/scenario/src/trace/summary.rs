//! The content of a trace: for people, and in other formats.

use std::io::{self, Write};

use fullpipe_cc::Duration;
use fullpipe_path::{MTU_BYTES, RateConfig, Series};
use serde::Serialize;

use super::table::MAX_ROWS;
use super::{MAX_OPPORTUNITIES, Trace};
use crate::formulas::seconds;

/// Windows over which the rate of a trace in Mahimahi's format is counted.
const WINDOW: Duration = Duration::from_millis(100);

/// Times from row to row that are longer than most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gaps {
    /// Those longer than three times the median.
    pub count: usize,
    /// The longest time from row to row.
    pub longest: Duration,
}

/// Values over time, each weighted with the time for which it holds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Largest value.
    pub max: f64,
}

impl Spread {
    /// The spread of values with their weights; nothing without any.
    fn of(mut values: Vec<(f64, f64)>) -> Option<Self> {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let whole: f64 = values.iter().map(|(_, weight)| weight).sum();
        let at = |share: f64| {
            let mut sum = 0.0;
            let found = values.iter().find(|(_, weight)| {
                sum += weight;
                sum >= share * whole
            });
            found.or(values.last()).map(|(value, _)| *value)
        };
        let sum: f64 = values.iter().map(|(value, weight)| value * weight).sum();
        Some(Self {
            mean: sum / whole,
            min: values.first()?.0,
            p5: at(0.05)?,
            p50: at(0.5)?,
            p95: at(0.95)?,
            max: values.last()?.0,
        })
    }
}

/// A file as it was understood.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// `mahimahi` or `table`.
    pub format: &'static str,
    /// The program whose log it is, for a log that was made a table.
    pub program: Option<&'static str>,
    /// Compression of the file, if it has one.
    pub compression: Option<&'static str>,
    /// Rows, or opportunities of 1500 bytes in Mahimahi's format.
    pub rows: usize,
    /// The columns that are read, each with its meaning.
    pub columns: Vec<String>,
    /// The columns that are not.
    pub unused_columns: Vec<String>,
    /// Length, in seconds.
    pub duration_s: f64,
    /// True if it begins again after that.
    pub repeats: bool,
    /// The median time from row to row, in seconds; null in Mahimahi's format.
    pub step_s: Option<f64>,
    /// Number of times from row to row that are longer than three times that.
    pub gaps: usize,
    /// The longest time from row to row, in seconds; null in Mahimahi's format.
    pub longest_gap_s: Option<f64>,
    /// Cells without a value, for which the row above holds.
    pub missing_cells: usize,
    /// Rows of another kind, which are not read.
    pub other_rows: usize,
    /// Rows at the time of the row above, in place of which they are taken.
    pub repeated_times: usize,
    /// Rate in Mbit/s; in Mahimahi's format of windows of 100 ms.
    pub rate_mbps: Option<Spread>,
    /// The share of the time in which the rate is 0, from 0 to 1.
    pub outage_share: Option<f64>,
    /// Round-trip time in milliseconds.
    pub rtt_ms: Option<Spread>,
    /// Probability of a loss, from 0 to 1.
    pub loss: Option<Spread>,
    /// The means of the rate in Mbit/s over 64 equal parts of the time.
    pub rate_course_mbps: Option<Vec<f64>>,
    /// The means of the round-trip time in milliseconds over 64 equal parts of the time.
    pub rtt_course_ms: Option<Vec<f64>>,
}

/// Equal parts of the time for which means are listed.
const PARTS: u64 = 64;

/// Each value of a series in a round, and the seconds for which it holds.
fn weighted<V>(series: &Series<V>, length: Duration, of: impl Fn(&V) -> f64) -> Vec<(f64, f64)> {
    let steps = series.steps();
    let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([length]);
    let held = |at: Duration, end: Duration| (end - at).as_nanos() as f64 / 1e9;
    let each = steps.iter().zip(ends).map(|((at, value), end)| (of(value), held(*at, end)));
    // A single row holds for ever, and has no time of its own.
    each.map(|(value, time)| (value, if length == Duration::ZERO { 1.0 } else { time })).collect()
}

/// The means of weighted values over equal parts of their time.
fn means_over_time(values: &[(f64, f64)]) -> Vec<f64> {
    let part = values.iter().map(|(_, time)| time).sum::<f64>() / PARTS as f64;
    let mut values = values.iter().copied();
    let (mut value, mut left) = values.next().unwrap_or_default();
    let mut means = Vec::with_capacity(PARTS as usize);
    for _ in 0..PARTS {
        let (mut sum, mut missing) = (0.0, part);
        while left < missing {
            sum += value * left;
            missing -= left;
            match values.next() {
                Some(next) => (value, left) = next,
                // What rounding has left over.
                None => left = f64::INFINITY,
            }
        }
        sum += value * missing;
        left -= missing;
        means.push(sum / part);
    }
    means
}

impl Trace {
    /// Its content.
    pub fn summary(&self) -> Summary {
        let notes = &self.notes;
        let length = notes.length;
        let rates = self.rate.as_ref().map(|rate| match rate {
            RateConfig::Series(series) => {
                weighted(series, length, |rate| rate.as_bits_per_sec() as f64 / 1e6)
            }
            rate => windows(rate, length),
        });
        let rtts = self
            .rtt
            .as_ref()
            .map(|series| weighted(series, length, |rtt| rtt.as_nanos() as f64 / 1e6));
        let losses = self.loss.as_ref().map(|series| weighted(series, length, |p| p.as_f64()));
        let table = |d: Duration| (!notes.is_mahimahi).then(|| seconds(d));
        let repeats = match &self.rate {
            Some(RateConfig::Series(series)) => series.period().is_some(),
            Some(_) => true,
            None => {
                let rtt = self.rtt.as_ref().map(Series::period);
                rtt.or(self.loss.as_ref().map(Series::period)).flatten().is_some()
            }
        };
        let outage = |values: &Vec<(f64, f64)>| {
            let sum = |values: &mut dyn Iterator<Item = &(f64, f64)>| -> f64 {
                values.map(|(_, time)| time).sum()
            };
            let all = sum(&mut values.iter());
            sum(&mut values.iter().filter(|(value, _)| *value == 0.0)) / all
        };
        Summary {
            format: if notes.is_mahimahi { "mahimahi" } else { "table" },
            program: notes.program,
            compression: notes.compression.map(super::Compression::name),
            rows: notes.rows,
            columns: notes.columns.clone(),
            unused_columns: notes.unused.clone(),
            duration_s: seconds(length),
            repeats,
            step_s: table(notes.step),
            gaps: notes.gaps.count,
            longest_gap_s: table(notes.gaps.longest),
            missing_cells: notes.missing_cells,
            other_rows: notes.other_rows,
            repeated_times: notes.repeated_times,
            outage_share: rates.as_ref().map(outage),
            rate_course_mbps: rates.as_deref().map(means_over_time),
            rtt_course_ms: rtts.as_deref().map(means_over_time),
            rate_mbps: rates.and_then(Spread::of),
            rtt_ms: rtts.and_then(Spread::of),
            loss: losses.and_then(Spread::of),
        }
    }

    /// Writes the rate in Mahimahi's format, which has neither round-trip times nor losses. A
    /// trace of it ends with an opportunity, so that one of 1500 bytes may be added at the end of
    /// a series that ends with an outage.
    ///
    /// # Errors
    /// There is no rate, it is longer than 49 days, or it cannot be written.
    pub fn write_mahimahi(&self, out: &mut impl Write) -> io::Result<()> {
        let wrong = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        let none = || wrong("it has no rate");
        let rate = self.rate.as_ref().ok_or_else(none)?;
        let series = match rate {
            RateConfig::Series(series) => series,
            RateConfig::Trace(times) => {
                return times
                    .iter()
                    .try_for_each(|t| writeln!(out, "{}", t.as_nanos() / 1_000_000));
            }
            _ => return Err(none()),
        };
        // One that never changes is as long as a hundred packets take, and a second at the least.
        let length = match self.notes.length.as_nanos() {
            0 => {
                let rate = series.steps().first().map(|(_, rate)| *rate).ok_or_else(none)?;
                rate.time_for(100 * u64::from(MTU_BYTES)).as_nanos().max(1_000_000_000)
            }
            length => length,
        };
        let end = length.max(1_000_000).div_ceil(1_000_000);
        if end > u64::from(u32::MAX) {
            return Err(wrong("it is longer than 49 days, the most of that format"));
        }
        let bytes = rate.bytes_between(Duration::ZERO, Duration::from_nanos(length));
        if bytes / u64::from(MTU_BYTES) > MAX_OPPORTUNITIES as u64 {
            return Err(wrong(
                "it has more than 64 million packets, the most that is read again; convert a part",
            ));
        }
        let packet = u128::from(MTU_BYTES) * 1_000_000_000;
        let steps = series.steps();
        let (mut place, mut now, mut credit, mut last) = (0, 0, 0_u128, 0);
        for ms in 1..=end {
            let until = ms * 1_000_000;
            while now < until {
                let next = steps.get(place + 1).map_or(until, |(at, _)| at.as_nanos());
                let to = next.min(until);
                credit += u128::from(steps[place].1.as_bytes_per_sec()) * u128::from(to - now);
                now = to;
                place += usize::from(now == next && place + 1 < steps.len());
            }
            while credit >= packet {
                credit -= packet;
                last = ms;
                writeln!(out, "{ms}")?;
            }
        }
        if last < end { writeln!(out, "{end}") } else { Ok(()) }
    }

    /// Writes a table with the columns that there are: `time_s,rate_mbps,rtt_ms,loss`. The rate of
    /// a trace in Mahimahi's format is that of windows of 100 ms.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        let times = |steps: &mut dyn Iterator<Item = Duration>| steps.collect::<Vec<_>>();
        let rates: Option<Vec<(Duration, f64)>> = self.rate.as_ref().map(|rate| match rate {
            RateConfig::Series(series) => {
                let mbps = |rate: fullpipe_cc::Rate| rate.as_bytes_per_sec() as f64 * 8.0 / 1e6;
                series.steps().iter().map(|(at, rate)| (*at, mbps(*rate))).collect()
            }
            rate => {
                let window = window_of(self.notes.length);
                let each = windows(rate, self.notes.length).into_iter().enumerate();
                each.map(|(i, (value, _))| (Duration::from_nanos(i as u64 * window), value))
                    .collect()
            }
        });
        let rtts: Option<Vec<(Duration, f64)>> = self.rtt.as_ref().map(|series| {
            series.steps().iter().map(|(at, rtt)| (*at, rtt.as_nanos() as f64 / 1e6)).collect()
        });
        let losses: Option<Vec<(Duration, f64)>> = self
            .loss
            .as_ref()
            .map(|series| series.steps().iter().map(|(at, p)| (*at, p.as_f64())).collect());
        let columns: Vec<(&str, Vec<(Duration, f64)>)> =
            [("rate_mbps", rates), ("rtt_ms", rtts), ("loss", losses)]
                .into_iter()
                .filter_map(|(name, values)| Some((name, values?)))
                .collect();
        let mut all = times(&mut columns.iter().flat_map(|(_, v)| v.iter().map(|(at, _)| *at)));
        // The end of the last row is known by the time from row to row.
        let last = self.notes.length.as_nanos().saturating_sub(self.notes.step.as_nanos());
        all.extend((!self.notes.is_mahimahi).then_some(Duration::from_nanos(last)));
        // So that the time from row to row is known again although equal values are one step.
        let step = self.notes.step.as_nanos();
        if !self.notes.is_mahimahi && step > 0 && last / step < MAX_ROWS as u64 {
            all.extend((0..=last / step).map(|row| Duration::from_nanos(row * step)));
        }
        all.sort_unstable();
        all.dedup();
        write!(out, "time_s")?;
        columns.iter().try_for_each(|(name, _)| write!(out, ",{name}"))?;
        writeln!(out)?;
        let mut places = vec![0; columns.len()];
        for at in all {
            write!(out, "{}", seconds(at))?;
            for ((_, values), place) in columns.iter().zip(&mut places) {
                while values.get(*place + 1).is_some_and(|(next, _)| *next <= at) {
                    *place += 1;
                }
                // As short as it is exact: what was read is written again.
                write!(out, ",{}", (values[*place].1 * 1e9).round() / 1e9)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// 100 ms, and of a long trace so much that there are no more than some 100,000 windows.
fn window_of(length: Duration) -> u64 {
    WINDOW.as_nanos().max(length.as_nanos() / 100_000)
}

/// Rates of a trace in windows, in Mbit/s, and their lengths in seconds.
fn windows(rate: &RateConfig, length: Duration) -> Vec<(f64, f64)> {
    let (window, end) = (window_of(length), length.as_nanos().max(1));
    let each = (0..end.div_ceil(window)).map(|i| {
        let (from, to) = (i * window, ((i + 1) * window).min(end));
        let bytes = rate.bytes_between(Duration::from_nanos(from), Duration::from_nanos(to));
        (bytes as f64 * 8e3 / (to - from) as f64, (to - from) as f64 / 1e9)
    });
    each.collect()
}
