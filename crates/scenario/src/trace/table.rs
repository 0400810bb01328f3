//! Rows of numbers, as columns of time, rate, round-trip time and loss.

use fullpipe_cc::Duration;

use super::header::{Column, Header, Role, TimeUnit};
use super::lines::Lines;
use super::series::{self, Rows};
use super::{Columns, Gaps, Notes, Trace, TraceFileError, TraceOptions, wrong};

/// The most rows: a day with a row each 10 ms has 8.6 million.
pub(super) const MAX_ROWS: usize = 10_000_000;

/// Cells that say that there is no value.
const MISSING: [&str; 8] = ["", "nan", "na", "n/a", "null", "none", "-", "--"];

/// A table that is being read.
pub(super) struct Table<'a> {
    options: &'a TraceOptions,
    separator: Separator,
    /// Cells of the first line.
    cells: usize,
    header: Header,
    /// The first time, in its own unit, and the unit's nanoseconds.
    zero: Option<(f64, f64)>,
    rows: Rows,
    notes: Notes,
    /// The first row, where it is no header.
    first: Option<(String, usize)>,
}

/// The character between two cells.
#[derive(Clone, Copy, Debug)]
enum Separator {
    Char(char),
    Space,
}

impl Separator {
    fn of(line: &str) -> Self {
        let found = [',', ';', '\t'].into_iter().find(|c| line.contains(*c));
        found.map_or(Self::Space, Self::Char)
    }

    /// The cells of a line, without quotes around them.
    fn split(self, line: &str) -> Vec<&str> {
        let Self::Char(separator) = self else {
            return line.split_whitespace().map(bare).collect();
        };
        let (mut start, mut is_quoted) = (0, false);
        let mut cells = Vec::with_capacity(4);
        for (i, c) in line.char_indices() {
            if c == '"' {
                is_quoted = !is_quoted;
            } else if c == separator && !is_quoted {
                cells.push(bare(&line[start..i]));
                start = i + c.len_utf8();
            }
        }
        cells.push(bare(&line[start..]));
        cells
    }
}

/// A cell without spaces and quotes around it.
fn bare(cell: &str) -> &str {
    let cell = cell.trim();
    cell.strip_prefix('"').and_then(|c| c.strip_suffix('"')).map_or(cell, str::trim)
}

/// A cell, on one line and not too long.
fn printable(cell: &str) -> String {
    let start: String = cell.chars().take(40).flat_map(char::escape_debug).collect();
    if cell.chars().nth(40).is_some() { start + "…" } else { start }
}

fn is_missing(cell: &str) -> bool {
    MISSING.iter().any(|missing| cell.eq_ignore_ascii_case(missing))
}

fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The header in a comment with so many cells: its names say the columns of a table. Any other
/// comment is none.
fn commented(comment: &str, cells: usize, options: &TraceOptions) -> Option<Header> {
    let names = Separator::of(comment).split(comment);
    if names.len() != cells || names.iter().any(|name| number(name).is_some()) {
        return None;
    }
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let header = Header::named(&names, options).ok()?;
    (options.interval.is_some() || header.column(Role::Time).is_some()).then_some(header)
}

impl<'a> Table<'a> {
    /// Begins with the first line that is neither empty nor a comment. The comment above it may be
    /// that of the columns' names.
    pub(super) fn begin(
        line: &str,
        line_number: usize,
        comment: &str,
        options: &'a TraceOptions,
    ) -> Result<Self, TraceFileError> {
        if options.interval.is_some() && options.columns.time.is_some() {
            return wrong("interval says the times, and so does columns.time; write one of them");
        }
        if options.interval == Some(Duration::ZERO) {
            return wrong("an interval of 0 leaves no time to a row; write one like 100ms");
        }
        let separator = Separator::of(line);
        let cells = separator.split(line);
        let is_value = |cell: &&str| number(cell).is_some() || civil_nanos(cell).is_some();
        let (header, first) = if cells.iter().any(is_value) {
            // A first line of times alone could still be text, which its own line then tells.
            let header = match commented(comment, cells.len(), options) {
                Some(header) => header,
                None => Header::in_order(cells.len(), options)?,
            };
            (header, Some((line.to_owned(), line_number)))
        } else {
            let names: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
            (Header::named(&names, options)?, None)
        };
        if options.interval.is_none() && header.column(Role::Time).is_none() {
            return wrong(
                "no column is known as the time; write columns = { time = \"…\", … }, or interval = \"10ms\" for a row \
                 each 10 ms",
            );
        }
        if options.interval.is_some() && options.time_unit.is_some() {
            return wrong("interval says the times, and time_unit their unit; leave out time_unit");
        }
        let notes = Notes { unused: header.unused.clone(), ..Notes::default() };
        let rows = Rows::with(|role| header.column(role).is_some());
        Ok(Self { options, separator, cells: cells.len(), header, zero: None, rows, notes, first })
    }

