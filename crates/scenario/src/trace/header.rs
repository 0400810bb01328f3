//! The columns of a table: what each one is, and in which unit.

use super::known::{Known, Unit};
use super::names::{
    begins_with, has_unknown_unit, is_a_spread, is_an_amount, is_of_a_vehicle, is_upwards, role_of,
    said_rate, said_time, says_percent,
};
use super::units::{RateUnit, TimeUnit};
use super::{Columns, TraceFileError, TraceOptions, wrong};

/// Meaning of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Time,
    Rate,
    Rtt,
    /// A one-way delay, which counts for both directions.
    Delay,
    Loss,
}

impl Role {
    pub(super) const ALL: [Self; 5] = [Self::Time, Self::Rate, Self::Rtt, Self::Delay, Self::Loss];

    /// The order of columns without names.
    const USUAL: [Self; 4] = [Self::Time, Self::Rate, Self::Rtt, Self::Loss];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Rtt => "rtt",
            Self::Delay => "delay",
            Self::Loss => "loss",
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
    /// True if its name says the unit.
    pub(super) says_unit: bool,
}

/// The columns that are read, and the names of the others.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) columns: Vec<Column>,
    pub(super) unused: Vec<String>,
    /// Place and name of a column that is the same in all rows of one path.
    pub(super) of_path: Option<(usize, &'static str)>,
}

