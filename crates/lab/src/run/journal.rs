//! Journal of many runs: a line for each finished run, on disk before the result is reported.
//!
//! Each line is a JSON object whose last field is the SHA-256 of a fingerprint of what runs and of
//! everything before that field. This detects a bit that changed on the disk, and a line of
//! something else.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fullpipe_report::output::{StoreError, write_whole};
use fullpipe_scenario::hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A directory in which runs cannot go on: one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum JournalError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} holds the results of another {of}; choose another --out, or remove it", dir.display())]
    Other { dir: PathBuf, of: &'static str },
    #[error(
        "{} holds what fullpipe run --out kept; choose another --out, or remove {} in it",
        dir.display(), crate::kept::RESULTS
    )]
    OfRun { dir: PathBuf },
    #[error(
        "{}:{line} was changed on the disk, or is of another {of}; remove the line to run it again, or choose another --out",
        path.display()
    )]
    Damaged { path: PathBuf, line: usize, of: &'static str },
    #[error("{} was begun by fullpipe {version}; choose another --out, or remove it", path.display())]
    OtherVersion { path: PathBuf, version: String },
    #[error("{}:{line} is no run of this {of}; choose another --out, or remove it", path.display())]
    NoRun { path: PathBuf, line: usize, of: &'static str },
    #[error("another process is at work in {}", .0.display())]
    Busy(PathBuf),
}

impl JournalError {
    /// True if the directory is not one for these runs.
    pub fn is_of_input(&self) -> bool {
        !matches!(self, Self::Store(_))
    }
}

/// The first line: outcomes of another program would not fit beside ours.
#[derive(Serialize, Deserialize)]
struct Head {
    fullpipe: String,
    /// The fingerprint of what runs.
    scenario: String,
    runs: usize,
}

/// Text between a line's object and its checksum.
const CHECKSUM: &[u8] = b",\"sha256\":\"";

/// Text after the checksum.
const END: &[u8] = b"\"}\n";

/// Subject of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalOf {
    /// Word for what runs, as errors say it.
    pub what: &'static str,
    /// Differs from that of everything else that could run.
    pub fingerprint: String,
    /// Number of runs.
    pub runs: usize,
}

/// The file, locked against other writers.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    of: JournalOf,
    /// The offset at which the line of each run ends, after that of the first line.
    ends: Vec<u64>,
    /// The first line tells another number of runs: of a part that was done before.
    is_head_old: bool,
}

impl Journal {
    /// Name of the file in its directory.
    pub const NAME: &'static str = "runs.jsonl";

    /// Opens the journal in a directory, which is made where it is not there, and reads what is
    /// done already. `is_run` says whether a run is one of these; it is asked in the order of the
    /// file.
    ///
    /// # Errors
    /// The directory belongs to something else, is in use, or cannot be written.
    pub fn open<T: DeserializeOwned>(
        dir: &Path,
        of: JournalOf,
        is_run: impl FnMut(&T) -> bool,
    ) -> Result<(Self, Vec<T>), JournalError> {
        std::fs::create_dir_all(dir).map_err(StoreError::at(dir))?;
        let path = dir.join(Self::NAME);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let file = options.open(&path).map_err(StoreError::at(&path))?;
        file.try_lock().map_err(|_| JournalError::Busy(dir.to_owned()))?;
        let mut journal = Self { path, file, of, ends: Vec::new(), is_head_old: false };
        let outcomes = journal.read(is_run)?;
        Ok((journal, outcomes))
    }

