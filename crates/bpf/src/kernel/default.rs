//! The default of new connections: taken, and put back, also for a process that was killed
//! meanwhile.
//!
//! A default outlives its registration: its name stays, new connections still use it, and nobody
//! can choose it again. So what was the default before is noted in a file until it is put back.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Error, namespaces, sysctl};

/// Directory of the notes. Runs keep the names of their namespaces there too, so it may be removed
/// at any time.
const DIRECTORY: &str = "/run/fullpipe";

/// Largest number of attempts to make a note while runs remove the directory with their names.
const TRIES: usize = 10;

/// Usual defaults of a kernel. Every kernel has Reno, and every network namespace may choose it.
const KERNELS_OWN: [&str; 2] = ["cubic", "reno"];

/// A default that was put back after the process that had changed it was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// Name of the congestion control that is not in the kernel any more.
    pub gone: String,
    /// Name of the present default.
    pub default: String,
}

/// The default of this network namespace, or the kernel's own default if it is not in the kernel
/// any more. Call this before another program gets the name of one that is gone.
pub(super) fn standing() -> Result<String, Error> {
    let (default, available) = (sysctl::default()?, sysctl::available()?);
    Ok(if available.contains(&default) { default } else { kernels_own(&available).to_owned() })
}

fn kernels_own(available: &[String]) -> &'static str {
    let is_there = |own: &&str| available.iter().any(|available| available == own);
    KERNELS_OWN.into_iter().find(is_there).unwrap_or("reno")
}

/// Sets the default again in each network namespace that has this one. A default is a reference to
/// a program and not to its name: where an earlier program of this name was the default when it
/// went, new connections would still use it. How many namespaces there are.
pub(super) fn renew(name: &str) -> usize {
    let renew = || {
        let is_it = sysctl::default().is_ok_and(|default| default == name);
        is_it && sysctl::set_default(name).is_ok()
    };
    let others = namespaces::in_others(renew);
    usize::from(renew()) + others.into_iter().filter(|is_done| *is_done).count()
}

/// Makes `name` the default, and notes that `previous` was it.
pub(super) fn take(name: &str, previous: &str) -> Result<(), Error> {
    note(name, previous)?;
    sysctl::set_default(name)
}

/// Puts back what was the default before `name` in each network namespace that has `name`, whoever
/// chose it there. That is what was noted, else `previous`, else the kernel's own. A third one that
/// somebody chose meanwhile stays. A program that took the default from `name` has to put back the
/// earlier one from now on.
pub(super) fn put_back(name: &str, previous: Option<String>) -> Result<Elsewhere, Error> {
    let (notes, available) = (Notes::read()?, sysctl::available()?);
    let own = || kernels_own(&available).to_owned();
    let previous = notes.of(name).map(str::to_owned).or(previous).unwrap_or_else(own);
    let previous = notes.still_there(&previous, &available).to_owned();
    for (later, _) in notes.0.iter().filter(|(_, before)| *before == name) {
        note(later, &previous)?;
    }
    let elsewhere = put_back_elsewhere(name, &previous);
    if sysctl::default()? == name {
        set(previous)?;
    }
    forget(&note_of(name)?);
    Ok(elsewhere)
}

/// Other network namespaces whose default a program was when it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere {
    /// The number in which the default was put back.
    pub(super) put_back: usize,
    /// The number that keep it.
    pub(super) kept: usize,
}

/// A namespace inherits the default of the first one, so it gets back what that has.
fn put_back_elsewhere(name: &str, previous: &str) -> Elsewhere {
    let put_back = || {
        let is_it = sysctl::default().is_ok_and(|default| default == name);
        is_it.then(|| set(previous.to_owned()).is_ok())
    };
    let done: Vec<bool> = namespaces::in_others(put_back).into_iter().flatten().collect();
    let put_back = done.iter().filter(|is_done| **is_done).count();
    Elsewhere { put_back, kept: done.len() - put_back }
}

