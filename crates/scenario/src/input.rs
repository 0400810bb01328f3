//! The files that are read: scenarios, of bounded size, and the traces that they name.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fullpipe_cc::Duration;
use fullpipe_path::{RateConfig, Series};
use sha2::{Digest, Sha256};

use super::trace_field::TraceField;
use super::traces;
use crate::trace::{Trace, TraceOptions};

/// The most bytes of a scenario file.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

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
    read: Mutex<BTreeMap<TraceField, Result<Arc<Trace>, String>>>,
}

impl Traces {
    /// Those whose names are relative to this directory.
    pub(super) fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), read: Mutex::default() }
    }

    pub(super) fn get(&self, field: &TraceField) -> Result<Arc<Trace>, String> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if !read.contains_key(field) {
            read.insert(field.clone(), self.load(field).map(Arc::new));
        }
        read[field].clone()
    }

    fn load(&self, field: &TraceField) -> Result<Trace, String> {
        let TraceField { file, options, delay_trace } = field;
        if let Some(delays) = delay_trace {
            if delays.delay_trace.is_some() {
                return Err("delay_trace: it has no delay_trace of its own".to_owned());
            }
            let trace = self.load(&TraceField { delay_trace: None, ..field.clone() })?;
            let options = TraceOptions { delays_alone: true, ..delays.options.clone() };
            let delays = self.load(&TraceField { options, ..TraceField::clone(delays) });
            let delays = delays.map_err(|e| format!("delay_trace: {e}"))?;
            return trace.with_delays(delays).map_err(|e| e.to_string());
        }
        if let Some(trace) = traces::trace(file) {
            if *options != TraceOptions::default() {
                return Err(
                    "it is in the program, and nothing says how to read it; write its name alone"
                        .to_owned(),
                );
            }
            return Ok(Trace::of_rate(trace));
        }
        let path = self.dir.join(file);
        if let Err(e) = std::fs::metadata(&path) {
            let there_are = traces::TRACES.join(" and ");
            return Err(format!(
                "{e}; write a file's name, or one of those that are there: {there_are}"
            ));
        }
        Trace::load(&path, options).map_err(|e| e.to_string())
    }

    /// The names of those that are files.
    pub(super) fn files(&self) -> Vec<String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let both = read.keys().flat_map(|field| [Some(field), field.delay_trace.as_deref()]);
        let names = both.flatten().map(|field| field.file.clone());
        let mut names: Vec<String> = names.filter(|name| traces::trace(name).is_none()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Adds what the traces hold to a fingerprint.
    pub(super) fn digest(&self, hash: &mut Sha256) {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        for (field, trace) in read.iter() {
            hash.update((field.file.len() as u64).to_le_bytes());
            hash.update(&field.file);
            let Ok(trace) = trace else { continue };
            let mut add = |number: u64| hash.update(number.to_le_bytes());
            match &trace.rate {
                Some(RateConfig::Trace(times)) => times.iter().for_each(|t| add(t.as_nanos())),
                Some(RateConfig::Series(series)) => {
                    add_series(&mut add, 1, series, |rate| rate.as_bytes_per_sec());
                }
                _ => {}
            }
            if let Some(rtts) = &trace.rtt {
                add_series(&mut add, 2, rtts, |rtt| rtt.as_nanos());
            }
            if let Some(losses) = &trace.loss {
                add_series(&mut add, 3, losses, |loss| loss.as_f64().to_bits());
            }
        }
    }
}
/// A column with its number, so that no two say the same: how many steps, when it begins again,
/// and the steps.
fn add_series<V>(
    add: &mut impl FnMut(u64),
    column: u64,
    series: &Series<V>,
    of: impl Fn(&V) -> u64,
) {
    add(column);
    add(series.steps().len() as u64);
    add(series.period().map_or(0, Duration::as_nanos));
    for (at, value) in series.steps() {
        add(at.as_nanos());
        add(of(value));
    }
}