    /// Reads what is done in a directory, whoever is at work there, and changes nothing.
    ///
    /// # Errors
    /// There is no journal, or it is of something else, of another version or was changed.
    pub fn look<T: DeserializeOwned>(dir: &Path) -> Result<Vec<T>, JournalError> {
        const OF: &str = "sweep";
        let path = dir.join(Self::NAME);
        let wrong = |source| JournalError::Read { path: path.clone(), source };
        let mut reader = BufReader::new(File::open(&path).map_err(wrong)?);
        let mut fingerprint = String::new();
        let mut outcomes = Vec::new();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            reader.read_until(b'\n', &mut text).map_err(wrong)?;
            if !text.ends_with(b"\n") {
                break;
            }
            let no_run = || JournalError::NoRun { path: path.clone(), line, of: OF };
            if line == 1 {
                let head: Head = serde_json::from_slice(&text).map_err(|_| no_run())?;
                if head.fullpipe != env!("CARGO_PKG_VERSION") {
                    let version = head.fullpipe;
                    return Err(JournalError::OtherVersion { path, version });
                }
                fingerprint = head.scenario;
            }
            let damaged = || JournalError::Damaged { path: path.clone(), line, of: OF };
            let object = checked(&text, &fingerprint).ok_or_else(damaged)?;
            if line > 1 {
                outcomes.push(serde_json::from_slice(&object).map_err(|_| no_run())?);
            }
        }
        Ok(outcomes)
    }

    fn read<T: DeserializeOwned>(
        &mut self,
        mut is_run: impl FnMut(&T) -> bool,
    ) -> Result<Vec<T>, JournalError> {
        let (path, of) = (self.path.clone(), self.of.what);
        let wrong = |source| JournalError::Read { path: path.clone(), source };
        let mut outcomes: Vec<T> = Vec::new();
        let mut good: u64 = 0;
        let mut reader = BufReader::new(&self.file);
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            reader.read_until(b'\n', &mut text).map_err(wrong)?;
            // A line without an end was being written when the process was killed.
            if !text.ends_with(b"\n") {
                break;
            }
            if line == 1 {
                self.check_head(&text)?;
                let head = self.head().map_err(StoreError::at(&self.path))?;
                self.is_head_old = text != head;
            } else {
                let checked = checked(&text, &self.of.fingerprint);
                let damaged = || JournalError::Damaged { path: path.clone(), line, of };
                let outcome = serde_json::from_slice(&checked.ok_or_else(damaged)?);
                let outcome = outcome.ok().filter(&mut is_run);
                outcomes.push(outcome.ok_or_else(|| JournalError::NoRun {
                    path: path.clone(),
                    line,
                    of,
                })?);
            }
            good += text.len() as u64;
            self.ends.push(good);
        }
        self.file.set_len(good).map_err(StoreError::at(&self.path))?;
        self.file.seek(SeekFrom::End(0)).map_err(StoreError::at(&self.path))?;
        if good == 0 {
            let head = self.head().map_err(StoreError::at(&self.path))?;
            self.file.write_all(&head).map_err(StoreError::at(&self.path))?;
            self.ends.push(head.len() as u64);
        }
        Ok(outcomes)
    }

    /// The first line is of these runs, and by this program.
    fn check_head(&self, text: &[u8]) -> Result<(), JournalError> {
        let (path, of) = (|| self.path.clone(), self.of.what);
        let no_head = || JournalError::NoRun { path: path(), line: 1, of };
        let head: Head = serde_json::from_slice(text).map_err(|_| no_head())?;
        if head.fullpipe != env!("CARGO_PKG_VERSION") {
            return Err(JournalError::OtherVersion { path: path(), version: head.fullpipe });
        }
        if head.scenario != self.of.fingerprint {
            let dir = self.path.parent().unwrap_or(&self.path);
            return Err(JournalError::Other { dir: dir.to_owned(), of });
        }
        checked(text, &self.of.fingerprint).map(drop).ok_or_else(no_head)
    }

    fn head(&self) -> std::io::Result<Vec<u8>> {
        let head = Head {
            fullpipe: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: self.of.fingerprint.clone(),
            runs: self.of.runs,
        };
        line(&head, &self.of.fingerprint)
    }

    /// Takes runs that are over; when this returns, a crash cannot lose them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, outcomes: &[impl Serialize]) -> Result<(), JournalError> {
        if outcomes.is_empty() {
            return Ok(());
        }
        let mut ends = self.ends.clone();
        let mut text = Vec::new();
        let start = ends.last().copied().unwrap_or(0);
        let lines = outcomes.iter().try_for_each(|outcome| {
            text.extend(line(outcome, &self.of.fingerprint)?);
            ends.push(start + text.len() as u64);
            Ok(())
        });
        let written =
            lines.and_then(|()| self.file.write_all(&text)).and_then(|()| self.file.sync_data());
        written.map_err(StoreError::at(&self.path))?;
        self.ends = ends;
        Ok(())
    }

    /// Brings the lines into this order, below a first line with the number of runs that there are
    /// now. Each number counts the runs from 0 as they were read and
    /// appended.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn finish(self, order: &[usize]) -> Result<(), JournalError> {
        let is_in_order = order.iter().copied().eq(0..self.ends.len().saturating_sub(1));
        if is_in_order && !self.is_head_old {
            return Ok(());
        }
        let head = self.head().map_err(StoreError::at(&self.path))?;
        let read = |source| JournalError::Read { path: self.path.clone(), source };
        let text = std::fs::read(&self.path).map_err(read)?;
        let place = |line: usize| {
            let start =
                line.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
            text.get(start? as usize..*self.ends.get(line)? as usize)
        };
        write_whole(&self.path, |file| {
            let mut file = std::io::BufWriter::new(file);
            file.write_all(&head)?;
            for line in order.iter().map(|run| run + 1) {
                // Nobody else writes into it.
                let line = place(line).ok_or(std::io::ErrorKind::UnexpectedEof)?;
                file.write_all(line)?;
            }
            file.flush()
        })?;
        Ok(())
    }
}

