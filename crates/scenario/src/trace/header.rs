//! The columns of a table: what each one is, and in which unit.

use super::{Columns, TraceFileError, TraceOptions, wrong};

/// Meaning of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Time,
    Rate,
    Rtt,
    Loss,
}

impl Role {
    pub(super) const ALL: [Self; 4] = [Self::Time, Self::Rate, Self::Rtt, Self::Loss];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Rtt => "rtt",
            Self::Loss => "loss",
        }
    }
}

/// Unit of a time.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Deserialize, serde::Serialize,
)]
pub enum TimeUnit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
}

impl TimeUnit {
    const ALL: [Self; 4] = [Self::Seconds, Self::Millis, Self::Micros, Self::Nanos];

    /// Its sign.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        }
    }

    pub(super) const fn nanos(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Millis => 1e6,
            Self::Micros => 1e3,
            Self::Nanos => 1.0,
        }
    }

    fn of_words(words: &[String]) -> Option<Self> {
        let is = |word: &str, unit: Self| match unit {
            Self::Seconds => matches!(word, "s" | "sec" | "secs" | "second" | "seconds"),
            Self::Millis => {
                matches!(word, "ms" | "msec" | "millis" | "millisecond" | "milliseconds")
            }
            Self::Micros => matches!(word, "us" | "µs" | "μs" | "usec" | "micros" | "microseconds"),
            Self::Nanos => matches!(word, "ns" | "nsec" | "nanos" | "nanoseconds"),
        };
        words.iter().find_map(|word| Self::ALL.into_iter().find(|unit| is(word, *unit)))
    }

    /// The unit of a time since 1970, by its size; seconds for one that is none.
    pub(super) fn of_epoch(value: f64) -> Self {
        match value {
            v if v >= 1e17 => Self::Nanos,
            v if v >= 1e14 => Self::Micros,
            v if v >= 1e11 => Self::Millis,
            _ => Self::Seconds,
        }
    }
}

/// A column that is read.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) role: Role,
    /// Place in a row, from 0.
    pub(super) index: usize,
    /// Its name, or its number from 1.
    pub(super) name: String,
    /// Factor to bytes per second, nanoseconds or a probability; of times only if the header says
    /// it.
    pub(super) scale: Option<f64>,
    /// The unit for people.
    pub(super) unit: &'static str,
}

/// The columns that are read, and the names of the others.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) columns: Vec<Column>,
    pub(super) unused: Vec<String>,
}

/// The words of a column's name in small letters: `Throughput (Mbps)` has `throughput` and `mbps`.
fn words(name: &str) -> Vec<String> {
    let split = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    split.map(str::to_lowercase).collect()
}

fn has(words: &[String], any: &[&str]) -> bool {
    words.iter().any(|word| any.contains(&word.as_str()))
}

const RATE_UNITS: [(&[&str], f64, &str); 4] = [
    (&["gbps", "gbit", "gbits"], 1e9 / 8.0, "Gbit/s"),
    (&["mbps", "mbit", "mbits"], 1e6 / 8.0, "Mbit/s"),
    (&["kbps", "kbit", "kbits"], 1e3 / 8.0, "kbit/s"),
    (&["bps", "bit", "bits"], 1.0 / 8.0, "bit/s"),
];

/// Units that differ in capital letters, or that words of letters and digits would cut in two.
const EXACT_UNITS: [(&[&str], f64, &str); 11] = [
    (&["GiB/s"], 1_073_741_824.0, "GiB/s"),
    (&["MiB/s"], 1_048_576.0, "MiB/s"),
    (&["KiB/s", "kiB/s"], 1024.0, "KiB/s"),
    (&["GB/s", "GBps"], 1e9, "GB/s"),
    (&["MB/s", "MBps"], 1e6, "MB/s"),
    (&["kB/s", "KB/s", "kBps", "KBps"], 1e3, "kB/s"),
    (&["B/s", "Bps"], 1.0, "B/s"),
    (&["Gb/s", "gb/s"], 1e9 / 8.0, "Gbit/s"),
    (&["Mb/s", "mb/s"], 1e6 / 8.0, "Mbit/s"),
    (&["Kb/s", "kb/s"], 1e3 / 8.0, "kbit/s"),
    (&["b/s"], 1.0 / 8.0, "bit/s"),
];

