//! The field `trace`: a file's name, or a table that also says how to read it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::input::Traces;
use super::quantity::Time;
use crate::trace::{
    Columns, Interpolation, RateUnit, TimeUnit, Trace, TraceFileError, TraceOptions,
};

/// A trace and how to read it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TraceField {
    /// The file's name, or that of a trace in the program.
    pub file: String,
    /// The way in which it is read.
    pub options: TraceOptions,
    /// A file of delays beside it.
    pub delay_trace: Option<Box<Self>>,
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

impl From<&str> for TraceField {
    fn from(file: &str) -> Self {
        Self { file: file.to_owned(), options: TraceOptions::default(), delay_trace: None }
    }
}

impl TracedColumns {
    /// The quantities of this trace.
    pub fn of(trace: &Trace) -> Self {
        Self { rate: trace.rate.is_some(), rtt: trace.rtt.is_some(), loss: trace.loss.is_some() }
    }
}

impl FromStr for TraceField {
    type Err = TraceFileError;

    /// A file's name, or the table that a scenario file has.
    fn from_str(text: &str) -> Result<Self, TraceFileError> {
        if !text.trim_start().starts_with('{') {
            return Ok(text.into());
        }
        let value = text.parse().and_then(toml::Value::try_into);
        value.map_err(|e| {
            TraceFileError(format!(
                "{}; write a file's name, or a table like {{ file = \"x.csv\", interval = \"10ms\" }}",
                e.message().replace(['\n', '\r'], " ")
            ))
        })
    }
}

impl TraceField {
    /// Reads the file, whose name is relative to the present folder.
    ///
    /// # Errors
    /// The file cannot be read, or is no trace.
    pub fn read(&self) -> Result<Arc<Trace>, TraceFileError> {
        Traces::of(Path::new("")).get(self).map_err(TraceFileError)
    }

    /// The same field, by which nothing but the rate of this trace is read.
    pub fn rate_alone(&self, trace: &Trace) -> Self {
        match TracedColumns::of(trace) {
            TracedColumns { rate: true, rtt: false, loss: false } => self.clone(),
            _ => {
                let columns = trace.notes.rate_columns.clone();
                let options = TraceOptions { columns, rtt_unit: None, ..self.options.clone() };
                Self { file: self.file.clone(), options, delay_trace: None }
            }
        }
    }
}

#[derive(serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: String,
    columns: Option<Names>,
    time_unit: Option<TimeUnit>,
    time_format: Option<String>,
    rate_unit: Option<RateUnit>,
    rtt_unit: Option<TimeUnit>,
    interval: Option<Time>,
    repeat: Option<bool>,
    interpolation: Option<Interpolation>,
    delay_trace: Option<Box<TraceField>>,
}

#[derive(Default, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Names {
    time: Option<Name>,
    rate: Option<Name>,
    rtt: Option<Name>,
    delay: Option<Name>,
    loss: Option<Name>,
}

/// A column's name, or its number.
#[derive(serde::Serialize)]
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

impl Serialize for TraceField {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let TraceOptions {
            columns,
            time_unit,
            time_format,
            rate_unit,
            rtt_unit,
            interval,
            repeat,
            interpolation,
            delays_alone: _,
        } = &self.options;
        if *self == Self::from(self.file.as_str()) {
            return to.serialize_str(&self.file);
        }
        let name = |name: &Option<String>| name.clone().map(Name);
        let names = Names {
            time: name(&columns.time),
            rate: name(&columns.rate),
            rtt: name(&columns.rtt),
            delay: name(&columns.delay),
            loss: name(&columns.loss),
        };
        Table {
            file: self.file.clone(),
            columns: (*columns != Columns::default()).then_some(names),
            time_unit: *time_unit,
            time_format: time_format.clone(),
            rate_unit: *rate_unit,
            rtt_unit: *rtt_unit,
            interval: interval.map(Time),
            repeat: *repeat,
            interpolation: *interpolation,
            delay_trace: self.delay_trace.clone(),
        }
        .serialize(to)
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
                Ok(file.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TraceField, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let names = table.columns.unwrap_or_default();
                let name = |name: Option<Name>| name.map(|name| name.0);
                let columns = Columns {
                    time: name(names.time),
                    rate: name(names.rate),
                    rtt: name(names.rtt),
                    delay: name(names.delay),
                    loss: name(names.loss),
                };
                let options = TraceOptions {
                    columns,
                    time_unit: table.time_unit,
                    time_format: table.time_format,
                    rate_unit: table.rate_unit,
                    rtt_unit: table.rtt_unit,
                    interval: table.interval.map(|time| time.0),
                    repeat: table.repeat,
                    interpolation: table.interpolation,
                    delays_alone: false,
                };
                Ok(TraceField { file: table.file, options, delay_trace: table.delay_trace })
            }
        }

        from.deserialize_any(Reader)
    }
}
