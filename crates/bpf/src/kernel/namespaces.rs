//! The other network namespaces of this machine: one that is made while the program is the default
//! of the first one inherits it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns};

/// Calls `work` in every other network namespace that can be found: those of processes and their
/// threads, and those that are mounted somewhere, as by `ip netns`. One that is only held by an
/// open file is not found. What it returned where it could be called.
pub(super) fn in_others<T: Send>(work: impl Fn() -> T + Send + Sync) -> Vec<T> {
    let mut seen = BTreeSet::new();
    if let Ok(own) = fs::metadata("/proc/thread-self/ns/net") {
        seen.insert((own.dev(), own.ino()));
    }
    let mut results = Vec::new();
    for path in of_tasks().into_iter().chain(mounted()) {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if seen.insert((metadata.dev(), metadata.ino())) {
            results.extend(inside(&path, &work));
        }
    }
    results
}

/// On a thread of its own: the caller stays where it is.
fn inside<T: Send>(path: &Path, work: &(impl Fn() -> T + Sync)) -> Option<T> {
    let file = File::open(path).ok()?;
    let enter = || setns(&file, CloneFlags::CLONE_NEWNET).ok().map(|()| work());
    thread::scope(|scope| scope.spawn(enter).join().ok().flatten())
}

fn numbered(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let is_number = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    entries.map(|entry| entry.path()).filter(is_number).collect()
}

fn of_tasks() -> Vec<PathBuf> {
    let processes = numbered(Path::new("/proc")).into_iter();
    let tasks = processes.flat_map(|process| numbered(&process.join("task")));
    tasks.map(|task| task.join("ns/net")).collect()
}

/// Mount points of namespaces that this process sees. Fields of mountinfo: the root, which names a
/// namespace, and the mount point.
fn mounted() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let path = |line: &str| {
        let mut words = line.split(' ').skip(3);
        words
            .next()
            .filter(|root| root.starts_with("net:["))
            .and_then(|_| words.next().map(Into::into))
    };
    table.lines().filter_map(path).collect()
}
