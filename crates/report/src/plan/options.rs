//! A scenario from options on the command line: the tables that a file of it would have.

use std::path::Path;

use fullpipe_cc::Algorithm;
use fullpipe_scenario::{Cc, Edition, FileError, Over};

use toml::{Table, Value};

use super::{NetworkText, PathExtras, Plan, table, trace_value};

/// Algorithms one after the other on one path. Quantities are written as in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The algorithms, each run alone on a path of its own.
    pub cc: Vec<Cc>,
    /// Programs beside them: name, and the table of its commands as a file has it.
    pub programs: Vec<(String, Value)>,
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
    pub fn network_tables(&self) -> Table {
        if let Some(network) = &self.network {
            return network.tables.clone();
        }
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let list = |items: Vec<Value>| (!items.is_empty()).then_some(items.into());
        let extras = &self.extras;
        let has_loss = extras.trace.as_ref().is_some_and(|trace| trace.has.loss);
        // The loss of none is not said beside that of a trace.
        let loss = (!has_loss || self.loss != "0%").then(|| self.loss.clone().into());
        let path = table([
            ("rate", text(&self.rate)),
            ("rtt", text(&self.rtt)),
            ("buffer", Some(self.buffer.clone().into())),
            ("loss", loss),
            ("trace", extras.trace.as_ref().and_then(|trace| trace_value(&trace.field))),
            ("queue", extras.queue.clone()),
            ("down", list(extras.elements())),
            ("up", list(extras.up().unwrap_or_default())),
        ]);
        table([("path", Some(path.into()))])
    }

    /// The scenario file.
    pub fn document(&self) -> Table {
        let programs = self.programs.iter().map(|(name, _)| format!("program:{name}"));
        let cc = self.cc.iter().map(Cc::to_string).chain(programs).map(Value::from);
        // The seeds of a file are an axis of its paths.
        let seeds = match self.network.as_ref().map(|network| network.seeds.as_slice()) {
            Some(seeds) if seeds.len() > 1 => seeds,
            _ => &[self.seed],
        };
        let flow = table([
            ("count", Some(integer(self.flows))),
            ("every", Some(self.stagger.clone().into())),
            ("app", self.bytes.clone().map(|bytes| table([("bytes", Some(bytes.into()))]).into())),
        ]);
        let variants = self.paths.iter().map(|(buffer, loss)| {
            let (buffer_value, loss_value) = (buffer.clone().into(), loss.clone().into());
            let path = table([("buffer", Some(buffer_value)), ("loss", Some(loss_value))]);
            table([
                ("name", Some(self.path_name(buffer, loss).into())),
                ("path", Some(path.into())),
            ])
        });
        let name = if self.paths.is_empty() { self.name() } else { "compare".to_owned() };
        let duration = if self.bytes.is_some() { "until_done" } else { &self.duration };
        let programs: Table = self.programs.iter().cloned().collect();
        let own = table([
            ("name", Some(name.into())),
            ("cc", Some(one_or_list(cc))),
            ("duration", Some(duration.into())),
            ("seed", Some(one_or_list(seeds.iter().map(|seed| integer(*seed))))),
            ("flow", Some(vec![flow].into())),
            ("program", (!programs.is_empty()).then_some(programs.into())),
        ]);
        let over = self.over.fields();
        let over = over.into_iter().map(|(field, name)| (field.to_owned(), name.into()));
        let mut all: Table = own.into_iter().chain(over).chain(self.network_tables()).collect();
        if !self.paths.is_empty() {
            all.insert("variant".to_owned(), variants.collect::<Vec<_>>().into());
        }
        all
    }

    /// The plan, which is that of a file with this text.
    ///
    /// # Errors
    /// The mistake in an option, in one line that names it.
    pub fn plan(&self) -> Result<Plan, String> {
        self.extras.up()?;
        let edition = Edition { over: self.over, ..Edition::default() };
        let dir = self.network.as_ref().map_or(Path::new(""), |network| &network.dir);
        let plan = Plan::parse(&self.document().to_string(), "options", "compare", dir, edition);
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

/// A number as TOML has it, whose integers end there.
pub fn integer(n: u64) -> Value {
    i64::try_from(n).unwrap_or(i64::MAX).into()
}

/// One value, which is no axis of a grid, or a list of them.
fn one_or_list(values: impl Iterator<Item = Value>) -> Value {
    let mut all: Vec<Value> = values.collect();
    if all.len() == 1 { all.remove(0) } else { all.into() }
}

/// True if it is this field, or one in it.
fn is_of(field: &str, option: &str) -> bool {
    field.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