/// Bytes in full; `per second` goes without saying.
const BYTE_WORDS: [(&[&str], f64, &str); 4] = [
    (&["gbyte", "gbytes", "gigabytes"], 1e9, "GB/s"),
    (&["mbyte", "mbytes", "megabytes"], 1e6, "MB/s"),
    (&["kbyte", "kbytes", "kilobytes"], 1e3, "kB/s"),
    (&["byte", "bytes"], 1.0, "B/s"),
];

/// Of the other direction: not the rate where there is another one.
const UPWARDS: [&str; 5] = ["up", "upload", "ul", "uplink", "upstream"];

/// The meaning of a column by its name.
fn role_of(name: &str) -> Option<Role> {
    let words = words(name);
    let rates = ["rate", "throughput", "bandwidth", "bw", "goodput", "capacity", "tput", "speed"];
    let is_rate_unit = || {
        RATE_UNITS.iter().any(|(names, ..)| has(&words, names))
            || EXACT_UNITS.iter().any(|(names, ..)| names.iter().any(|unit| name.contains(unit)))
            || BYTE_WORDS.iter().any(|(names, ..)| has(&words, names))
                && has(&words, &["s", "sec", "second", "per"])
    };
    let times = ["time", "t", "timestamp", "ts", "epoch", "date", "datetime", "elapsed"];
    match () {
        () if has(&words, &["rtt", "ping", "latency"]) => Some(Role::Rtt),
        // `loss_rate` is a loss.
        () if has(&words, &["loss", "lost", "plr"]) => Some(Role::Loss),
        () if has(&words, &rates) || is_rate_unit() => Some(Role::Rate),
        () if has(&words, &["download", "dl", "downlink"]) => Some(Role::Rate),
        () if has(&words, &times) => Some(Role::Time),
        () if words.len() == 1 && TimeUnit::of_words(&words).is_some() => Some(Role::Time),
        () => None,
    }
}

/// Factor and unit of a column.
fn unit_of(role: Role, name: &str) -> (Option<f64>, &'static str) {
    let words = words(name);
    match role {
        Role::Time => match TimeUnit::of_words(&words) {
            Some(unit) => (Some(unit.nanos()), unit.name()),
            None => (None, ""),
        },
        Role::Rate => {
            let exact =
                EXACT_UNITS.iter().find(|(names, ..)| names.iter().any(|u| name.contains(u)));
            let bits = || RATE_UNITS.iter().find(|(names, ..)| has(&words, names));
            let bytes = || BYTE_WORDS.iter().find(|(names, ..)| has(&words, names));
            match exact.or_else(bits).or_else(bytes) {
                Some((_, scale, unit)) => (Some(*scale), unit),
                // A unit that is not known, and not one that goes without saying.
                None if name.contains('/') || has(&words, &["per", "sec"]) => (None, ""),
                None => (Some(RATE_UNITS[1].1), RATE_UNITS[1].2),
            }
        }
        Role::Rtt => {
            let unit = TimeUnit::of_words(&words).unwrap_or(TimeUnit::Millis);
            (Some(unit.nanos()), unit.name())
        }
        Role::Loss if name.contains('%') || has(&words, &["percent", "pct", "percentage"]) => {
            (Some(0.01), "percent")
        }
        Role::Loss => (Some(1.0), "from 0 to 1"),
    }
}

fn column(role: Role, index: usize, name: &str) -> Column {
    let (scale, unit) = unit_of(role, name);
    Column { role, index, name: name.to_owned(), scale, unit }
}

/// The columns' names for an error.
fn list(names: &[String]) -> String {
    let quoted: Vec<String> =
        names.iter().take(12).map(|n| format!("'{}'", n.escape_debug())).collect();
    quoted.join(", ")
}

const LIKE: &str = "columns = { time = \"…\", rate = \"…\" }";

