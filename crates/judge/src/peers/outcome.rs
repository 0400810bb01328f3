//! Results of the senders.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::install::Installed;
use crate::program::judge::{Grade, Judged};
use fullpipe_report::metrics::RunResult;

/// A path of the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerPath {
    /// In words.
    pub name: String,
    /// The path in a few characters.
    pub path: String,
}

/// A run of a sender on a path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PeerRun {
    /// Name of the path.
    pub path: String,
    /// Number of its flows that shared the path.
    pub copies: u64,
    /// The result; null where it failed.
    pub result: Option<RunResult>,
    /// The reason why it failed.
    pub error: Option<String>,
    /// The reason why the first attempt failed, where this is the second.
    pub before: Option<String>,
}

/// A sender with its runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SenderRuns {
    /// Stack and congestion control.
    pub name: String,
    /// The stack as it was installed.
    pub stack: Installed,
    /// Its runs, in the order of the paths; that of two copies last.
    pub runs: Vec<PeerRun>,
    /// The verdict on it; null where none was asked for, or it could not be judged.
    pub verdict: Option<Judged>,
}

/// A stack that is not there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Missing {
    /// The recipe's name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// The whole table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PeersReport {
    /// The time at which it was made, in UTC.
    pub date: String,
    /// Time that each run had, in seconds.
    pub duration_s: f64,
    /// The paths.
    pub paths: Vec<PeerPath>,
    /// The senders that ran.
    pub senders: Vec<SenderRuns>,
    /// The stacks that are not there.
    pub missing: Vec<Missing>,
    /// True if it was stopped: then there are those so far.
    pub interrupted: bool,
}

impl PeersReport {
    /// A report without senders.
    pub fn new(paths: Vec<PeerPath>, duration_s: f64) -> Self {
        let (senders, missing) = (Vec::new(), Vec::new());
        Self { date: now(), duration_s, paths, senders, missing, interrupted: false }
    }
}

impl SenderRuns {
    /// Its run alone on a path.
    pub(super) fn alone_on(&self, path: &str) -> Option<&PeerRun> {
        self.runs.iter().find(|run| run.path == path && run.copies == 1)
    }

    /// Jain's index of its copies, where several ran.
    pub(super) fn jain(&self) -> Option<f64> {
        let run = self.runs.iter().find(|run| run.copies > 1)?;
        run.result.as_ref()?.metrics.get("jain").copied().flatten()
    }
}

impl SenderRuns {
    /// The verdict in a few words: how many checks it fails, and its defects.
    pub(super) fn verdict_in_short(&self) -> String {
        let Some(judged) = &self.verdict else { return "-".to_owned() };
        let count = |grade| judged.checks.iter().filter(|c| c.grade == Some(grade)).count();
        let grades = [Grade::Good, Grade::Poor, Grade::Broken];
        let grades = grades.map(|grade| format!("{} {}", count(grade), grade.name()));
        let defects = judged.defects.iter().map(|defect| format!("; {}", defect.name));
        grades.join(", ") + &defects.collect::<String>()
    }
}

impl PeerRun {
    /// A figure of the flow.
    pub(super) fn figure(&self, metric: &str) -> Option<f64> {
        let flow = self.result.as_ref()?.flows.first()?;
        flow.metrics.get(metric).copied().flatten()
    }
}

/// This moment in UTC, to the second.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
