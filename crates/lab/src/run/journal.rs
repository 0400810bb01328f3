//! What of a sweep is done: a line for each run, on disk before anybody is told.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::metrics::RunResult;
use crate::output::{StoreError, write_scenario, write_whole};
use crate::plan::Plan;

/// A directory in which a sweep cannot go on: one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum JournalError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} holds the results of another scenario; choose another --out, or remove it", .0.display())]
    OtherScenario(PathBuf),
    #[error("{} was begun by fullpipe {version}; choose another --out, or remove it", path.display())]
    OtherVersion { path: PathBuf, version: String },
    #[error("{}:{line} is no run of this sweep; choose another --out, or remove it", path.display())]
    Damaged { path: PathBuf, line: usize },
    #[error("another sweep is at work in {}", .0.display())]
    Busy(PathBuf),
}

const NAME: &str = "runs.jsonl";

/// The first line: outcomes of another program would not fit beside ours.
#[derive(Serialize, Deserialize)]
struct Head {
    fullpipe: String,
    runs: usize,
}

/// The file, which nobody else writes meanwhile.
pub(super) struct Journal {
    path: PathBuf,
    file: Flock<File>,
}

impl Journal {
    /// Opens the journal of a sweep into this directory, and reads what is done already.
    pub(super) fn open(dir: &Path, plan: &Plan) -> Result<(Self, Vec<RunResult>), JournalError> {
        std::fs::create_dir_all(dir).map_err(StoreError::at(dir))?;
        let path = dir.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let file = options.open(&path).map_err(StoreError::at(&path))?;
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let file = locked.map_err(|_| JournalError::Busy(dir.to_owned()))?;
        check_scenario(dir, plan)?;
        let mut journal = Self { path, file };
        let outcomes = journal.read(plan)?;
        write_scenario(dir, plan)?;
        Ok((journal, outcomes))
    }

    fn read(&mut self, plan: &Plan) -> Result<Vec<RunResult>, JournalError> {
        let path = self.path.clone();
        let wrong = |source| JournalError::Read { path: path.clone(), source };
        let mut outcomes: Vec<RunResult> = Vec::new();
        let mut is_known = vec![false; plan.grid.runs.len()];
        let mut good: u64 = 0;
        let mut reader = BufReader::new(&*self.file);
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            reader.read_until(b'\n', &mut text).map_err(wrong)?;
            // A line without an end was being written when the sweep was killed.
            if !text.ends_with(b"\n") {
                break;
            }
            let damaged = || JournalError::Damaged { path: path.clone(), line };
            if line == 1 {
                let head: Head = serde_json::from_slice(&text).map_err(|_| damaged())?;
                if head.fullpipe != env!("CARGO_PKG_VERSION") {
                    return Err(JournalError::OtherVersion { path, version: head.fullpipe });
                }
            } else {
                let outcome: RunResult = serde_json::from_slice(&text).map_err(|_| damaged())?;
                let known = is_known.get_mut(outcome.run).ok_or_else(damaged)?;
                if std::mem::replace(known, true) || outcome.probes.len() != plan.probes.len() {
                    return Err(damaged());
                }
                outcomes.push(outcome);
            }
            good += text.len() as u64;
        }
        self.file.set_len(good).map_err(StoreError::at(&self.path))?;
        self.file.seek(SeekFrom::End(0)).map_err(StoreError::at(&self.path))?;
        if good == 0 {
            let head = head(plan).map_err(StoreError::at(&self.path))?;
            self.file.write_all(&head).map_err(StoreError::at(&self.path))?;
        }
        Ok(outcomes)
    }

    /// Takes a run that is over; when this returns, a crash cannot lose it.
    pub(super) fn append(&mut self, outcome: &RunResult) -> Result<(), JournalError> {
        let written = line(outcome)
            .and_then(|line| self.file.write_all(&line))
            .and_then(|()| self.file.sync_data());
        Ok(written.map_err(StoreError::at(&self.path))?)
    }

    /// Brings the lines into the order of the grid, whatever order they came in.
    pub(super) fn finish(self, plan: &Plan, outcomes: &[RunResult]) -> Result<(), JournalError> {
        write_whole(&self.path, |file| {
            let mut file = std::io::BufWriter::new(file);
            file.write_all(&head(plan)?)?;
            outcomes.iter().try_for_each(|outcome| file.write_all(&line(outcome)?))?;
            file.flush()
        })?;
        Ok(())
    }
}

fn head(plan: &Plan) -> std::io::Result<Vec<u8>> {
    line(&Head { fullpipe: env!("CARGO_PKG_VERSION").to_owned(), runs: plan.grid.runs.len() })
}

fn line(value: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// A directory with another scenario's results is not written into.
fn check_scenario(dir: &Path, plan: &Plan) -> Result<(), JournalError> {
    let path = dir.join("scenario.toml");
    match std::fs::read_to_string(&path) {
        Ok(text) if text != plan.text => Err(JournalError::OtherScenario(dir.to_owned())),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(JournalError::Read { path, source }),
    }
}
