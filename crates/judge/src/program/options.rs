//! A path from options on the command line, the same in both directions: the text that a file of it
//! would have.

use std::path::Path;

use fullpipe_lab::plan::Plan;
use fullpipe_lab::scenario::{Edition, FileError};

/// A path. Quantities are written as in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct PathOptions {
    /// Rate of the bottleneck in each direction, IP headers included.
    pub rate: String,
    /// Another rate of the direction from the command.
    pub up_rate: Option<String>,
    /// Round-trip propagation delay.
    pub rtt: String,
    /// The queue in front of each bottleneck.
    pub buffer: String,
    /// Random loss in each direction.
    pub loss: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
}

/// Which option a field is made of.
const OPTIONS: [(&str, &str); 5] = [
    ("path.rate", "--rate"),
    ("path.rtt", "--rtt"),
    ("path.buffer", "--buffer"),
    ("path.loss", "--loss"),
    ("path.up", "--up-rate and --buffer"),
];

impl PathOptions {
    /// The path in a few characters: `20mbit 60ms 2bdp`.
    pub fn name(&self) -> String {
        let Self { rate, rtt, buffer, .. } = self;
        let rate = self.up_rate.as_ref().map_or(rate.clone(), |up| format!("{rate}/{up}"));
        let loss = self.loss.as_ref().map_or(String::new(), |loss| format!(" {loss}"));
        format!("{rate} {rtt} {buffer}{loss}")
    }

    /// The text of a scenario file.
    pub fn to_toml(&self) -> String {
        let Self { rate, rtt, buffer, seed, .. } = self;
        let up_rate = self.up_rate.as_ref().unwrap_or(rate);
        let (loss, up_loss) = self.loss.as_ref().map_or_else(Default::default, |loss| {
            (format!("loss = \"{loss}\"\n"), format!("{{ loss = \"{loss}\" }}, "))
        });
        format!(
            "name = \"{}\"\nseed = {seed}\ncc = \"bbr3\" # of a simulation: a program has its own\n\n[path]\n\
             rate = \"{rate}\"\nrtt = \"{rtt}\"\nbuffer = \"{buffer}\"\n{loss}\
             up = [{up_loss}{{ bottleneck = {{ rate = \"{up_rate}\", buffer = \"{buffer}\" }} }}]\n",
            self.name()
        )
    }

    /// The plan, which is that of a file with this text.
    ///
    /// # Errors
    /// The mistake in an option, in one line that names it.
    pub fn plan(&self) -> Result<Plan, String> {
        let of_option = |error: FileError| {
            let option = OPTIONS.iter().find(|(field, _)| error.field.starts_with(field));
            format!("{}: {}", option.map_or(error.field.as_str(), |o| o.1), error.message)
        };
        Plan::parse(&self.to_toml(), "options", "link", Path::new(""), Edition::default())
            .map_err(of_option)
    }
}
