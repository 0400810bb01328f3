//! The paths that a sender has to run on, each a scenario file's text without its flows.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use fullpipe_cc::Duration;

use super::check::CHECKS;
use crate::program::ProgramPath;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

/// Senders on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Competitor {
    /// The command alone.
    Alone,
    /// The command twice.
    Itself,
    /// The command and a flow of CUBIC.
    Cubic,
}

/// A path, and how long the command runs on it.
#[derive(Clone, PartialEq, Debug)]
pub struct TestPath {
    /// Its name in the results.
    pub name: &'static str,
    /// In words: what is special about it.
    pub about: Cow<'static, str>,
    path: PathText,
    /// For how long, in seconds.
    pub span_s: u64,
    /// Its senders.
    pub company: Competitor,
    /// True if it is part of a quick verdict.
    pub quick: bool,
}

/// The text of a path's path.
#[derive(Clone, PartialEq, Debug)]
enum PathText {
    /// One of ours; `{u}` stands for what the way of the ACKs has where that is not the same as the
    /// way of the data.
    OfData(&'static str),
    /// That of options or a file: the tables, the folder of its traces, and the seed. True if the
    /// data takes its way back.
    Given { tables: String, dir: PathBuf, seed: u64, is_up: bool },
}

/// Name of the path whose path somebody gives.
pub const GIVEN: &str = "your path";

const fn alone(
    name: &'static str,
    about: &'static str,
    path: &'static str,
    span_s: u64,
    quick: bool,
) -> TestPath {
    let (about, path) = (Cow::Borrowed(about), PathText::OfData(path));
    TestPath { name, about, path, span_s, company: Competitor::Alone, quick }
}

const fn beside(
    company: Competitor,
    name: &'static str,
    about: &'static str,
    path: &'static str,
    span_s: u64,
) -> TestPath {
    let (about, path) = (Cow::Borrowed(about), PathText::OfData(path));
    TestPath { name, about, path, span_s, company, quick: false }
}

/// Round trip without queues, of all but the path with a long one.
pub(super) const RTT_S: f64 = 0.04;

/// The first path is the same in both directions: which of them carries the data is not known
/// before.
const WAY_BACK: &str = "{ bottleneck = { rate = \"20mbit\", buffer = \"2bdp\" } }";

/// All of them, in the order in which they are run.
pub static TEST_PATHS: [TestPath; 16] = [
    alone(
        "clean",
        "20 Mbit/s, 40 ms, a buffer of 2 BDP",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"",
        22,
        true,
    ),
    alone(
        "deep",
        "a buffer of 8 BDP",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"8bdp\"",
        15,
        true,
    ),
    alone(
        "shallow",
        "a buffer of 0.5 BDP",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"0.5bdp\"",
        10,
        true,
    ),
    alone(
        "loss 0.1 %",
        "0.1 % of random loss",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\nloss = \"0.1%\"",
        10,
        false,
    ),
    alone(
        "loss 1 %",
        "1 % of random loss",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\nloss = \"1%\"",
        10,
        true,
    ),
    alone(
        "loss 3 %",
        "3 % of random loss",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\nloss = \"3%\"",
        10,
        false,
    ),
    alone(
        "loss 10 %",
        "10 % of random loss",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\nloss = \"10%\"",
        10,
        false,
    ),
    alone(
        "steps",
        "20 Mbit/s, from 4 s on 10, from 22 s on 20",
        "rate = \"20mbit\"\nsteps = [{ at = \"4s\", rate = \"10mbit\" }, { at = \"22s\", rate = \"20mbit\" }]\n\
         rtt = \"40ms\"\nbuffer = \"2bdp\"",
        28,
        false,
    ),
    alone(
        "route",
        "the round trip is 160 ms from 6 s on",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\n\
         down = [{ delay_steps = [{ at = \"0s\", delay = \"0ms\" }, { at = \"6s\", delay = \"120ms\" }] }]",
        26,
        false,
    ),
    alone(
        "outage",
        "nothing arrives from 6 s to 8 s",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\ndown = [{ blackhole = [{ from = \"6s\", to = \"8s\" }] }]\n{u:{ blackhole = [{ from = \"6s\", to = \"8s\" }] }}",
        16,
        false,
    ),
    alone(
        "jitter",
        "each packet up to 10 ms late",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\ndown = [{ jitter = \"10ms\" }]",
        10,
        false,
    ),
    alone(
        "aggregation",
        "ACKs wait for each other for 20 ms",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\n{u:{ aggregation = { interval = \"20ms\", burst = \"64kB\" } }}",
        10,
        true,
    ),
    alone(
        "policer",
        "100 Mbit/s behind a policer of 10 Mbit/s with a bucket of 100 kB",
        "rate = \"100mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"\ndown = [{ policer = { rate = \"10mbit\", bucket = \"100kB\" } }]",
        15,
        false,
    ),
    alone(
        "long",
        "a round trip of 2 s",
        "rate = \"20mbit\"\nrtt = \"2s\"\nbuffer = \"1bdp\"",
        45,
        false,
    ),
    beside(
        Competitor::Itself,
        "itself",
        "the command twice on one path",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"",
        30,
    ),
    beside(
        Competitor::Cubic,
        "cubic",
        "the command beside one flow of CUBIC",
        "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"",
        30,
    ),
];

impl TestPath {
    /// The path of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TEST_PATHS.iter().find(|test_path| test_path.name == name)
    }

    /// A path of somebody's own: tables of a scenario file as they are written there, the folder in
    /// which its traces are looked for, and the seed of what is random on it.
    pub fn given(about: String, tables: String, dir: &Path, seed: u64, span_s: u64) -> Self {
        let path = PathText::Given { tables, dir: dir.to_owned(), seed, is_up: false };
        let company = Competitor::Alone;
        Self { name: GIVEN, about: about.into(), path, span_s, company, quick: true }
    }

    /// The same for a command whose data goes up: our own senders are simulated there then.
    #[must_use]
    pub fn upwards(&self) -> Self {
        let mut test_path = self.clone();
        if let PathText::Given { is_up, .. } = &mut test_path.path {
            *is_up = true;
        }
        test_path
    }

    /// True if our own senders send upwards on it.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.path, PathText::Given { is_up: true, .. })
    }

    /// A scenario's text with these flows; `seed` is that of a path of ours.
    pub(super) fn toml(&self, flows: &str, seed: u64) -> String {
        let up = |elements: &str| format!("up = [{elements}{WAY_BACK}]");
        let (path, seed) = match &self.path {
            PathText::OfData(text) => match text.split_once("{u:") {
                Some((path, element)) => {
                    let element = element.strip_suffix('}').unwrap_or(element);
                    (format!("[path]\n{path}{}", up(&format!("{element}, "))), seed)
                }
                None => (format!("[path]\n{text}\n{}", up("")), seed),
            },
            PathText::Given { tables, seed, .. } => (tables.clone(), *seed),
        };
        format!(
            "name = \"{}\"\nduration = \"{}s\"\nseed = {seed}\n{flows}\n{path}\n",
            self.name, self.span_s
        )
    }

    /// The plan with these flows.
    pub(super) fn plan(&self, flows: &str, seed: u64) -> Result<Plan, String> {
        let text = self.toml(flows, seed);
        let dir = match &self.path {
            PathText::OfData(_) => Path::new(""),
            PathText::Given { dir, .. } => dir,
        };
        Plan::parse(&text, "judge", "judge", dir, Edition::default())
            .map_err(|error| format!("{}: {}", error.field, error.message))
    }

    /// The path for a command whose data goes up, or comes down. One that somebody gave is as it
    /// was given.
    ///
    /// # Errors
    /// The given path has cross traffic, which a verdict does not know, or is several paths.
    pub fn path(&self, is_up: bool) -> Result<ProgramPath, String> {
        let is_given = matches!(self.path, PathText::Given { .. });
        let path = ProgramPath::of(&self.plan("cc = \"bbr3\"", 1)?, is_up && !is_given)?;
        match path.cross.is_empty() {
            true => Ok(path),
            false => {
                Err("a verdict is on a sender without cross traffic; leave out [[cross]]"
                    .to_owned())
            }
        }
    }

    /// The time in seconds after which there is something to judge.
    pub fn least_s(&self) -> f64 {
        let checks = CHECKS.iter().filter(|check| check.test_path == self.name);
        checks.map(|check| check.until).reduce(f64::min).unwrap_or(0.0)
    }

    /// For how long the command runs.
    pub fn span(&self) -> Duration {
        Duration::from_secs(self.span_s)
    }
}