/// An object as a line with its checksum.
fn line(value: &impl Serialize, fingerprint: &str) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    // The object ends behind the checksum.
    line.pop();
    let sum = checksum(&line, fingerprint);
    line.extend_from_slice(CHECKSUM);
    line.extend_from_slice(sum.as_bytes());
    line.extend_from_slice(END);
    Ok(line)
}

/// The object of a line without its checksum; nothing when they do not belong together.
fn checked(line: &[u8], fingerprint: &str) -> Option<Vec<u8>> {
    let sum_at = line.len().checked_sub(END.len() + 64)?;
    let object = line[..sum_at].strip_suffix(CHECKSUM)?;
    let is_whole = line[sum_at..].strip_suffix(END)? == checksum(object, fingerprint).as_bytes();
    is_whole.then(|| [object, b"}"].concat())
}

fn checksum(object: &[u8], fingerprint: &str) -> String {
    hex(&Sha256::new().chain_update(fingerprint).chain_update(object).finalize())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::run::sweep::open;
    use crate::run::{RunOptions, sweep};
    use fullpipe_report::metrics::RunResult;
    use fullpipe_report::plan::Plan;
    use fullpipe_scenario::Edition;

    fn plan(rate: &str) -> Plan {
        let text = format!(
            "cc = [\"bbr3\", \"cubic\"]\nduration = \"300ms\"\nseed = [1, 2]\n\
             path = {{ rate = \"{rate}\", rtt = \"20ms\" }}\nexpect = [\"goodput_mbps > 0\"]\n"
        );
        Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default()).expect("a plan")
    }

    fn swept(dir: &Path, plan: &Plan) -> Vec<RunResult> {
        sweep(plan, dir, &RunOptions::default(), 1, &AtomicBool::new(false), &mut |_| ())
            .expect("a sweep")
    }

    #[test]
    fn a_changed_bit_is_noticed_wherever_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = plan("10mbit");
        let all = swept(dir.path(), &plan);
        let path = dir.path().join(Journal::NAME);
        let whole = std::fs::read(&path).expect("a journal");
        let mut chance = Pcg64Mcg::seed_from_u64(1);
        let mut refused = 0;
        for case in 0..400 {
            let mut flipped = whole.clone();
            let bit = chance.next_u64() as usize % (8 * whole.len());
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).expect("a file");
            if case % 2 == 0 {
                let _ = std::fs::remove_file(dir.path().join("scenario.toml"));
            }
            match open(dir.path(), &plan) {
                Err(_) => refused += 1,
                // Without its end the last line counts as one that was being written, and runs
                // again.
                Ok((_, known)) => {
                    assert_eq!(bit / 8, whole.len() - 1, "bit {bit} was not noticed");
                    assert_eq!(known, all[..all.len() - 1]);
                }
            }
        }
        assert!(refused >= 395, "{refused} of 400");
    }

    #[test]
    fn runs_of_another_scenario_are_not_taken() {
        let (one, two) = (plan("10mbit"), plan("20mbit"));
        let dir = tempfile::tempdir().expect("a directory");
        let other = tempfile::tempdir().expect("a directory");
        swept(dir.path(), &one);
        swept(other.path(), &two);
        std::fs::remove_file(dir.path().join("scenario.toml")).expect("it was there");
        let Err(error) = open(dir.path(), &two) else { panic!("of another scenario") };
        assert!(matches!(error, JournalError::Other { .. }), "{error}");
        // A line of the one below the head of the other.
        let lines =
            |dir: &Path| std::fs::read_to_string(dir.join(Journal::NAME)).expect("a journal");
        let head = lines(dir.path()).lines().next().map(str::to_owned).expect("a head");
        let line = lines(other.path()).lines().nth(1).map(str::to_owned).expect("a run");
        std::fs::write(dir.path().join(Journal::NAME), format!("{head}\n{line}\n"))
            .expect("a file");
        let Err(error) = open(dir.path(), &one) else { panic!("a line of another") };
        assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{error}");
        assert!(lines(dir.path()).contains(&line), "the file is as it was");
    }

    /// Whatever order they came in, whether in one piece or after an interruption, and also after a
    /// part with fewer runs.
    #[test]
    fn lines_are_brought_into_the_order_of_the_runs() {
        #[derive(Serialize, Deserialize, Clone, Copy)]
        struct Run {
            run: usize,
        }
        let journal_of = |dir: &Path, runs| {
            let of = JournalOf { what: "test", fingerprint: "one".to_owned(), runs };
            Journal::open::<Run>(dir, of, |_| true).expect("a journal")
        };
        let journal = |dir: &Path| journal_of(dir, 4);
        let runs = |all: &[usize]| all.iter().map(|run| Run { run: *run }).collect::<Vec<_>>();
        let [whole, parts, grown] =
            [(), (), ()].map(|()| tempfile::tempdir().expect("a directory"));
        let (mut in_order, _) = journal(whole.path());
        in_order.append(&runs(&[0, 1, 2, 3])).expect("written");
        in_order.finish(&[0, 1, 2, 3]).expect("written");
        let (mut first, _) = journal(parts.path());
        first.append(&runs(&[3, 0])).expect("written");
        drop(first);
        let (mut second, known) = journal(parts.path());
        assert_eq!(known.iter().map(|known| known.run).collect::<Vec<_>>(), [3, 0]);
        second.append(&runs(&[2])).expect("written");
        second.append(&runs(&[])).expect("nothing to write");
        second.append(&runs(&[1])).expect("written");
        second.finish(&[1, 3, 2, 0]).expect("written");
        let text = |dir: &Path| std::fs::read_to_string(dir.join(Journal::NAME)).expect("a file");
        assert_eq!(text(parts.path()), text(whole.path()));
        assert_eq!(journal(parts.path()).1.len(), 4);
        let (mut fewer, _) = journal_of(grown.path(), 2);
        fewer.append(&runs(&[0, 1])).expect("written");
        fewer.finish(&[0, 1]).expect("written");
        let (mut more, _) = journal(grown.path());
        more.append(&runs(&[2, 3])).expect("written");
        more.finish(&[0, 1, 2, 3]).expect("written");
        assert_eq!(text(grown.path()), text(whole.path()));
    }

    #[test]
    fn a_trace_is_a_part_of_the_scenario() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = "cc = \"bbr3\"\nduration = \"300ms\"\n\
                    path = { trace = \"t\", rtt = \"20ms\", buffer = \"20pkts\" }\n";
        let plan = |trace: &str| {
            std::fs::write(dir.path().join("t"), trace).expect("a file");
            Plan::parse(text, "x.toml", "x", dir.path(), Edition::default()).expect("a plan")
        };
        let out = dir.path().join("out");
        swept(&out, &plan("1\n2\n"));
        let Err(error) = open(&out, &plan("1\n3\n")) else { panic!("another trace") };
        assert!(matches!(error, JournalError::Other { .. }), "{error}");
    }
}
