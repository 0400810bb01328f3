//! A scenario from options on the command line: the text that a file of it would have.

use std::fmt::Write;
use std::path::Path;

use fullpipe_cc::Algorithm;
use fullpipe_scenario::{Cc, Edition, FileError, Over};

use super::{NetworkText, PathExtras, Plan};

/// Algorithms one after the other on one path. Quantities are written as in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The algorithms, each run alone on a path of its own.
    pub cc: Vec<Cc>,
    /// Programs beside them: name, and the table of its commands as a file has it.
    pub programs: Vec<(String, String)>,
    /// Rate of the bottleneck, IP and UDP headers included; none where a trace has it.
    pub rate: Option<String>,
    /// Round-trip propagation delay; none where a trace has it.
    pub rtt: Option<String>,
    /// The queue in front of the bottleneck.
    pub buffer: String,
    /// Random loss in the direction of the data.
    pub loss: String,
    /// Number of flows that share the path.
    pub flows: u64,
    /// Time between the starts of two flows.
    pub stagger: String,
    /// Duration of each run.
    pub duration: String,
    /// Volume that each flow receives, in place of the duration.
    pub bytes: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// Other values of `buffer` and `loss`: two paths in place of one.
    pub paths: Vec<(String, String)>,
    /// The rest of the path.
    pub extras: PathExtras,
    /// The path of a scenario file, in place of all that is said of it above.
    pub network: Option<NetworkText>,
    /// Stack, clock and link.
    pub over: Over,
}

impl Default for Options {
    /// BBRv3 and CUBIC for 10 s on 100 Mbit/s and 40 ms with a buffer of one BDP.
    fn default() -> Self {
        let ours = |algorithm| fullpipe_adapter::CongestionControl::Fullpipe(algorithm).into();
        Self {
            cc: vec![ours(Algorithm::BBR3), ours(Algorithm::CUBIC)],
            programs: Vec::new(),
            rate: Some("100mbit".to_owned()),
            rtt: Some("40ms".to_owned()),
            buffer: "1bdp".to_owned(),
            loss: "0%".to_owned(),
            flows: 1,
            stagger: "0s".to_owned(),
            duration: "10s".to_owned(),
            bytes: None,
            seed: 1,
            paths: Vec::new(),
            extras: PathExtras::default(),
            network: None,
            over: Over::default(),
        }
    }
}

/// Fields of the scenario, each with the option that sets it.
const OPTIONS: [(&str, &str); 16] = [
    ("path.rate", "--rate"),
    ("path.rtt", "--rtt"),
    ("path.buffer", "--buffer"),
    ("path.loss", "--loss"),
    ("path.trace", "--trace"),
    ("path.queue", "--queue"),
    ("path.down[0]", "--loss-model, --policer, --jitter or --reorder"),
    ("path.down[1]", "--policer, --jitter or --reorder"),
    ("path.up[0]", "--up-rate, --up-trace, --up-buffer or --up-loss"),
    ("path.up[1]", "--up-rate, --up-trace or --up-buffer"),
    ("flow[0].count", "--flows"),
    ("flow[0].every", "--stagger"),
    ("flow[0].app", "--bytes"),
    ("flow", "--flows"),
    ("duration", "--duration"),
    ("cc", "--cc"),
];

impl Options {
    /// The path in a few characters: `100mbit 40ms 6bdp`, with the loss if there is one.
    pub fn name(&self) -> String {
        let flows = if self.flows == 1 { String::new() } else { format!(" {} flows", self.flows) };
        let path = match &self.network {
            Some(network) => network.name.replace(['"', '\\'], "'"),
            None => self.path_name(&self.buffer, &self.loss),
        };
        format!("{path}{flows}")
    }

    fn path_name(&self, buffer: &str, loss: &str) -> String {
        let loss = if loss == "0%" { String::new() } else { format!(" {loss}") };
        let shown =
            |text: &Option<String>| text.as_ref().map_or(String::new(), |t| format!("{t} "));
        let extras = self.extras.name();
        let name = format!("{}{}{buffer}{loss}{extras}", shown(&self.rate), shown(&self.rtt));
        name.replace(['"', '\\'], "'")
    }

