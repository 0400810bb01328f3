//! The field `trace`: a file's name, or a table that also says how to read it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::input::Traces;
use super::quantity::Time;
use crate::trace::{Columns, Interpolation, TimeUnit, Trace, TraceFileError, TraceOptions};
use crate::units::show_duration;

/// A trace and how to read it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TraceField {
    pub(super) file: String,
    pub(super) options: TraceOptions,
}

/// The quantities that a trace has over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TracedColumns {
    /// A rate.
    pub rate: bool,
    /// Round-trip times.
    pub rtt: bool,
    /// Losses.
    pub loss: bool,
}

/// A trace as an option: the file's name, what it has, and the value of the field `trace`
/// that names nothing but its rate.
pub struct Described {
    /// The file's name.
    pub file: String,
    /// The columns in it.
    pub has: TracedColumns,
    /// Value of the field `trace` that names nothing but its rate.
    pub rate_alone: String,
}

impl TracedColumns {
    fn of(trace: &Trace) -> Self {
        Self { rate: trace.rate.is_some(), rtt: trace.rtt.is_some(), loss: trace.loss.is_some() }
    }
}

/// Reads the trace that a value of the field `trace` names.
///
/// # Errors
/// The value is no trace, or its file cannot be read.
pub fn describe_trace(toml: &str) -> Result<Described, TraceFileError> {
    let (field, trace) = read(toml)?;
    let has = TracedColumns::of(&trace);
    let rate_alone = match has {
        TracedColumns { rate: true, rtt: false, loss: false } => toml.to_owned(),
        _ => field.rate_alone(&trace.notes.rate_columns),
    };
    Ok(Described { file: field.file, has, rate_alone })
}

impl TraceField {
    /// The same with these columns, as TOML.
    fn rate_alone(&self, columns: &Columns) -> String {
        let TraceOptions { time_unit, interval, repeat, interpolation, columns: _ } = &self.options;
        let named = |name: &str, column: &Option<String>| {
            column.as_ref().map(|column| format!("{name} = {}", quoted(column)))
        };
        let columns = [named("time", &columns.time), named("rate", &columns.rate)];
        let columns: Vec<String> = columns.into_iter().flatten().collect();
        let parts = [
            Some(format!("file = {}", quoted(&self.file))),
            Some(format!("columns = {{ {} }}", columns.join(", "))),
            time_unit.map(|unit| format!("time_unit = \"{}\"", unit.name())),
            interval.map(|time| format!("interval = \"{}\"", show_duration(time))),
            repeat.map(|repeat| format!("repeat = {repeat}")),
            interpolation.map(|way| format!("interpolation = \"{}\"", way.name())),
        ];
        format!("{{ {} }}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// A text as TOML has it between quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The trace that a value of the field `trace` names, relative to the present folder.
///
/// # Errors
/// The value is no trace, or its file cannot be read.
pub fn read_trace(toml: &str) -> Result<Arc<Trace>, TraceFileError> {
    read(toml).map(|(_, trace)| trace)
}

fn read(toml: &str) -> Result<(TraceField, Arc<Trace>), TraceFileError> {
    #[derive(serde::Deserialize)]
    struct Only {
        trace: TraceField,
    }

    let only: Only = toml::from_str(&format!("trace = {toml}")).map_err(|e| {
        TraceFileError(format!(
            "{}; write a file's name, or a table like {{ file = \"x.csv\", interval = \"10ms\" }}",
            e.message().replace(['\n', '\r'], " ")
        ))
    })?;
    let trace = Traces::of(Path::new("")).get(&only.trace).map_err(TraceFileError)?;
    Ok((only.trace, trace))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: String,
    columns: Option<Names>,
    time_unit: Option<TimeUnit>,
    interval: Option<Time>,
    repeat: Option<bool>,
    interpolation: Option<Interpolation>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    time: Option<Name>,
    rate: Option<Name>,
    rtt: Option<Name>,
    loss: Option<Name>,
}

/// A column's name, or its number.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a column's name, or its number from 1")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
                Ok(Name(name.to_owned()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Name, E> {
                Ok(Name(number.to_string()))
            }
        }

        from.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for TraceField {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = TraceField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file's name, or a table like { file = \"x.csv\", repeat = false }")
            }

            fn visit_str<E: Error>(self, file: &str) -> Result<TraceField, E> {
                Ok(TraceField { file: file.to_owned(), options: TraceOptions::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TraceField, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let names = table.columns.unwrap_or(Names {
                    time: None,
                    rate: None,
                    rtt: None,
                    loss: None,
                });
                let name = |name: Option<Name>| name.map(|name| name.0);
                let columns = Columns {
                    time: name(names.time),
                    rate: name(names.rate),
                    rtt: name(names.rtt),
                    loss: name(names.loss),
                };
                let options = TraceOptions {
                    columns,
                    time_unit: table.time_unit,
                    interval: table.interval.map(|time| time.0),
                    repeat: table.repeat,
                    interpolation: table.interpolation,
                };
                Ok(TraceField { file: table.file, options })
            }
        }

        from.deserialize_any(Reader)
    }
}
