//! The paths that a sender has to run on, each a scenario file's text without its flows.

use std::path::Path;

use fullpipe_cc::Duration;

use super::check::CHECKS;
use crate::program::ProgramPath;
use fullpipe_lab::plan::Plan;
use fullpipe_lab::scenario::Edition;

/// Senders on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Company {
    /// The command alone.
    Alone,
    /// The command twice.
    Itself,
    /// The command and a flow of CUBIC.
    Cubic,
}

/// A path, and how long the command runs on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Course {
    /// Its name in the results.
    pub name: &'static str,
    /// In words: what is special about it.
    pub about: &'static str,
    /// The path's text; `{u}` stands for what the way of the ACKs has where that is not the same as
    /// the way of the data.
    path: &'static str,
    /// For how long, in seconds.
    pub span_s: u64,
    /// Its senders.
    pub company: Company,
    /// True if it is part of a quick verdict.
    pub quick: bool,
}

const fn alone(
    name: &'static str,
    about: &'static str,
    path: &'static str,
    span_s: u64,
    quick: bool,
) -> Course {
    Course { name, about, path, span_s, company: Company::Alone, quick }
}

/// Round trip without queues, of all but the path with a long one.
pub(super) const RTT_S: f64 = 0.04;

/// The first course is the same in both directions: which of them carries the data is not known
/// before.
const WAY_BACK: &str = "{ bottleneck = { rate = \"20mbit\", buffer = \"2bdp\" } }";

/// All of them, in the order in which they are run.
pub const COURSES: [Course; 16] = [
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
    Course {
        company: Company::Itself,
        ..alone(
            "itself",
            "the command twice on one path",
            "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"",
            30,
            false,
        )
    },
    Course {
        company: Company::Cubic,
        ..alone(
            "cubic",
            "the command beside one flow of CUBIC",
            "rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"",
            30,
            false,
        )
    },
];

impl Course {
    /// The course of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        COURSES.iter().find(|course| course.name == name)
    }

    /// The path's text with these flows.
    pub(super) fn toml(&self, flows: &str, seed: u64) -> String {
        let up = |elements: &str| format!("up = [{elements}{WAY_BACK}]");
        let path = match self.path.split_once("{u:") {
            Some((path, element)) => {
                let element = element.strip_suffix('}').unwrap_or(element);
                format!("{path}{}", up(&format!("{element}, ")))
            }
            None => format!("{}\n{}", self.path, up("")),
        };
        format!(
            "name = \"{}\"\nduration = \"{}s\"\nseed = {seed}\n{flows}\n[path]\n{path}\n",
            self.name, self.span_s
        )
    }

    /// The plan with these flows.
    pub(super) fn plan(&self, flows: &str, seed: u64) -> Result<Plan, String> {
        let text = self.toml(flows, seed);
        Plan::parse(&text, "judge", "judge", Path::new(""), Edition::default())
            .map_err(|error| error.to_string())
    }

    /// The path for a command whose data goes up, or comes down.
    ///
    /// # Errors
    /// None but for a mistake in this module, which the tests exclude.
    pub fn path(&self, is_up: bool) -> Result<ProgramPath, String> {
        ProgramPath::of(&self.plan("cc = \"bbr3\"", 1)?, is_up)
    }

    /// The time in seconds after which there is something to judge.
    pub fn least_s(&self) -> f64 {
        let checks = CHECKS.iter().filter(|check| check.course == self.name);
        checks.map(|check| check.until).reduce(f64::min).unwrap_or(0.0)
    }

    /// For how long the command runs.
    pub fn span(&self) -> Duration {
        Duration::from_secs(self.span_s)
    }
}
