//! A scenario from options on the command line: the text that a file of it would have.

use std::fmt::Write;
use std::path::Path;

use super::Plan;
use crate::scenario::{Cc, Edition, FileError};

/// Algorithms one after the other on one path. Quantities are written as in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The algorithms, each run alone on a path of its own.
    pub cc: Vec<Cc>,
    /// Programs beside them: name, and the table of its commands as a file has it.
    pub programs: Vec<(String, String)>,
    /// Rate of the bottleneck, IP and UDP headers included.
    pub rate: String,
    /// Round-trip propagation delay.
    pub rtt: String,
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
}

impl Default for Options {
    /// BBRv3 and CUBIC for 10 s on 100 Mbit/s and 40 ms with a buffer of one BDP.
    fn default() -> Self {
        use fullpipe_cc::Algorithm::{Bbr3, Cubic};
        let ours = |algorithm| fullpipe_adapter::CongestionControl::Fullpipe(algorithm).into();
        Self {
            cc: vec![ours(Bbr3), ours(Cubic)],
            programs: Vec::new(),
            rate: "100mbit".to_owned(),
            rtt: "40ms".to_owned(),
            buffer: "1bdp".to_owned(),
            loss: "0%".to_owned(),
            flows: 1,
            stagger: "0s".to_owned(),
            duration: "10s".to_owned(),
            bytes: None,
            seed: 1,
            paths: Vec::new(),
        }
    }
}

/// Which option a field of the scenario is made of.
const OPTIONS: [(&str, &str); 10] = [
    ("path.rate", "--rate"),
    ("path.rtt", "--rtt"),
    ("path.buffer", "--buffer"),
    ("path.loss", "--loss"),
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
        format!("{}{flows}", self.path_name(&self.buffer, &self.loss))
    }

    fn path_name(&self, buffer: &str, loss: &str) -> String {
        let loss = if loss == "0%" { String::new() } else { format!(" {loss}") };
        format!("{} {} {buffer}{loss}", self.rate, self.rtt)
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
        let mut text = format!(
            "name = \"{name}\"\ncc = {cc}\nduration = \"{duration}\"\nseed = {}\n\n[path]\nrate = \"{}\"\n\
             rtt = \"{}\"\nbuffer = \"{}\"\nloss = \"{}\"\n\n[[flow]]\ncount = {}\nevery = \"{}\"\n",
            self.seed, self.rate, self.rtt, self.buffer, self.loss, self.flows, self.stagger
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
        let edition = Edition::default();
        Plan::parse(&self.to_toml(), "options", "compare", Path::new(""), edition)
            .map_err(Self::of_option)
    }

    /// The error of a field, as an error of its option.
    pub fn of_option(error: FileError) -> String {
        let is_program = error.field.starts_with("program");
        let option = is_program.then_some("--program").or_else(|| {
            OPTIONS.iter().find(|(field, _)| *field == error.field).map(|(_, option)| *option)
        });
        format!("{}: {}", option.unwrap_or(&error.field), error.message)
    }
}
