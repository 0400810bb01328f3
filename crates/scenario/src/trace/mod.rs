//! Trace files as people have them: Mahimahi's times, tables with a rate, a round-trip time or a
//! loss over time, and logs of programs that measure, which become such tables.
//!
//! A table is CSV, or columns between tabs, semicolons or spaces. Its header names the columns and
//! their units; without one they are time, rate, round-trip time and loss in this order, as the
//! logs of Pensieve and of Norway's buses have the first two. gzip and zstd are seen by the file's
//! first bytes. Files are read line by line, so that they may be larger than memory has room for
//! their text.

mod dates;
mod flent;
mod header;
mod known;
mod lines;
mod logs;
mod names;
mod packed;
mod pings;
mod series;
mod summary;
mod table;
mod units;

use std::io::Cursor;
use std::path::Path;

use fullpipe_cc::Duration;
use fullpipe_path::{MahimahiReader, Probability, RateConfig, Series};

pub use packed::{Compression, unpacked};
pub use summary::{Gaps, Spread, Summary};
pub use units::{RateUnit, TimeUnit};

use lines::Lines;
use logs::AsTable;
use table::Table;

/// The most opportunities of a trace in Mahimahi's format: an hour of 200 Mbit/s has 60 million.
const MAX_OPPORTUNITIES: usize = 64_000_000;

/// A file that is no trace: one line that says what is wrong and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TraceFileError(pub(crate) String);

pub(crate) fn wrong<T>(why: impl Into<String>) -> Result<T, TraceFileError> {
    Err(TraceFileError(why.into()))
}

/// The rule for values between two rows.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Debug,
    Default,
    serde::Deserialize,
    serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// A row holds until the next one.
    #[default]
    Step,
    /// They change evenly from row to row: in steps of 10 ms, and in 100 where two rows are more
    /// than a second apart.
    Linear,
}

impl Interpolation {
    /// Its name in a scenario file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Linear => "linear",
        }
    }
}

/// Columns of a table, each by its name in the header or by its number from 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Columns {
    /// Time.
    pub time: Option<String>,
    /// Rate.
    pub rate: Option<String>,
    /// Round-trip time.
    pub rtt: Option<String>,
    /// One-way delay, which counts for both directions.
    pub delay: Option<String>,
    /// Loss.
    pub loss: Option<String>,
}

impl Columns {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Options for reading a file; those left out are found out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct TraceOptions {
    /// The columns; with any of them only those that are named are read.
    pub columns: Columns,
    /// Unit of the times.
    pub time_unit: Option<TimeUnit>,
    /// The way in which times are written, in the codes of strftime.
    pub time_format: Option<String>,
    /// Unit of the rates.
    pub rate_unit: Option<RateUnit>,
    /// Unit of the round-trip times or delays.
    pub rtt_unit: Option<TimeUnit>,
    /// Time from row to row, for a table without times.
    pub interval: Option<Duration>,
    /// False if the last row holds for ever; else the trace begins again.
    pub repeat: Option<bool>,
    /// The rule for values between two rows.
    pub interpolation: Option<Interpolation>,
    /// True if nothing but round-trip times or delays is read.
    pub(crate) delays_alone: bool,
}

/// Content of a file, as a path takes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// Rate over time.
    pub rate: Option<RateConfig>,
    /// Round-trip time over time.
    pub rtt: Option<Series<Duration>>,
    /// Loss over time.
    pub loss: Option<Series<Probability>>,
    /// Notes on its reading.
    pub notes: Notes,
}

