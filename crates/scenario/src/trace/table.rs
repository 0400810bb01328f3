//! Rows of numbers, as columns of time, rate, round-trip time and loss.

use fullpipe_cc::Duration;

use super::dates::{Civil, DAY, formats_of, is_format};
use super::header::{Column, Header, Role};
use super::lines::Lines;
use super::logs::in_quotes;
use super::series::{self, Rows};
use super::units::{RateUnit, TimeUnit, plausible};
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
    /// The first time.
    zero: Option<Zero>,
    /// The first value of the column that is the same in all rows of one path.
    path: Option<String>,
    /// The first cell of the rows that count, in a table with rows of several kinds.
    kind: Option<String>,
    rows: Rows,
    notes: Notes,
    /// The first row, where it is no header.
    first: Option<(String, usize)>,
}

/// The first time of a table.
#[derive(Clone, Copy, Debug)]
enum Zero {
    /// A number in its own unit, and the unit: nanoseconds and its sign.
    Number(f64, (f64, &'static str)),
    /// Nanoseconds since 1970.
    Date(i128),
    /// Nanoseconds since midnight, and the last time since then.
    TimeOfDay(i128, i128),
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

/// True of a line that cake-autorate writes before the names of the columns of its data.
pub(super) fn is_before_data(line: &str) -> bool {
    const KINDS: [&str; 12] = [
        "SYSLOG",
        "INFO",
        "DEBUG",
        "WARNING",
        "ERROR",
        "SHAPER",
        "LOAD_HEADER",
        "LOAD",
        "REFLECTOR_HEADER",
        "REFLECTOR",
        "CPU_HEADER",
        "CPU",
    ];
    line.split_once(';').is_some_and(|(kind, _)| KINDS.contains(&kind))
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
        let is_value = |cell: &&str| number(cell).is_some() || Civil::of(cell).is_some();
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
        let units = [
            ("time_unit", options.time_unit.is_some()),
            ("time_format", options.time_format.is_some()),
        ];
        if let (true, Some((field, _))) =
            (options.interval.is_some(), units.iter().find(|(_, is_there)| *is_there))
        {
            return wrong(format!("interval says the times; leave out {field}"));
        }
        if options.time_unit.is_some() && options.time_format.is_some() {
            return wrong("a date has no unit; leave out time_unit or time_format");
        }
        if let Some(format) = options.time_format.as_ref().filter(|format| !is_format(format)) {
            return wrong(format!(
                "time_format: '{}' is no format of times; write one as %d.%m.%Y %H:%M:%S",
                format.escape_debug()
            ));
        }
        let notes = Notes { unused: header.unused.clone(), ..Notes::default() };
        let are_amounts = options.rate_unit == Some(RateUnit::BytesPerRow);
        let rows = Rows::with(|role| header.column(role).is_some(), are_amounts);
        let kind = cells[0].strip_suffix("_HEADER").map(str::to_owned);
        Ok(Self {
            options,
            separator,
            cells: cells.len(),
            header,
            zero: None,
            path: None,
            kind,
            rows,
            notes,
            first,
        })
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
        if self.kind.as_ref().is_some_and(|kind| cells[0] != kind) {
            self.notes.other_rows += 1;
            return Ok(());
        }
        if cells.iter().skip(self.cells).any(|cell| !cell.is_empty()) {
            return wrong(format!(
                "{} cells where the first line has {}; a comma inside of a number needs another separator between them",
                cells.len(),
                self.cells
            ));
        }
        if let Some((index, name)) = self.header.of_path {
            let path = *cells.get(index).unwrap_or(&"");
            let first = self.path.get_or_insert_with(|| path.to_owned());
            if first != path {
                let keep = in_quotes(&format!("NR == 1 || ${} == \"{first}\"", index + 1));
                let between = match self.separator {
                    Separator::Char(c) => format!("-F '{}' ", c.escape_default()),
                    Separator::Space => String::new(),
                };
                return wrong(format!(
                    "its {name} differs from that of the rows above, so that it is of another path; keep one: awk \
                     {between}{keep}"
                ));
            }
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
        let said = column.scale.map(|nanos| (nanos, column.unit));
        let format = self.options.time_format.as_deref();
        let since = match number(cell).filter(|_| format.is_none()) {
            Some(value) => {
                let usual = TimeUnit::of_epoch(value);
                let unit = said.unwrap_or((usual.nanos(), usual.name()));
                let Zero::Number(zero, (unit_nanos, _)) =
                    *self.zero.get_or_insert(Zero::Number(value, unit))
                else {
                    return wrong(format!("{value} is a number, and the times above are none"));
                };
                let since = (value - zero) * unit_nanos;
                // Numbers since 1970 have no digits left for nanoseconds.
                let exact = if zero.abs() >= 1e8 { (since / 1e3).round() * 1e3 } else { since };
                exact.round() as i128
            }
            None => {
                let civil = format.map_or_else(|| Civil::of(cell), |f| Civil::by(cell, f));
                let first = match civil {
                    Some(Civil::Since1970(at)) => Zero::Date(at),
                    Some(Civil::OfDay(at)) => Zero::TimeOfDay(at, at),
                    None => return wrong(no_time(cell, format)),
                };
                match (self.zero.get_or_insert(first), first) {
                    (Zero::Date(zero), Zero::Date(at)) => at - *zero,
                    (Zero::TimeOfDay(zero, last), Zero::TimeOfDay(at, _)) => {
                        // Behind midnight it is the next day.
                        let same_day = at + last.div_euclid(DAY) * DAY;
                        *last = if same_day + DAY / 2 < *last { same_day + DAY } else { same_day };
                        *last - *zero
                    }
                    _ => return wrong("its time is written in another way than those above"),
                }
            }
        };
        if since < 0 {
            return wrong("its time is before that of the first row; put the rows in order");
        }
        if since >= 9_200_000_000_000_000_000 {
            return wrong("its time is more than 292 years after the first row");
        }
        Ok(since as u64)
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
        self.notes.begin = match self.zero {
            Some(Zero::Date(at)) => Some(at),
            // Clocks that began with the machine have not come so far.
            Some(Zero::Number(zero, (unit, _))) if (1e18..1e20).contains(&(zero * unit)) => {
                Some((zero * unit / 1e3).round() as i128 * 1000)
            }
            _ => None,
        };
        if self.options.rate_unit == Some(RateUnit::BytesPerRow) {
            self.rows.divide_by_times(median)?;
            self.notes.begin = self.notes.begin.map(|begin| begin - i128::from(median));
        }
        // What a program always writes, and had no values for.
        if self.options.columns.is_empty() {
            for role in self.rows.drop_empty() {
                let (empty, read) = std::mem::take(&mut self.header.columns)
                    .into_iter()
                    .partition(|column| column.role == role);
                self.header.columns = read;
                self.notes.unused.extend(Vec::into_iter(empty).map(|column: Column| column.name));
            }
        }
        self.notes.columns = self.header.columns.iter().map(|c| self.described(c)).collect();
        let name = |role: Role| self.header.column(role).map(|column| column.name.clone());
        self.notes.rate_columns =
            Columns { time: name(Role::Time), rate: name(Role::Rate), ..Columns::default() };
        series::trace(self.rows, self.notes, self.options)
    }

    /// A column's name, meaning and unit.
    fn described(&self, column: &Column) -> String {
        let unit = match (column.role, self.zero) {
            (Role::Time, Some(Zero::Number(_, (_, unit)))) => unit,
            (Role::Time, Some(Zero::Date(_))) => "date",
            (Role::Time, Some(Zero::TimeOfDay(..))) => "time of day",
            (Role::Delay, _) => {
                let name = printable(&column.name);
                return format!("{name} (delay, {} in each direction)", column.unit);
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
    plausible(column, value)
}

/// A cell that is no time, and what to write.
fn no_time(cell: &str, format: Option<&str>) -> String {
    let shown = printable(cell);
    if let Some(format) = format {
        return format!("\"{shown}\" is not as time_format = \"{}\" says", format.escape_debug());
    }
    match formats_of(cell).as_slice() {
        [] => format!(
            "\"{shown}\" is no time; write seconds, as 1.5, name the column of times, columns = {{ time = \"…\", … }}, \
             or say how they are written, time_format = \"%d.%m.%Y %H:%M:%S\""
        ),
        fit => format!(
            "\"{shown}\" may be one of several times; write how it is meant: --time-format '{}', in a table \
             time_format = \"{}\"",
            fit.join("' or '"),
            fit[0]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_between_separators_without_their_quotes() {
        let cells = |line: &str| Separator::of(line).split(line).join("|");
        assert_eq!(cells("a, b ,\"c,d\",,"), "a|b|c,d||");
        assert_eq!(cells("0.5\t\"1\"\t2"), "0.5|1|2");
        assert_eq!(cells("  0.5   1 "), "0.5|1");
        assert_eq!(cells("1;2"), "1|2");
    }
}