    /// Reads the rows.
    pub(super) fn read(
        mut self,
        lines: &mut Lines,
        line: &mut String,
    ) -> Result<Trace, TraceFileError> {
        if let Some((first, number)) = self.first.take() {
            self.row(&first).map_err(|e| TraceFileError(format!("line {number}: {e}")))?;
        }
        while lines.next(line)? {
            let text = line.trim_end();
            if text.trim_start().is_empty() || text.trim_start().starts_with('#') {
                continue;
            }
            self.row(text).map_err(|e| TraceFileError(format!("line {}: {e}", lines.number())))?;
            if self.rows.len() > MAX_ROWS {
                return wrong(format!("more than {MAX_ROWS} rows; write a shorter one"));
            }
        }
        self.finish()
    }

    fn row(&mut self, line: &str) -> Result<(), TraceFileError> {
        let cells = self.separator.split(line);
        if cells.iter().skip(self.cells).any(|cell| !cell.is_empty()) {
            return wrong(format!(
                "{} cells where the first line has {}; a comma inside of a number needs another separator between them",
                cells.len(),
                self.cells
            ));
        }
        let time = match self.options.interval {
            Some(interval) => {
                // Rows that were taken in place of others do not occur without times.
                (interval.as_nanos()).saturating_mul(self.rows.len() as u64)
            }
            None => self.time(&cells)?,
        };
        if self.rows.times.last().is_some_and(|last| time < *last) {
            return wrong("its time is before that of the row above; put the rows in order");
        }
        let repeats = self.rows.times.last() == Some(&time) && self.options.interval.is_none();
        self.rows.times.push(time);
        for i in 0..self.header.columns.len() {
            let column = &self.header.columns[i];
            if column.role == Role::Time {
                continue;
            }
            let cell = *cells.get(column.index).unwrap_or(&"");
            if is_missing(cell) {
                self.notes.missing_cells += 1;
                self.rows.push_missing(column.role);
                continue;
            }
            let value = value(column, cell)?;
            self.rows.push(column.role, value);
        }
        if repeats {
            self.rows.merge_last();
            self.notes.repeated_times += 1;
        }
        Ok(())
    }

    /// Nanoseconds since the first row.
    fn time(&mut self, cells: &[&str]) -> Result<u64, TraceFileError> {
        let Some(column) = self.header.column(Role::Time) else { return Ok(0) };
        let cell = *cells.get(column.index).unwrap_or(&"");
        let (value, is_civil) = match number(cell) {
            Some(value) => (value, false),
            None => match civil_nanos(cell) {
                // To the microsecond, as a number since 1970 is.
                Some(nanos) => ((nanos / 1000) as f64, true),
                None => {
                    return wrong(format!(
                        "\"{}\" is no time; write seconds, as 1.5, or name the column of times: columns = {{ time = \
                         \"…\", … }}",
                        printable(cell)
                    ));
                }
            },
        };
        let (zero, scale) = *self.zero.get_or_insert_with(|| {
            let epoch = || TimeUnit::of_epoch(value).nanos();
            let scale = match (is_civil, self.options.time_unit, column.scale) {
                (true, ..) => 1e3,
                (false, Some(unit), _) => unit.nanos(),
                (false, None, said) => said.unwrap_or_else(epoch),
            };
            (value, scale)
        });
        let since = (value - zero) * scale;
        if since < 0.0 {
            return wrong("its time is before that of the first row; put the rows in order");
        }
        if since >= 9.2e18 {
            return wrong("its time is more than 292 years after the first row");
        }
        // Numbers since 1970 have no digits left for nanoseconds.
        let exact = if zero.abs() >= 1e8 { (since / 1e3).round() * 1e3 } else { since.round() };
        Ok(exact as u64)
    }

    fn finish(mut self) -> Result<Trace, TraceFileError> {
        let times = &self.rows.times;
        if times.is_empty() {
            return wrong("it has names of columns and no rows; write a row of numbers a line");
        }
        let mut steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let longest = steps.iter().copied().max().unwrap_or(0);
        let middle = steps.len() / 2;
        let median = match steps.is_empty() {
            true => self.options.interval.map_or(0, Duration::as_nanos),
            false => *steps.select_nth_unstable(middle).1,
        };
        let gaps = steps.iter().filter(|step| **step > median.saturating_mul(3)).count();
        self.notes.step = Duration::from_nanos(median);
        self.notes.gaps = Gaps { count: gaps, longest: Duration::from_nanos(longest) };
        self.notes.rows = times.len();
        self.notes.length =
            Duration::from_nanos(times.last().copied().unwrap_or(0).saturating_add(median));
        self.notes.columns = self.header.columns.iter().map(|c| self.described(c)).collect();
        let name = |role: Role| self.header.column(role).map(|column| column.name.clone());
        self.notes.rate_columns =
            Columns { time: name(Role::Time), rate: name(Role::Rate), ..Columns::default() };
        series::trace(self.rows, self.notes, self.options)
    }

