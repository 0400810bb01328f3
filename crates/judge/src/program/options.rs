//! A path from options on the command line, the same in both directions: the text that a file of it
//! would have.

use std::path::Path;

use fullpipe_report::plan::{PathExtras, Plan, TraceText};
use fullpipe_scenario::{Edition, FileError};

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

    /// The text of a scenario file.
    pub fn to_toml(&self) -> String {
        format!(
            "name = \"{}\"\nseed = {}\ncc = \"bbr3\" # of a simulation: a program has its own\n\n{}",
            self.name(),
            self.seed,
            self.path_toml()
        )
    }

    /// The table of the path in it.
    pub fn path_toml(&self) -> String {
        let Self { rate, rtt, buffer, extras, .. } = self;
        let text = |value: &Option<String>| value.as_ref().map(|text| format!("\"{text}\""));
        let line = |name: &str, value: Option<String>| {
            value.map_or(String::new(), |value| format!("{name} = {value}\n"))
        };
        let trace = |text: &Option<TraceText>| text.as_ref().map(|trace| trace.toml.clone());
        let queue = extras.queue_toml();
        let down = line("down", list(&extras.elements()));
        let up_loss = extras.up_loss.as_ref().or(self.loss.as_ref());
        let mut up = extras.elements();
        up.extend(up_loss.map(|loss| format!("{{ loss = \"{loss}\" }}")));
        let up_trace = match (&extras.up_rate, trace(&extras.up_trace)) {
            (None, None) => {
                extras.trace.as_ref().filter(|t| t.has.rate).map(|t| t.rate_alone.clone())
            }
            (_, own) => own,
        };
        let up_rate = match &up_trace {
            Some(_) => extras.up_rate.clone(),
            None => extras.up_rate.clone().or(rate.clone()),
        };
        let up_buffer = extras.up_buffer.as_ref().unwrap_or(buffer);
        let fields = [
            up_rate.map(|rate| format!("rate = \"{rate}\"")),
            up_trace.map(|trace| format!("trace = {trace}")),
            Some(format!("buffer = \"{up_buffer}\"")),
            queue.as_ref().map(|queue| format!("queue = {queue}")),
        ];
        let fields: Vec<String> = fields.into_iter().flatten().collect();
        up.push(format!("{{ bottleneck = {{ {} }} }}", fields.join(", ")));
        let path = [
            line("rate", text(rate)),
            line("trace", trace(&extras.trace)),
            line("rtt", text(rtt)),
            line("buffer", text(&Some(buffer.clone()))),
            line("queue", queue),
            line("loss", text(&self.loss)),
            down,
            line("up", list(&up)),
        ];
        format!("[path]\n{}", path.concat())
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
        Plan::parse(&self.to_toml(), "options", "link", Path::new(""), Edition::default())
            .map_err(of_option)
    }
}

/// A list in TOML; nothing where it is empty.
fn list(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| format!("[{}]", items.join(", ")))
}
