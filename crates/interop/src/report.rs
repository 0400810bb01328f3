//! Results of cases.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use statrs::statistics::Statistics;

use super::cases::Case;
use fullpipe_judge::peers::{Installed, Missing};

/// The end that a peer is; the other one is this program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It serves.
    Server,
    /// It asks.
    Client,
    /// Both: a stack with itself.
    Both,
}

impl Role {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Both => "both",
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// All that was asked for was seen.
    Passed,
    /// An end says that it has no such case.
    Unsupported,
    /// Nothing wrong was seen, and not all could be looked at.
    NotChecked,
    /// Something is wrong.
    Failed,
}

impl Grade {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unsupported => "not supported",
            Self::NotChecked => "not checked",
            Self::Failed => "failed",
        }
    }
}

/// A run of a case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The outcome.
    pub grade: Grade,
    /// The faults, and the parts that could not be looked at; remarks where it passed.
    pub notes: Vec<String>,
    /// Seconds from the start of the client to its end.
    pub elapsed_s: f64,
    /// The result of a measurement, in kbit/s.
    pub kbps: Option<f64>,
    /// True if tshark read the packets too, and read the same.
    pub tshark_agrees: Option<bool>,
    /// The folder with what the ends and the link wrote, where it was kept.
    pub logs: Option<PathBuf>,
}

/// A case of a peer in a role.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The peer's name.
    pub peer: String,
    /// Its end.
    pub role: Role,
    /// The case.
    pub case: String,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// Mean and standard deviation of a measurement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// The mean, in kbit/s.
    pub mean_kbps: f64,
    /// The standard deviation of the runs, in kbit/s; 0 of one run.
    pub deviation_kbps: f64,
}

impl Cell {
    /// The worst of its runs.
    pub fn grade(&self) -> Grade {
        self.runs.iter().map(|run| run.grade).max().unwrap_or(Grade::NotChecked)
    }

    /// The number of its runs that passed.
    pub fn passed(&self) -> usize {
        self.runs.iter().filter(|run| run.grade == Grade::Passed).count()
    }

    /// The result of a measurement all of whose runs passed.
    pub fn figure(&self) -> Option<Figure> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| run.kbps).collect();
        let values = values.filter(|v| !v.is_empty() && self.grade() == Grade::Passed)?;
        let deviation_kbps = if values.len() > 1 { values.iter().std_dev() } else { 0.0 };
        Some(Figure { mean_kbps: values.iter().mean(), deviation_kbps })
    }

    /// In a few words: the grade, and how many runs passed where not all did; or the figure.
    pub fn in_short(&self) -> String {
        if let Some(figure) = self.figure() {
            return format!("{:.0} (+-{:.0})", figure.mean_kbps, figure.deviation_kbps);
        }
        let (passed, all) = (self.passed(), self.runs.len());
        let of = if passed > 0 && passed < all {
            format!(", {passed} of {all} passed")
        } else {
            String::new()
        };
        format!("{}{of}", self.grade().name())
    }
}

/// All results.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InteropReport {
    /// The time at which it was made, in UTC.
    pub date: String,
    /// The peers that ran.
    pub peers: Vec<Installed>,
    /// Those that are not there.
    pub missing: Vec<Missing>,
    /// The cases, in their order.
    pub cases: Vec<String>,
    /// One for each case of each peer and role.
    pub cells: Vec<Cell>,
    /// True if it was stopped: then there are those so far.
    pub interrupted: bool,
}

impl InteropReport {
    /// A report without results.
    pub fn new(cases: &[&Case]) -> Self {
        Self {
            date: fullpipe_judge::peers::now(),
            peers: Vec::new(),
            missing: Vec::new(),
            cases: cases.iter().map(|case| case.name.to_owned()).collect(),
            cells: Vec::new(),
            interrupted: false,
        }
    }

    /// The number of cells that have a grade.
    pub fn count(&self, grade: Grade) -> usize {
        self.cells.iter().filter(|cell| cell.grade() == grade).count()
    }
}