/// True if two names of columns are the same but for capital letters.
pub(super) fn same(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// Refuses an option that says another unit than the column's name.
fn agreed(
    name: &str,
    said: Option<(f64, &'static str)>,
    asked: Option<(f64, &'static str)>,
    field: &str,
) -> Result<Option<(f64, &'static str)>, TraceFileError> {
    match (said, asked) {
        (Some((of_name, sign)), Some((of_option, other))) if of_name != of_option => {
            wrong(format!(
                "the name of '{}' says {sign}, and {field} says {other}; leave out {field}",
                name.escape_debug()
            ))
        }
        _ => Ok(said.or(asked)),
    }
}

/// Factor and unit of a column: as its name says, else as the options, else as the table is known
/// for, else the usual ones.
fn unit_of(
    role: Role,
    name: &str,
    known: Option<&Known>,
    options: &TraceOptions,
) -> Result<(Option<f64>, &'static str), TraceFileError> {
    let known = known.and_then(|known| known.unit(name));
    let time = |unit: TimeUnit| (unit.nanos(), unit.name());
    let said_time = said_time(role, name);
    Ok(match role {
        Role::Time => match agreed(name, said_time, options.time_unit.map(time), "time_unit")? {
            Some((scale, unit)) => (Some(scale), unit),
            None => (None, ""),
        },
        Role::Rate => {
            let asked = options.rate_unit.map(|unit| (unit.bytes(), unit.name()));
            let known = match known {
                Some(Unit::Rate(unit)) => Some((unit.bytes(), unit.name())),
                _ => None,
            };
            let said = said_rate(name).filter(|_| !is_an_amount(name));
            match agreed(name, said, asked, "rate_unit")?.or(known) {
                Some((scale, unit)) => (Some(scale), unit),
                // A unit that is not known, and not one that goes without saying.
                None if has_unknown_unit(name) || is_an_amount(name) => (None, ""),
                None => (Some(RateUnit::Mbits.bytes()), "Mbit/s"),
            }
        }
        Role::Rtt | Role::Delay => {
            let known = match known {
                Some(Unit::Time(unit)) => Some(time(unit)),
                _ => None,
            };
            let unit = agreed(name, said_time, options.rtt_unit.map(time), "rtt_unit")?.or(known);
            let (scale, unit) = unit.unwrap_or(time(TimeUnit::Millis));
            // A delay counts for both directions.
            (Some(if role == Role::Delay { 2.0 * scale } else { scale }), unit)
        }
        Role::Loss if says_percent(name) => (Some(0.01), "percent"),
        Role::Loss => (Some(1.0), "from 0 to 1"),
    })
}

fn column(
    role: Role,
    index: usize,
    name: &str,
    known: Option<&Known>,
    options: &TraceOptions,
) -> Result<Column, TraceFileError> {
    let (scale, unit) = unit_of(role, name, known, options)?;
    let says_unit = match role {
        Role::Rate => said_rate(name).is_some() && !is_an_amount(name),
        _ => said_time(role, name).is_some(),
    };
    Ok(Column { role, index, name: name.to_owned(), scale, unit, says_unit })
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
        let known = Known::of(names);
        let header = Self::with_known(names, known, options)?;
        Ok(Self { of_path: known.and_then(|known| known.of_path(names)), ..header })
    }

    fn with_known(
        names: &[String],
        known: Option<&Known>,
        options: &TraceOptions,
    ) -> Result<Self, TraceFileError> {
        if !options.columns.is_empty() {
            return Self::chosen(names, known, options);
        }
        let chosen = match known {
            Some(known) => known.columns(names),
            None => Self::by_name(names, options)?,
        };
        let columns =
            chosen.into_iter().map(|(role, i)| column(role, i, &names[i], known, options));
        Self { columns: columns.collect::<Result<_, _>>()?, unused: Vec::new(), of_path: None }
            .checked(names, options)
    }

    /// The places of the columns whose names say what they are. An amount is a rate where its unit
    /// is given.
    fn by_name(
        names: &[String],
        options: &TraceOptions,
    ) -> Result<Vec<(Role, usize)>, TraceFileError> {
        let candidates = |role: Role| -> Vec<usize> {
            let of_role = |name: &String| role_of(name) == Some(role);
            let mut found: Vec<usize> = (0..names.len()).filter(|i| of_role(&names[*i])).collect();
            found.retain(|i| role != Role::Rate || !is_of_a_vehicle(&names[*i], names));
            if role == Role::Rate && found.is_empty() && options.rate_unit.is_some() {
                found = (0..names.len()).filter(|i| is_an_amount(&names[*i])).collect();
            }
            let mut prefer = |is_better: &dyn Fn(&str) -> bool| {
                if found.len() > 1 && found.iter().any(|i| is_better(&names[*i])) {
                    found.retain(|i| is_better(&names[*i]));
                }
            };
            prefer(&|name| !is_upwards(name));
            prefer(&|name| !is_a_spread(name));
            // A rate may as well begin with its unit.
            prefer(&|name| role != Role::Rate && begins_with(role, name));
            found
        };
        let mut found: Vec<(Role, Vec<usize>)> =
            Role::ALL.into_iter().map(|role| (role, candidates(role))).collect();
        if options.delays_alone {
            found.retain(|(role, _)| !matches!(role, Role::Rate | Role::Loss));
        }
        // A round-trip time has both delays.
        if found.iter().any(|(role, places)| *role == Role::Rtt && !places.is_empty()) {
            found.retain(|(role, _)| *role != Role::Delay);
        }
        let Some((role, several)) = found.iter().find(|(_, places)| places.len() > 1) else {
            return Ok(found.iter().filter_map(|(role, i)| Some((*role, *i.first()?))).collect());
        };
        let each = found.iter().filter_map(|(role, places)| {
            Some(format!("{} = \"{}\"", role.name(), names[*places.first()?].escape_debug()))
        });
        wrong(format!(
            "'{}' and '{}' could both be the {}; write columns = {{ {} }}, or another of them",
            names[several[0]].escape_debug(),
            names[several[1]].escape_debug(),
            role.name(),
            each.collect::<Vec<_>>().join(", ")
        ))
    }

    /// Columns without names, in the usual order.
    pub(super) fn in_order(count: usize, options: &TraceOptions) -> Result<Self, TraceFileError> {
        let names: Vec<String> = (1..=count).map(|i| i.to_string()).collect();
        if !options.columns.is_empty() {
            return Self::chosen(&names, None, options);
        }
        let roles: &[Role] = match (count, options.interval.is_some()) {
            (1, true) if options.delays_alone => &[Role::Delay],
            (2, false) if options.delays_alone => &[Role::Time, Role::Delay],
            (1, false) if options.delays_alone => {
                return wrong("one column; for a delay each 10 ms write interval = \"10ms\"");
            }
            (1..=3, true) => &Role::USUAL[1..],
            (2..=4, false) => &Role::USUAL,
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
        let columns = roles.iter().zip(0..count).map(|(role, i)| {
            let column = column(*role, i, "", None, options)?;
            Ok(Column { name: names[i].clone(), ..column })
        });
        Self { columns: columns.collect::<Result<_, _>>()?, unused: Vec::new(), of_path: None }
            .checked(&names, options)
    }

    /// The columns that the options name.
    fn chosen(
        names: &[String],
        known: Option<&Known>,
        options: &TraceOptions,
    ) -> Result<Self, TraceFileError> {
        let Columns { time, rate, rtt, delay, loss } = &options.columns;
        let all = Role::ALL.into_iter().zip([time, rate, rtt, delay, loss]);
        if rtt.is_some() && delay.is_some() {
            return wrong("a round-trip time has both delays; leave out columns.delay");
        }
        let mut columns = Vec::new();
        for (role, wanted) in all {
            let Some(wanted) = wanted else { continue };
            let by_name = names.iter().position(|name| same(name, wanted));
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
            columns.push(column(role, index, &names[index], known, options)?);
        }
        Self { columns, unused: Vec::new(), of_path: None }.checked(names, options)
    }

    fn checked(mut self, names: &[String], options: &TraceOptions) -> Result<Self, TraceFileError> {
        if !self.columns.iter().any(|column| column.role != Role::Time) {
            return wrong(format!(
                "no column is known as a rate, an RTT, a delay or a loss: they are {}; write {LIKE}",
                list(names)
            ));
        }
        let has_no_unit = |c: &&Column| c.role == Role::Rate && c.scale.is_none();
        if let Some(column) = self.columns.iter().find(has_no_unit) {
            let name = column.name.escape_debug();
            return wrong(if is_an_amount(&column.name) {
                format!(
                    "'{name}' may be bytes per second or since the row before; write rate_unit = \"{}\" or \"{}\"",
                    RateUnit::Bytes.name(),
                    RateUnit::BytesPerRow.name()
                )
            } else {
                format!(
                    "the unit of '{name}' is not known; write rate_unit = \"mbit/s\" or another"
                )
            });
        }
        let needs = [
            ("rate_unit", options.rate_unit.is_some(), self.column(Role::Rate).is_none()),
            (
                "rtt_unit",
                options.rtt_unit.is_some(),
                self.column(Role::Rtt).or(self.column(Role::Delay)).is_none(),
            ),
        ];
        if let Some((field, ..)) = needs.iter().find(|(_, asked, lacks)| *asked && *lacks) {
            return wrong(format!("no column has what {field} is for; leave out {field}"));
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
