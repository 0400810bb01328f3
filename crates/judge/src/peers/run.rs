//! A sender on a path: a scenario whose flows are its programs.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::NotInstalled;
use super::install::prepare;
use super::outcome::{PeerPath, PeerRun};
use super::recipe::{Placeholders, Recipe};
use fullpipe_lab::Progress;
use fullpipe_lab::backend::{BackendChoice, RunError};
use fullpipe_lab::run::{RunOptions, run_point};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::units::show_duration;
use fullpipe_scenario::{Edition, Over, Stack};

/// Seconds that a client runs of which `judge` decides when it ends.
const LONGER_THAN_JUDGED: &str = "100";

/// Parts of the runs.
#[derive(Clone, Debug)]
pub struct PeersOptions<'a> {
    /// Time of each run.
    pub duration: fullpipe_cc::Duration,
    /// The folder of all peers.
    pub root: &'a Path,
    /// This program.
    pub itself: &'a Path,
}

/// A path of the runs.
#[derive(Clone, PartialEq, Debug)]
pub struct PathOfPeers {
    /// Its name in the tables.
    pub name: String,
    /// The path in a few characters.
    pub about: String,
    /// Its tables of a scenario file.
    pub tables: String,
    /// Folder in which its traces are looked for.
    pub dir: PathBuf,
    /// Seed of everything random.
    pub seed: u64,
}

/// One of the paths that have a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathPreset {
    /// Its name.
    pub name: &'static str,
    buffer: &'static str,
    loss: &'static str,
}

impl PathPreset {
    /// All of them; the first is that of two copies.
    pub const ALL: [Self; 4] = [
        Self { name: "clean", buffer: "2bdp", loss: "0%" },
        Self { name: "deep", buffer: "8bdp", loss: "0%" },
        Self { name: "lossy", buffer: "2bdp", loss: "1%" },
        Self { name: "shallow", buffer: "0.5bdp", loss: "0%" },
    ];

    /// The path with this rate and round-trip time, as a file has them.
    pub fn with(&self, rate: &str, rtt: &str, seed: u64) -> PathOfPeers {
        let Self { name, buffer, loss } = *self;
        let lost = if loss == "0%" { String::new() } else { format!(", {loss} loss") };
        PathOfPeers {
            name: name.to_owned(),
            about: format!("{rate}, {rtt}, buffer {buffer}{lost}"),
            tables: format!(
                "[path]\nrate = \"{rate}\"\nrtt = \"{rtt}\"\nbuffer = \"{buffer}\"\nloss = \"{loss}\"\n"
            ),
            dir: PathBuf::new(),
            seed,
        }
    }
}

impl PathOfPeers {
    /// For the table.
    pub fn described(&self) -> PeerPath {
        PeerPath { name: self.name.clone(), path: self.about.clone() }
    }
}

/// The scenario of so many copies of a sender on a path.
///
/// # Errors
/// A rate or a time that is none.
pub fn plan_of(
    recipe: &Recipe,
    cc: &str,
    path: &PathOfPeers,
    copies: u64,
    options: &PeersOptions<'_>,
) -> Result<Plan, String> {
    let places = Placeholders { root: options.root, itself: options.itself, cc };
    // A text of JSON is one of TOML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let text = format!(
        "name = {}\nduration = \"{}\"\nseed = {}\n\n{}\n\
         [[flow]]\nname = {}\ncount = {copies}\n\n[flow.program]\nserver = {}\nclient = {}\nsends = \"{}\"\n",
        quoted(&format!("{} {}", recipe.sender(cc), path.name)),
        show_duration(options.duration),
        path.seed,
        path.tables,
        quoted(&recipe.sender(cc)),
        quoted(&recipe.filled(&recipe.server, places)),
        quoted(&recipe.filled(&recipe.client, places)),
        recipe.sends,
    );
    let plan = Plan::parse(&text, "peers", "peers", &path.dir, Edition::default());
    plan.map_err(|wrong| format!("{}: {}", wrong.field, wrong.message))
}

/// The commands of a sender's server and client for `fullpipe judge`, which has `{host}` and
/// `{port}` for places.
pub fn commands_of(recipe: &Recipe, cc: &str, options: &PeersOptions<'_>) -> (String, Vec<String>) {
    let places = Placeholders { root: options.root, itself: options.itself, cc };
    let filled = |command: &str| {
        let filled = recipe.filled(command, places);
        filled.replace("{server}", "{host}").replace("{duration}", LONGER_THAN_JUDGED)
    };
    let client = filled(&recipe.client);
    (filled(&recipe.server), shlex::split(&client).unwrap_or_else(|| vec![client.clone()]))
}

/// Runs a plan of [`plan_of`]; once more if that fails.
///
/// # Errors
/// It was stopped before there was a result. That a sender fails is a result.
pub fn run_sender(
    plan: &Plan,
    path: &PathOfPeers,
    copies: u64,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<PeerRun, RunError> {
    let options = RunOptions { backend: tcp()?, ..RunOptions::default() };
    let run = PeerRun { path: path.name.clone(), copies, result: None, error: None, before: None };
    let mut attempt = || match run_point(plan, 0, &options, stop, watch) {
        Ok(result) => Ok(Ok(result)),
        Err(RunError::StoppedEarly) => Err(RunError::StoppedEarly),
        Err(error) => Ok(Err(error.to_string())),
    };
    let before = match attempt()? {
        Ok(result) => return Ok(PeerRun { result: Some(result), ..run }),
        Err(before) => Some(before),
    };
    Ok(match attempt()? {
        Ok(result) => PeerRun { result: Some(result), before, ..run },
        Err(error) => PeerRun { error: Some(error), before, ..run },
    })
}

impl PeersOptions<'_> {
    /// Makes what all servers share.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn prepare(&self) -> Result<(), NotInstalled> {
        Self::prepare_at(self.root)
    }

    /// The same in a folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn prepare_at(root: &Path) -> Result<(), NotInstalled> {
        prepare(root)
    }
}

/// The backend that has programs.
fn tcp() -> Result<BackendChoice, RunError> {
    BackendChoice::of(Over::of(Stack::Linux))
        .map_err(|_| RunError::Scenario("programs as flows need Linux".to_owned()))
}
