//! Elements of a path that options on the command line may add, as a scenario file has them.

use std::str::FromStr;

use fullpipe_scenario::TracedColumns;
use fullpipe_scenario::document::TraceField;
use fullpipe_scenario::trace::TraceFileError;
use toml::{Table, Value};

/// A trace as an option has it: a file's name, or the table that a scenario file has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceOption {
    /// The field `trace`.
    pub field: TraceField,
    /// The same, of which nothing but the rate is read.
    pub rate_alone: TraceField,
    /// The file's name without its folder, for the name of a path.
    pub name: String,
    /// The quantities that the file has over time.
    pub has: TracedColumns,
}

impl FromStr for TraceOption {
    type Err = TraceFileError;

    /// Reads the file as well, so that an option with a file that is no trace is an error.
    fn from_str(text: &str) -> Result<Self, TraceFileError> {
        Self::read(text.parse()?)
    }
}

impl TraceOption {
    /// Reads the file of a field.
    ///
    /// # Errors
    /// It is no trace.
    pub fn read(field: TraceField) -> Result<Self, TraceFileError> {
        let trace = field.read()?;
        let name = field.file.rsplit('/').next().unwrap_or(&field.file);
        Ok(Self {
            rate_alone: field.rate_alone(&trace),
            name: name.escape_debug().collect(),
            has: TracedColumns::of(&trace),
            field,
        })
    }
}

/// The fields of a table that are there.
pub fn table<const N: usize>(fields: [(&str, Option<Value>); N]) -> Table {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    there.collect()
}

/// A trace as the value of its field.
pub fn trace_value(field: &TraceField) -> Option<Value> {
    Value::try_from(field).ok()
}

/// Elements beside the rate, round-trip time, buffer and loss. Quantities are written as in a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PathExtras {
    /// The rate over time, and what else the file has.
    pub trace: Option<TraceOption>,
    /// The queue's discipline: its name, or its table with parameters.
    pub queue: Option<Value>,
    /// A model of losses: an element of `down` as a file has it.
    pub loss_model: Option<Value>,
    /// The table of `policer`.
    pub policer: Option<Value>,
    /// Each packet is delayed by chance: the value of `jitter`.
    pub jitter: Option<Value>,
    /// Packets that are held back, so that others overtake them: the table of `reordering`.
    pub reorder: Option<Value>,
    /// Rate of the way back.
    pub up_rate: Option<String>,
    /// Rate of the way back over time.
    pub up_trace: Option<TraceOption>,
    /// Buffer in front of the way back's rate.
    pub up_buffer: Option<String>,
    /// Random loss of the way back.
    pub up_loss: Option<String>,
}

impl PathExtras {
    /// True if the rate comes from a trace.
    pub fn has_rate(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.has.rate)
    }

    /// True if the round-trip time comes from a trace.
    pub fn has_rtt(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.has.rtt)
    }

    /// Their part of a path's name: a space and a word for each.
    pub fn name(&self) -> String {
        let up = self.up_trace.as_ref().map(|trace| trace.name.clone());
        let loss = self.up_loss.as_ref().filter(|loss| loss.as_str() != "0%");
        let parts = [
            self.trace.as_ref().map(|trace| trace.name.clone()),
            self.queue.as_ref().map(discipline),
            self.loss_model.as_ref().map(|_| "bursts of loss".to_owned()),
            self.policer.as_ref().map(|_| "policer".to_owned()),
            self.jitter.as_ref().map(|jitter| format!("jitter {}", words(jitter))),
            self.reorder.as_ref().map(|_| "reordering".to_owned()),
            up.or(self.up_rate.clone()).map(|rate| format!("up {rate}")),
            loss.map(|loss| format!("up {loss}")),
        ];
        parts.into_iter().flatten().fold(String::new(), |name, part| name + " " + &part)
    }

    /// The elements in front of a direction's bottleneck: `{ jitter = "2ms" }`.
    pub fn elements(&self) -> Vec<Value> {
        let element = |name, value: &Option<Value>| {
            value.is_some().then(|| table([(name, value.clone())]).into())
        };
        let all = [
            self.loss_model.clone(),
            element("policer", &self.policer),
            element("jitter", &self.jitter),
            element("reordering", &self.reorder),
        ];
        all.into_iter().flatten().collect()
    }

    /// The option of a field of an element: of `path.down[1]` that of the second one that is there.
    pub fn option_of(&self, field: &str) -> Option<&'static str> {
        if field.starts_with("path.up[") {
            let last = field.rsplit('.').next();
            return match last {
                Some("trace") => Some("--up-trace"),
                Some("loss") => Some("--up-loss"),
                Some("rate") => Some("--up-rate"),
                _ => None,
            };
        }
        let (number, _) = field.strip_prefix("path.down[")?.split_once(']')?;
        let all = [
            ("--loss-model", &self.loss_model),
            ("--policer", &self.policer),
            ("--jitter", &self.jitter),
            ("--reorder", &self.reorder),
        ];
        let mut there = all.into_iter().filter(|(_, element)| element.is_some());
        there.nth(number.parse().ok()?).map(|(option, _)| option)
    }

    /// The way back's elements, where the options say any.
    ///
    /// # Errors
    /// A buffer without a rate.
    pub fn up(&self) -> Result<Vec<Value>, String> {
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let loss = self.up_loss.as_ref().map(|_| table([("loss", text(&self.up_loss))]));
        let wire = table([
            ("rate", text(&self.up_rate)),
            ("trace", self.up_trace.as_ref().and_then(|trace| trace_value(&trace.field))),
            ("buffer", text(&self.up_buffer)),
        ]);
        if wire.contains_key("buffer") && wire.len() == 1 {
            return Err("--up-buffer: there is no rate that would need it; write --up-rate or --up-trace too".to_owned());
        }
        let bottleneck = (!wire.is_empty()).then(|| table([("bottleneck", Some(wire.into()))]));
        Ok(loss.into_iter().chain(bottleneck).map(Value::from).collect())
    }
}

/// The texts of a value, and of the values of its table.
fn words(value: &Value) -> String {
    match value {
        Value::Table(table) => table.values().map(words).collect::<Vec<_>>().join(" "),
        value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// A discipline's name, of its table too.
fn discipline(queue: &Value) -> String {
    let name = queue.as_table().and_then(|table| table.keys().next().cloned());
    name.unwrap_or_else(|| words(queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disciplines_name_is_that_of_its_table() {
        let name = |text: &str| discipline(&text.parse().expect("TOML"));
        assert_eq!(name("\"codel\""), "codel");
        assert_eq!(name("{ fq_codel = { queues = 16 } }"), "fq_codel");
    }
}