/// Notes on the reading of a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Notes {
    /// Compression of the file.
    pub compression: Option<Compression>,
    /// True for Mahimahi's format, false for a table.
    pub is_mahimahi: bool,
    /// The program whose log it is, for a log that was made a table.
    pub program: Option<&'static str>,
    /// Rows with values, or opportunities of a trace in Mahimahi's format.
    pub rows: usize,
    /// The columns that are read, each with its meaning: `mbps (rate, Mbit/s)`.
    pub columns: Vec<String>,
    /// The names of the columns of time and rate, or their numbers where they have no names.
    pub(crate) rate_columns: Columns,
    /// Names of columns that are not read.
    pub unused: Vec<String>,
    /// Cells without a value, for which the row above holds.
    pub missing_cells: usize,
    /// Rows of another kind, which are not read.
    pub other_rows: usize,
    /// Rows at the time of the row above, in place of which they are taken.
    pub repeated_times: usize,
    /// Nanoseconds from 1970 to the first row, where its time says that.
    pub(crate) begin: Option<i128>,
    /// Length of the trace: to the end of the last row.
    pub length: Duration,
    /// The median of the times from row to row.
    pub step: Duration,
    /// Longest time from row to row, and the number of those longer than three times the median.
    pub gaps: Gaps,
}

impl Trace {
    /// A trace of this program's own, which no file holds.
    pub fn of_rate(rate: RateConfig) -> Self {
        let (length, rows) = match &rate {
            RateConfig::Trace(times) => (times.last().copied().unwrap_or_default(), times.len()),
            _ => (Duration::ZERO, 0),
        };
        let notes = Notes { is_mahimahi: true, rows, length, ..Notes::default() };
        Self { rate: Some(rate), rtt: None, loss: None, notes }
    }

    /// The same with the round-trip times of another one, as long as the shorter of both. Where
    /// both say the time since 1970, they begin when the later one does.
    ///
    /// # Errors
    /// It has some already, or they have no time in common.
    pub(crate) fn with_delays(mut self, mut delays: Self) -> Result<Self, TraceFileError> {
        if self.rtt.is_some() {
            return wrong(
                "it has round-trip times or delays itself; leave out delay_trace, or name its other columns",
            );
        }
        if let Some((begin, of_delays)) = self.notes.begin.zip(delays.notes.begin) {
            let earlier = if of_delays > begin { &mut self } else { &mut delays };
            let missing = begin.abs_diff(of_delays);
            match u64::try_from(missing).map(Duration::from_nanos) {
                Ok(missing) if missing < earlier.notes.length => earlier.leave_out(missing),
                _ if missing > 0 => {
                    return wrong(format!(
                        "delay_trace begins {} s {} it, and they have no time in common; write files of one time, or \
                         times that begin with 0",
                        missing as f64 / 1e9,
                        if of_delays > begin { "after" } else { "before" }
                    ));
                }
                _ => {}
            }
        }
        let Some(rtts) = delays.rtt else {
            return wrong(
                "delay_trace has no delays; name their column, columns = { delay = \"…\" }",
            );
        };
        self.notes.columns.extend(delays.notes.columns);
        let lengths = [self.notes.length, delays.notes.length];
        // Where the last rate holds for ever, nothing ends.
        if matches!(&self.rate, Some(RateConfig::Series(rates)) if rates.period().is_none()) {
            self.notes.length = lengths.into_iter().max().unwrap_or_default();
            return Ok(Self { rtt: Some(rtts), ..self });
        }
        let ends = lengths.into_iter().filter(|length| *length > Duration::ZERO);
        let mut length = ends.min().unwrap_or_default();
        self.rate = match self.rate {
            Some(RateConfig::Series(rates)) => {
                let rates = series::cut(rates, length);
                if rates.steps().iter().all(|(_, rate)| *rate == fullpipe_cc::Rate::ZERO) {
                    return wrong("every rate before the end of the delays is 0");
                }
                Some(RateConfig::Series(rates))
            }
            Some(RateConfig::Trace(times)) => {
                let times: Vec<Duration> =
                    times.iter().copied().filter(|at| *at <= length).collect();
                // Mahimahi's format ends with a packet.
                match times.last() {
                    Some(last) => length = *last,
                    None => return wrong("the delays end before the first packet"),
                }
                Some(RateConfig::Trace(times.into()))
            }
            other => other,
        };
        self.rtt = Some(series::cut(rtts, length));
        self.loss = self.loss.map(|losses| series::cut(losses, length));
        self.notes.length = length;
        Ok(self)
    }