    /// A column's name, meaning and unit.
    fn described(&self, column: &Column) -> String {
        let unit = match (column.role, self.zero) {
            (Role::Time, Some((_, scale))) => {
                let units =
                    [TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos];
                units.into_iter().find(|u| u.nanos() == scale).map_or("", TimeUnit::name)
            }
            _ => column.unit,
        };
        format!("{} ({}, {unit})", printable(&column.name), column.role.name())
    }
}

/// The value of a cell in bytes per second, nanoseconds or as a probability.
fn value(column: &Column, cell: &str) -> Result<f64, TraceFileError> {
    let name = column.role.name();
    let Some(value) = number(cell) else {
        return wrong(format!(
            "\"{}\" is no number, and the column is the {name}",
            printable(cell)
        ));
    };
    if value < 0.0 {
        return wrong(format!(
            "a {name} of {value} is below 0; leave the cell empty where there is none"
        ));
    }
    let scaled = value * column.scale.unwrap_or(1.0);
    match column.role {
        Role::Loss if scaled > 1.0 => wrong(format!(
            "a loss of {value} is more than 1, which is everything; if these are percent, call the column loss_percent"
        )),
        Role::Rate if scaled > 1e15 => {
            wrong(format!("a rate of {value:e} {} is too fast", column.unit))
        }
        Role::Rtt if scaled > 60e9 => {
            wrong(format!("an RTT of {value} {} is more than a minute", column.unit))
        }
        _ => Ok(scaled),
    }
}

/// Nanoseconds since 1970 of a date and time as ISO 8601 has it, without which a row's time is a
/// number: `2024-05-01T12:00:00.250Z`, also with a space in the middle. An offset from UTC, as
/// `+02:00`, `+0200` or `+02`, is taken away: it may change within a file. Without one it is UTC.
fn civil_nanos(cell: &str) -> Option<i128> {
    let (date, time) = cell.split_once(['T', ' '])?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1000..=9999).contains(&year) {
        return None;
    }
    let end = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let offset = offset_minutes(time[end..].trim_end())?;
    let mut parts = time[..end].splitn(3, ':');
    let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let second = parts.next().map_or(Some(0.0), number)?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..61.0).contains(&second) {
        return None;
    }
    // Days since 1970 of the Gregorian calendar, with years that begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let seconds = i128::from(days * 86_400 + hour * 3_600 + (minute - offset) * 60);
    Some(seconds * 1_000_000_000 + (second * 1e9).round() as i128)
}

/// Minutes east of UTC.
fn offset_minutes(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes() {
        [] | [b'Z'] => return Some(0),
        [b'+', ..] => (1, &text[1..]),
        [b'-', ..] => (-1, &text[1..]),
        _ => return None,
    };
    let digits = digits.replacen(':', "", 1);
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hours = digits[..2].parse::<i64>().ok()?;
    let minutes = if digits.len() == 4 { digits[2..].parse::<i64>().ok()? } else { 0 };
    (hours < 24 && minutes < 60).then_some(sign * (60 * hours + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_counted_from_1970() {
        let s = |cell: &str| civil_nanos(cell).map(|ns| ns as f64 / 1e9);
        assert_eq!(s("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(s("2024-02-29 23:59:59.5"), Some(1_709_251_199.5));
        for (east, hours) in [("+01:00", -1.0), ("-0530", 5.5), ("+02", -2.0), ("Z ", 0.0)] {
            let shifted = Some(1_709_251_200.0 + 3_600.0 * hours);
            assert_eq!(s(&format!("2024-03-01T00:00:00{east}")), shifted, "{east}");
        }
        for not in [
            "",
            "12:00",
            "2024-13-01T00:00:00",
            "2024-01-01",
            "1-2-3 4:5",
            "a b",
            "2024-03-01T00:00:00+1",
            "2024-03-01T00:00:00+25:00",
            "2024-03-01T00:00:00Zulu",
        ] {
            assert_eq!(s(not), None, "{not}");
        }
    }

    #[test]
    fn cells_are_between_separators_without_their_quotes() {
        let cells = |line: &str| Separator::of(line).split(line).join("|");
        assert_eq!(cells("a, b ,\"c,d\",,"), "a|b|c,d||");
        assert_eq!(cells("0.5\t\"1\"\t2"), "0.5|1|2");
        assert_eq!(cells("  0.5   1 "), "0.5|1");
        assert_eq!(cells("1;2"), "1|2");
    }
}