    /// The tables of the path.
    pub fn path_toml(&self) -> String {
        if let Some(network) = &self.network {
            return network.tables.clone();
        }
        let line = |name: &str, value: &Option<String>| {
            value.as_ref().map_or(String::new(), |value| format!("{name} = {value}\n"))
        };
        let text = |value: &Option<String>| value.as_ref().map(|text| format!("\"{text}\""));
        let list =
            |items: Vec<String>| (!items.is_empty()).then(|| format!("[{}]", items.join(", ")));
        let (rate, rtt) = (line("rate", &text(&self.rate)), line("rtt", &text(&self.rtt)));
        let extras = &self.extras;
        let has_loss = extras.trace.as_ref().is_some_and(|trace| trace.has.loss);
        // The loss of none is not said beside that of a trace.
        let loss = match self.loss.as_str() {
            "0%" if has_loss => String::new(),
            loss => format!("loss = \"{loss}\"\n"),
        };
        let more = [
            line("trace", &extras.trace.as_ref().map(|trace| trace.toml.clone())),
            line("queue", &extras.queue_toml()),
            line("down", &list(extras.elements())),
            line("up", &list(extras.up().unwrap_or_default())),
        ];
        format!("[path]\n{rate}{rtt}buffer = \"{}\"\n{loss}{}", self.buffer, more.concat())
    }

    /// The text of a scenario file.
    pub fn to_toml(&self) -> String {
        let programs = self.programs.iter().map(|(name, _)| format!("\"program:{name}\""));
        let quoted = self.cc.iter().map(|cc| format!("\"{cc}\"")).chain(programs);
        let quoted: Vec<_> = quoted.collect();
        // One value is no axis of a grid.
        let cc = match quoted.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let name = if self.paths.is_empty() { self.name() } else { "compare".to_owned() };
        let duration = match self.bytes {
            Some(_) => "until_done",
            None => &self.duration,
        };
        // The seeds of a file are an axis of its paths.
        let seed = match self.network.as_ref().map(|network| network.seeds.as_slice()) {
            Some(seeds) if seeds.len() > 1 => format!("{seeds:?}"),
            _ => self.seed.to_string(),
        };
        let mut text = format!(
            "name = \"{name}\"\n{}cc = {cc}\nduration = \"{duration}\"\nseed = {seed}\n\n{}\n[[flow]]\ncount = {}\nevery = \"{}\"\n",
            self.over.fields(),
            self.path_toml(),
            self.flows,
            self.stagger
        );
        // Text is written to text without fail.
        if let Some(bytes) = &self.bytes {
            let _ = writeln!(text, "app = {{ bytes = \"{bytes}\" }}");
        }
        if !self.programs.is_empty() {
            text.push_str("\n[program]\n");
        }
        for (name, table) in &self.programs {
            let _ = writeln!(text, "{name} = {table}");
        }
        for (buffer, loss) in &self.paths {
            let name = self.path_name(buffer, loss);
            let _ = write!(
                text,
                "\n[[variant]]\nname = \"{name}\"\npath = {{ buffer = \"{buffer}\", loss = \"{loss}\" }}\n"
            );
        }
        text
    }

    /// The plan, which is that of a file with this text.
    ///
    /// # Errors
    /// The mistake in an option, in one line that names it.
    pub fn plan(&self) -> Result<Plan, String> {
        self.extras.up()?;
        let edition = Edition { over: self.over, ..Edition::default() };
        let dir = self.network.as_ref().map_or(Path::new(""), |network| &network.dir);
        let plan = Plan::parse(&self.to_toml(), "options", "compare", dir, edition);
        plan.map_err(|error| match self.extras.option_of(&error.field) {
            Some(option) => format!("{option}: {}", error.message),
            None => Self::of_option(error),
        })
    }

    /// The error of a field, or of a field in it, as an error of its option.
    pub fn of_option(error: FileError) -> String {
        let is_program = error.field.starts_with("program");
        let option = is_program.then_some("--program").or_else(|| {
            OPTIONS.iter().find(|(field, _)| is_of(&error.field, field)).map(|(_, option)| *option)
        });
        format!("{}: {}", option.unwrap_or(&error.field), error.message)
    }
}

/// True if it is this field, or one in it.
fn is_of(field: &str, option: &str) -> bool {
    field.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
