//! The files that are read: scenarios and traces, both of bounded size.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fullpipe_cc::Duration;
use fullpipe_path::RateConfig;
use sha2::{Digest, Sha256};

use super::traces;

/// The most bytes of a scenario file.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// The most bytes of a trace: about an hour of 15 Mbit/s.
const MAX_TRACE_BYTES: u64 = 32 << 20;

/// Reads a text of at most so many bytes.
///
/// # Errors
/// It cannot be read, is longer, or is no UTF-8.
pub fn read_text(from: impl Read, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = from.take(most + 1).read_to_string(&mut text)?;
    if read as u64 > most {
        let most = crate::units::show_bytes(most);
        return Err(io::Error::other(format!("longer than {most}, the most that is read")));
    }
    Ok(text)
}

/// The traces that a scenario names, each read once: a run later has the trace that was checked.
#[derive(Debug)]
pub(super) struct Traces {
    dir: PathBuf,
    read: Mutex<BTreeMap<String, Result<RateConfig, String>>>,
}

impl Traces {
    /// Those whose names are relative to this directory.
    pub(super) fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), read: Mutex::default() }
    }

    pub(super) fn get(&self, name: &str) -> Result<RateConfig, String> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if !read.contains_key(name) {
            read.insert(name.to_owned(), self.load(name));
        }
        read[name].clone()
    }

    fn load(&self, name: &str) -> Result<RateConfig, String> {
        if let Some(trace) = traces::trace(name) {
            return Ok(trace);
        }
        let path = self.dir.join(name);
        // A pipe would be waited for, and a device may never end.
        let found = std::fs::metadata(&path).map_err(|e| {
            let there_are = traces::TRACES.join(" and ");
            format!("{e}; write a file's name, or one of those that are there: {there_are}")
        })?;
        if !found.is_file() {
            return Err("no regular file; write the name of one".to_owned());
        }
        let file = File::open(&path).map_err(|e| e.to_string())?;
        let text = read_text(file, MAX_TRACE_BYTES).map_err(|e| e.to_string())?;
        RateConfig::mahimahi(&text).map_err(|e| e.to_string())
    }

    /// The names of those that are files.
    pub(super) fn files(&self) -> Vec<String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.keys().filter(|name| traces::trace(name).is_none()).cloned().collect()
    }

    /// Adds what the traces hold to a fingerprint.
    pub(super) fn digest(&self, hash: &mut Sha256) {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, trace) in read.iter() {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            if let Ok(RateConfig::Trace(times)) = trace {
                times
                    .iter()
                    .copied()
                    .map(Duration::as_nanos)
                    .for_each(|ns| hash.update(ns.to_le_bytes()));
            }
        }
    }
}
