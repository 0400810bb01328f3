//! A path from options on the command line, the same in both directions: the tables that a file of
//! it would have.

use std::path::Path;

use fullpipe_report::plan::{PathExtras, Plan, integer, table, trace_value};
use fullpipe_scenario::{Edition, FileError};
use toml::{Table, Value};

/// A path. Quantities are written as in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct PathOptions {
    /// Rate of the bottleneck in each direction, IP headers included; none where a trace has it.
    pub rate: Option<String>,
    /// Round-trip propagation delay; none where a trace has it.
    pub rtt: Option<String>,
    /// The queue in front of each bottleneck.
    pub buffer: String,
    /// Random loss in each direction.
    pub loss: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// The rest of the path. Queue, jitter and reordering hold in each direction, and so does a
    /// trace, unless the direction from the command has a rate or a trace of its own.
    pub extras: PathExtras,
}

/// Fields, each with the option that sets it.
const OPTIONS: [(&str, &str); 8] = [
    ("path.rate", "--rate"),
    ("path.rtt", "--rtt"),
    ("path.buffer", "--buffer"),
    ("path.loss", "--loss"),
    ("path.trace", "--trace"),
    ("path.queue", "--queue"),
    ("path.down", "--loss-model, --policer, --jitter or --reorder"),
    ("path.up", "--up-rate, --up-trace, --up-loss, --up-buffer and --buffer"),
];

impl PathOptions {
    /// The path in a few characters: `20mbit 60ms 2bdp`.
    pub fn name(&self) -> String {
        let Self { rate, rtt, buffer, extras, .. } = self;
        let rate = match (rate, &extras.up_rate) {
            (Some(rate), Some(up)) => format!("{rate}/{up} "),
            (Some(rate), None) => format!("{rate} "),
            (None, _) => String::new(),
        };
        let rtt = rtt.as_ref().map_or(String::new(), |rtt| format!("{rtt} "));
        let loss = self.loss.as_ref().map_or(String::new(), |loss| format!(" {loss}"));
        // The way back's rate stands behind the other one, where there is one.
        let up_rate = extras.up_rate.clone().filter(|_| self.rate.is_none());
        let extras = PathExtras { up_rate, ..extras.clone() }.name();
        format!("{rate}{rtt}{buffer}{loss}{extras}").replace(['"', '\\'], "'")
    }

    /// The scenario file. The algorithm is that of a simulation: a program has its own.
    pub fn document(&self) -> Table {
        let own = table([
            ("name", Some(self.name().into())),
            ("seed", Some(integer(self.seed))),
            ("cc", Some("bbr3".into())),
        ]);
        own.into_iter().chain(self.network_tables()).collect()
    }

    /// The table of the path in it.
    pub fn network_tables(&self) -> Table {
        let Self { rate, rtt, buffer, loss, extras, .. } = self;
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let down = extras.elements();
        let mut up = down.clone();
        let up_loss = extras.up_loss.as_ref().or(loss.as_ref());
        up.extend(up_loss.map(|loss| table([("loss", Some(loss.clone().into()))]).into()));
        let up_trace = match (&extras.up_rate, &extras.up_trace) {
            (None, None) => extras.trace.as_ref().filter(|t| t.has.rate).map(|t| &t.rate_alone),
            (_, own) => own.as_ref().map(|own| &own.field),
        };
        let common = rate.as_ref().filter(|_| up_trace.is_none());
        let wire = table([
            ("rate", text(&extras.up_rate.as_ref().or(common).cloned())),
            ("trace", up_trace.and_then(trace_value)),
            ("buffer", Some(extras.up_buffer.as_ref().unwrap_or(buffer).clone().into())),
            ("queue", extras.queue.clone()),
        ]);
        up.push(table([("bottleneck", Some(wire.into()))]).into());
        let path = table([
            ("rate", text(rate)),
            ("trace", extras.trace.as_ref().and_then(|trace| trace_value(&trace.field))),
            ("rtt", text(rtt)),
            ("buffer", Some(buffer.clone().into())),
            ("queue", extras.queue.clone()),
            ("loss", text(loss)),
            ("down", (!down.is_empty()).then_some(down.into())),
            ("up", Some(up.into())),
        ]);
        table([("path", Some(path.into()))])
    }

    /// The plan, which is that of a file with this text.
    ///
    /// # Errors
    /// The mistake in an option, in one line that names it.
    pub fn plan(&self) -> Result<Plan, String> {
        let of_option = |error: FileError| {
            let all = OPTIONS.iter().find(|(field, _)| error.field.starts_with(field));
            let option = self.extras.option_of(&error.field).or(all.map(|all| all.1));
            format!("{}: {}", option.unwrap_or(&error.field), error.message)
        };
        Plan::parse(
            &self.document().to_string(),
            "options",
            "link",
            Path::new(""),
            Edition::default(),
        )
        .map_err(of_option)
    }
}