/// Restores the default that this network namespace had before programs that are gone, as killed
/// processes leave them. `None` if there is nothing to restore.
///
/// # Errors
///
/// The system refuses an operation.
pub fn put_back_left_over() -> Result<Option<PutBack>, Error> {
    let notes = Notes::read()?;
    if notes.0.is_empty() {
        return Ok(None);
    }
    let available = sysctl::available()?;
    let is_there = |name: &str| available.iter().any(|available| available == name);
    for (name, before) in &notes.0 {
        let standing = notes.still_there(before, &available);
        if is_there(name) && standing != before {
            note(name, standing)?;
        }
    }
    let gone = sysctl::default()?;
    let before = notes.still_there(&gone, &available);
    let default = (before != gone).then(|| set(before.to_owned())).transpose()?;
    if let Some(default) = &default {
        put_back_elsewhere(&gone, default);
    }
    for name in notes.0.keys().filter(|name| !is_there(name)) {
        forget(&note_of(name)?);
    }
    Ok(default.map(|default| PutBack { gone, default }))
}

/// Makes `previous` the default again, or the kernel's own where that is gone too; which it was.
fn set(previous: String) -> Result<String, Error> {
    let mut set = sysctl::set_default(&previous).map(|()| previous);
    for own in KERNELS_OWN {
        set = set.or_else(|_| sysctl::set_default(own).map(|()| own.to_owned()));
    }
    set
}

/// Prefix of the names of this network namespace's notes: each namespace has a default of its own.
/// The prefix is not a process's number, so that a note is not taken for the name of a namespace.
fn prefix() -> Result<String, Error> {
    let namespace = fs::metadata("/proc/thread-self/ns/net");
    let namespace = namespace.map_err(|source| Error::Note { source })?.ino();
    Ok(format!("default-{namespace}-"))
}

/// Notes what was the default before `name`.
fn note(name: &str, previous: &str) -> Result<(), Error> {
    let note = note_of(name)?;
    let mut noted = Ok(());
    for _ in 0..TRIES {
        noted = fs::create_dir_all(DIRECTORY).and_then(|()| fs::write(&note, previous));
        if noted.as_ref().err().map(io::Error::kind) != Some(ErrorKind::NotFound) {
            break;
        }
    }
    noted.map_err(|source| Error::Note { source })
}

/// The file that says what was the default before `name`.
fn note_of(name: &str) -> Result<PathBuf, Error> {
    Ok(Path::new(DIRECTORY).join(prefix()? + name))
}

/// All notes of this network namespace: what was the default before each name.
struct Notes(BTreeMap<String, String>);

impl Notes {
    fn read() -> Result<Self, Error> {
        let wrong = |source| Error::Note { source };
        let entries = match fs::read_dir(DIRECTORY) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self(BTreeMap::new())),
            entries => entries.map_err(wrong)?,
        };
        let prefix = prefix()?;
        let mut notes = BTreeMap::new();
        for entry in entries {
            let entry = entry.map_err(wrong)?;
            let file = entry.file_name();
            if let Some(name) = file.to_str().and_then(|file| file.strip_prefix(&prefix)) {
                notes.insert(name.to_owned(), fs::read_to_string(entry.path()).map_err(wrong)?);
            }
        }
        Ok(Self(notes))
    }

    fn of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A default, or the latest one before it that TCP still has. One of ours that was loaded while
    /// another was the default may have outlived that one.
    fn still_there<'a>(&'a self, default: &'a str, available: &[String]) -> &'a str {
        let mut name = default;
        // As many steps as there are notes, should two name each other.
        for _ in 0..self.0.len() {
            match self.of(name) {
                Some(before) if !available.iter().any(|available| available == name) => {
                    name = before;
                }
                _ => break,
            }
        }
        name
    }
}

/// Removes a note as far as that is possible.
fn forget(note: &Path) {
    let _ = fs::remove_file(note);
    // Fails as long as there is something else in it.
    let _ = fs::remove_dir(DIRECTORY);
}