impl Header {
    /// Columns by their names.
    pub(super) fn named(names: &[String], options: &TraceOptions) -> Result<Self, TraceFileError> {
        if !options.columns.is_empty() {
            return Self::chosen(names, true, &options.columns);
        }
        let mut columns: Vec<Column> = Vec::new();
        for role in Role::ALL {
            let of_role = |name: &String| role_of(name) == Some(role);
            let mut found: Vec<usize> = (0..names.len()).filter(|i| of_role(&names[*i])).collect();
            if found.len() > 1 {
                let is_up = |i: &usize| has(&words(&names[*i]), &UPWARDS);
                found.retain(|i| !is_up(i));
            }
            match found.as_slice() {
                [] => {}
                [one] => columns.push(column(role, *one, &names[*one])),
                [one, other, ..] => {
                    return wrong(format!(
                        "'{}' and '{}' could both be the {}; write {LIKE}",
                        names[*one].escape_debug(),
                        names[*other].escape_debug(),
                        role.name()
                    ));
                }
            }
        }
        Self { columns, unused: Vec::new() }.checked(names, options)
    }

    /// Columns without names, in the usual order.
    pub(super) fn in_order(count: usize, options: &TraceOptions) -> Result<Self, TraceFileError> {
        let names: Vec<String> = (1..=count).map(|i| i.to_string()).collect();
        if !options.columns.is_empty() {
            return Self::chosen(&names, false, &options.columns);
        }
        let roles: &[Role] = match (count, options.interval.is_some()) {
            (1..=3, true) => &Role::ALL[1..],
            (2..=4, false) => &Role::ALL,
            (1, false) => {
                return wrong(
                    "one column, which is not of whole milliseconds as in Mahimahi's format; for a rate each 100 ms \
                     write interval = \"100ms\"",
                );
            }
            _ => {
                return wrong(format!(
                    "{count} columns without names; write columns = {{ time = 1, rate = 2 }}, or a first line that \
                     names them"
                ));
            }
        };
        let columns = roles.iter().zip(0..count).map(|(role, i)| column(*role, i, ""));
        let columns = columns.map(|c| Column { name: names[c.index].clone(), ..c }).collect();
        Self { columns, unused: Vec::new() }.checked(&names, options)
    }

    /// The columns that the options name.
    fn chosen(names: &[String], has_names: bool, chosen: &Columns) -> Result<Self, TraceFileError> {
        let all = [
            (Role::Time, &chosen.time),
            (Role::Rate, &chosen.rate),
            (Role::Rtt, &chosen.rtt),
            (Role::Loss, &chosen.loss),
        ];
        let mut columns = Vec::new();
        for (role, wanted) in all {
            let Some(wanted) = wanted else { continue };
            let by_name = names.iter().position(|name| name.eq_ignore_ascii_case(wanted));
            let number = wanted.parse::<usize>().ok();
            let by_number = number.filter(|n| (1..=names.len()).contains(n)).map(|n| n - 1);
            let Some(index) = by_name.or(by_number) else {
                return wrong(format!(
                    "columns.{}: there is no '{}'; the columns are {}",
                    role.name(),
                    wanted.escape_debug(),
                    list(names)
                ));
            };
            let name = if has_names { names[index].as_str() } else { "" };
            columns.push(Column { name: names[index].clone(), ..column(role, index, name) });
        }
        Self { columns, unused: Vec::new() }.checked(names, &TraceOptions::default())
    }

    fn checked(mut self, names: &[String], options: &TraceOptions) -> Result<Self, TraceFileError> {
        if !self.columns.iter().any(|column| column.role != Role::Time) {
            return wrong(format!(
                "no column is known as a rate, an RTT or a loss: they are {}; write {LIKE}",
                list(names)
            ));
        }
        let has_no_unit = |c: &&Column| c.role == Role::Rate && c.scale.is_none();
        if let Some(column) = self.columns.iter().find(has_no_unit) {
            return wrong(format!(
                "the unit of '{}' is not known; call the column mbps, kbps, or rate (MB/s)",
                column.name.escape_debug()
            ));
        }
        if options.interval.is_some() {
            self.columns.retain(|column| column.role != Role::Time);
        }
        let is_used = |i: &usize| self.columns.iter().any(|column| column.index == *i);
        let unused = (0..names.len()).filter(|i| !is_used(i)).map(|i| names[i].clone()).collect();
        Ok(Self { unused, ..self })
    }

    pub(super) fn column(&self, role: Role) -> Option<&Column> {
        self.columns.iter().find(|column| column.role == role)
    }
}