    /// Leaves out the beginning.
    fn leave_out(&mut self, beginning: Duration) {
        if beginning == Duration::ZERO {
            return;
        }
        if let Some(RateConfig::Series(rates)) = &mut self.rate {
            *rates = series::from(rates, beginning);
        }
        self.rtt = self.rtt.take().map(|rtts| series::from(&rtts, beginning));
        self.loss = self.loss.take().map(|losses| series::from(&losses, beginning));
        self.notes.length = self.notes.length - beginning;
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is none, cannot be read, or is no trace: which line, why, and what to write.
    pub fn load(path: &Path, options: &TraceOptions) -> Result<Self, TraceFileError> {
        let (mut lines, compression) = Lines::open(path)?;
        let mut trace = Self::read(&mut lines, options)?;
        trace.notes.compression = compression;
        Ok(trace)
    }

    fn read(lines: &mut Lines, options: &TraceOptions) -> Result<Self, TraceFileError> {
        if let Some(json) = lines.json()? {
            return Self::of_log(logs::table(&json, options)?);
        }
        let mut line = String::new();
        // The last comment before the rows: it may name the columns.
        let mut comment = String::new();
        // Empty lines and comments count, so that an error has its line.
        while lines.next(&mut line)? {
            let text = line.trim();
            if text.is_empty() || table::is_before_data(text) {
                continue;
            }
            if text.starts_with('#') {
                text.trim_start_matches('#').trim().clone_into(&mut comment);
                continue;
            }
            if pings::is_first(text) {
                return Self::of_log(pings::table(lines, &mut line, options)?);
            }
            let is_one_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let is_table = options.interval.is_some() || options.delays_alone;
            if is_one_number && options.columns.is_empty() && !is_table {
                return mahimahi(lines, &mut line, options);
            }
            return Table::begin(text, lines.number(), &comment, options)?.read(lines, &mut line);
        }
        wrong("the trace is empty; write a time a line, or rows of time and rate")
    }
}

impl Trace {
    fn of_log(log: AsTable) -> Result<Self, TraceFileError> {
        let AsTable { program, text, options } = log;
        let (mut lines, _) = Lines::of(Cursor::new(text))?;
        let trace = Self::read(&mut lines, &options);
        let mut trace = trace.map_err(|e| TraceFileError(format!("{program} as a table: {e}")))?;
        trace.notes.program = Some(program);
        Ok(trace)
    }
}

fn mahimahi(
    lines: &mut Lines,
    line: &mut String,
    options: &TraceOptions,
) -> Result<Trace, TraceFileError> {
    let unused = [
        ("time_unit", options.time_unit.is_some()),
        ("time_format", options.time_format.is_some()),
        ("rate_unit", options.rate_unit.is_some()),
        ("rtt_unit", options.rtt_unit.is_some()),
        ("interpolation", options.interpolation.is_some()),
        ("repeat", options.repeat == Some(false)),
    ];
    if let Some((name, _)) = unused.into_iter().find(|(_, is_there)| *is_there) {
        return wrong(format!(
            "it is in Mahimahi's format, whose times are milliseconds and begin again; leave out {name}"
        ));
    }
    let error = |e: fullpipe_path::TraceError| TraceFileError(e.to_string());
    let mut reader = MahimahiReader::after(lines.number() - 1);
    loop {
        reader.line(line).map_err(error)?;
        if reader.opportunities() > MAX_OPPORTUNITIES {
            return wrong(format!("more than {MAX_OPPORTUNITIES} times; write a shorter one"));
        }
        if !lines.next(line)? {
            return Ok(Trace::of_rate(reader.finish().map_err(error)?));
        }
    }
}

#[cfg(test)]
mod delay_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod units_tests;
