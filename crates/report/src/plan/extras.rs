//! Elements of a path that options on the command line may add, as the text of a scenario file.

use std::str::FromStr;
use std::sync::Arc;

use fullpipe_scenario::trace::{Trace, TraceFileError};
use fullpipe_scenario::{Described, TracedColumns, describe_trace, quoted, read_trace};

/// A trace as an option has it: a file's name, or the table that a scenario file has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceText {
    /// The value of the field `trace`.
    pub toml: String,
    /// The same, of which nothing but the rate is read.
    pub rate_alone: String,
    /// The file's name without its folder, for the name of a path.
    pub name: String,
    /// The quantities that the file has over time.
    pub has: TracedColumns,
}

impl FromStr for TraceText {
    type Err = TraceFileError;

    /// Reads the file as well, so that an option with a file that is no trace is an error.
    fn from_str(text: &str) -> Result<Self, TraceFileError> {
        let is_table = text.trim_start().starts_with('{');
        let toml = if is_table { text.trim().to_owned() } else { quoted(text) };
        let Described { file, has, rate_alone } = describe_trace(&toml)?;
        let name = file.rsplit('/').next().unwrap_or(&file);
        Ok(Self { toml, rate_alone, name: name.escape_debug().collect(), has })
    }
}

impl TraceText {
    /// Content of the file.
    ///
    /// # Errors
    /// It is no trace any more.
    pub fn read(&self) -> Result<Arc<Trace>, TraceFileError> {
        read_trace(&self.toml)
    }
}

/// Elements beside the rate, round-trip time, buffer and loss. Quantities are written as in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathExtras {
    /// The rate over time, and what else the file has.
    pub trace: Option<TraceText>,
    /// The queue's discipline: its name, or its table with parameters.
    pub queue: Option<String>,
    /// A model of losses: an element of `down` as a file has it.
    pub loss_model: Option<String>,
    /// The table of `policer`.
    pub policer: Option<String>,
    /// Each packet is delayed by chance: the value of `jitter`.
    pub jitter: Option<String>,
    /// Packets that are held back, so that others overtake them: the table of `reordering`.
    pub reorder: Option<String>,
    /// Rate of the way back.
    pub up_rate: Option<String>,
    /// Rate of the way back over time.
    pub up_trace: Option<TraceText>,
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
            self.queue.as_ref().map(|queue| bare(queue)),
            self.loss_model.as_ref().map(|_| "bursts of loss".to_owned()),
            self.policer.as_ref().map(|_| "policer".to_owned()),
            self.jitter.as_ref().map(|jitter| jitter_name(jitter)),
            self.reorder.as_ref().map(|_| "reordering".to_owned()),
            up.or(self.up_rate.clone()).map(|rate| format!("up {rate}")),
            loss.map(|loss| format!("up {loss}")),
        ];
        parts.into_iter().flatten().fold(String::new(), |name, part| name + " " + &part)
    }

    /// The elements in front of a direction's bottleneck: `{ jitter = "2ms" }`.
    pub fn elements(&self) -> Vec<String> {
        let jitter = self.jitter.as_ref().map(|jitter| format!("{{ jitter = {jitter} }}"));
        let reorder = self.reorder.as_ref().map(|table| format!("{{ reordering = {table} }}"));
        let policer = self.policer.as_ref().map(|table| format!("{{ policer = {table} }}"));
        let loss = self.loss_model.clone();
        [loss, policer, jitter, reorder].into_iter().flatten().collect()
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

    /// The queue's discipline as a value in TOML.
    pub fn queue_toml(&self) -> Option<String> {
        let queue = self.queue.as_ref()?;
        Some(if queue.trim_start().starts_with('{') { queue.clone() } else { quoted(queue) })
    }

    /// The way back's elements, where the options say any.
    ///
    /// # Errors
    /// A buffer without a rate.
    pub fn up(&self) -> Result<Vec<String>, String> {
        let mut up: Vec<String> =
            self.up_loss.iter().map(|loss| format!("{{ loss = \"{loss}\" }}")).collect();
        let rate = self.up_rate.as_ref().map(|rate| format!("rate = \"{rate}\""));
        let trace = self.up_trace.as_ref().map(|trace| format!("trace = {}", trace.toml));
        let buffer = self.up_buffer.as_ref().map(|buffer| format!("buffer = \"{buffer}\""));
        if buffer.is_some() && rate.is_none() && trace.is_none() {
            return Err("--up-buffer: there is no rate that would need it; write --up-rate or --up-trace too".to_owned());
        }
        let fields: Vec<String> = [rate, trace, buffer].into_iter().flatten().collect();
        if !fields.is_empty() {
            up.push(format!("{{ bottleneck = {{ {} }} }}", fields.join(", ")));
        }
        Ok(up)
    }
}

/// A jitter with the values of its table.
fn jitter_name(jitter: &str) -> String {
    let values = jitter.split('"').skip(1).step_by(2).collect::<Vec<_>>();
    format!("jitter {}", values.join(" "))
}

/// A discipline's name, of its table too.
fn bare(queue: &str) -> String {
    queue.trim_start_matches(['{', ' ']).split([' ', '=']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_between_quotes_is_what_it_was() {
        for text in ["a.csv", "a \"b\" \\ c", "tab\tand\u{1b}[31m", "ünïcode"] {
            let table: toml::Table = format!("x = {}", quoted(text)).parse().expect("TOML");
            assert_eq!(table["x"].as_str(), Some(text));
        }
    }

    #[test]
    fn a_disciplines_name_is_that_of_its_table() {
        assert_eq!(bare("codel"), "codel");
        assert_eq!(bare("{ fq_codel = { queues = 16 } }"), "fq_codel");
    }
}
