//! Installing a stack into its folder, and what is known of one that is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, io, thread, time};

use nix::unistd::{AccessFlags, access};
use serde::{Deserialize, Serialize};

use super::recipe::{CERTIFICATE, FILES_DIR, KEY, Placeholders, Recipe};
use fullpipe_lab::process::Process;

/// Record of an installation, in its folder.
const RECORD: &str = "installed.json";

/// The file that servers serve, and its size; it takes no room on most disks.
pub(super) const SERVED: &str = "1GB";
pub(super) const SERVED_BYTES: u64 = 1_000_000_000;

const NAP: time::Duration = time::Duration::from_millis(50);

/// The longest version that is shown.
const VERSION_CHARS: usize = 60;

/// A stack that can be run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Installed {
    /// The recipe's name.
    pub name: String,
    /// The recipe's version, where it pins one.
    pub version: Option<String>,
    /// The stack's own words on its version.
    pub says: String,
    /// The time at which it was installed, in UTC; none if it is the system's.
    pub date: Option<String>,
}

/// Reason why a stack is not there: one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum NotInstalled {
    #[error("needs {what}: {hint}")]
    Needs { what: String, hint: String },
    #[error("is not installed; write fullpipe peers install {name}")]
    NotYet { name: String },
    #[error(
        "was installed as {before} and the recipe has {now}; write fullpipe peers install {name}"
    )]
    OtherVersion { name: String, before: String, now: String },
    #[error("was installed with another {file} of ours; write fullpipe peers install {name}")]
    OtherFile { name: String, file: &'static str },
    #[error("'{command}' failed: {output}")]
    Failed { command: String, output: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("no home directory; write --dir DIR")]
    NoHome,
    #[error("interrupted")]
    Interrupted,
}

/// The folder of all peers: this one, or that below `XDG_CACHE_HOME` or `~/.cache`.
///
/// # Errors
/// There is no home directory, or no current one.
pub fn folder(said: Option<&Path>) -> Result<PathBuf, NotInstalled> {
    let dir = said.map(Path::to_owned).or_else(default_dir).ok_or(NotInstalled::NoHome)?;
    std::path::absolute(&dir).map_err(|source| NotInstalled::Io { path: dir, source })
}

fn default_dir() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("fullpipe").join("peers"))
}

/// The installed part of a stack.
///
/// # Errors
/// It cannot be run: why, and what would help.
pub fn installed(recipe: &Recipe, root: &Path, itself: &Path) -> Result<Installed, NotInstalled> {
    check_needs(recipe)?;
    if recipe.install.is_empty() {
        let says = says(recipe, root, itself, &AtomicBool::new(false))?;
        return Ok(Installed { name: recipe.name.clone(), version: None, says, date: None });
    }
    let name = recipe.name.clone();
    let record = fs::read(root.join(&name).join(RECORD)).ok();
    let record = record.and_then(|bytes| serde_json::from_slice::<Installed>(&bytes).ok());
    let Some(record) = record else { return Err(NotInstalled::NotYet { name }) };
    if record.version != recipe.version {
        let shown = |version: &Option<String>| version.clone().unwrap_or_default();
        let (before, now) = (shown(&record.version), shown(&recipe.version));
        return Err(NotInstalled::OtherVersion { name, before, now });
    }
    let dir = root.join(&name);
    let is_ours =
        |file: &str, text: &str| fs::read(dir.join(file)).is_ok_and(|is| is == text.as_bytes());
    match recipe.own_files().find(|(file, text)| !is_ours(file, text)) {
        Some((file, _)) => Err(NotInstalled::OtherFile { name, file }),
        None => Ok(record),
    }
}

/// Installs a stack into its folder below `root`, unless it is there. `tell` hears of each command
/// before it runs.
///
/// # Errors
/// A command failed, or the folder cannot be written.
pub fn install(
    recipe: &Recipe,
    root: &Path,
    itself: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<Installed, NotInstalled> {
    match installed(recipe, root, itself) {
        Err(
            NotInstalled::NotYet { .. }
            | NotInstalled::OtherVersion { .. }
            | NotInstalled::OtherFile { .. },
        ) => {}
        done => return done,
    }
    let dir = root.join(&recipe.name);
    let io_at = |path: &Path| {
        let path = path.to_owned();
        move |source| NotInstalled::Io { path, source }
    };
    fs::create_dir_all(&dir).map_err(io_at(&dir))?;
    for (name, text) in recipe.own_files() {
        let file = dir.join(name);
        fs::write(&file, text).map_err(io_at(&file))?;
    }
    let places = Placeholders::new(root, itself);
    for command in &recipe.install {
        let command = recipe.filled(command, places);
        tell(&command);
        run_in(&dir, &command, stop)?;
    }
    let installed = Installed {
        name: recipe.name.clone(),
        version: recipe.version.clone(),
        says: says(recipe, root, itself, stop)?,
        date: Some(super::outcome::now()),
    };
    let file = dir.join(RECORD);
    let text = serde_json::to_vec_pretty(&installed).map_err(io::Error::from);
    text.and_then(|text| fs::write(&file, text)).map_err(io_at(&file))?;
    Ok(installed)
}

/// Makes what all servers share, unless it is there: a file to serve, and a certificate. A server
/// of another run may have the file mapped, so it is not made anew.
pub(super) fn prepare(root: &Path) -> Result<(), NotInstalled> {
    let io_at = |path: PathBuf| move |source| NotInstalled::Io { path, source };
    let files = root.join(FILES_DIR);
    fs::create_dir_all(&files).map_err(io_at(files.clone()))?;
    let served = files.join(SERVED);
    if fs::metadata(&served).map_or(0, |found| found.len()) != SERVED_BYTES {
        let made = fs::File::create(&served).and_then(|file| file.set_len(SERVED_BYTES));
        made.map_err(io_at(served))?;
    }
    if root.join(CERTIFICATE).is_file() && root.join(KEY).is_file() {
        return Ok(());
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.map_err(|e| io_at(root.join(CERTIFICATE))(io::Error::other(e)))?;
    for (name, text) in [(CERTIFICATE, made.cert.pem()), (KEY, made.signing_key.serialize_pem())] {
        fs::write(root.join(name), text).map_err(io_at(root.join(name)))?;
    }
    Ok(())
}

fn check_needs(recipe: &Recipe) -> Result<(), NotInstalled> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| {
        env::split_paths(&path).any(|dir| {
            let file = dir.join(name);
            file.is_file() && access(&file, AccessFlags::X_OK).is_ok()
        })
    };
    match recipe.needs.iter().find(|name| !is_there(name)) {
        None => Ok(()),
        Some(what) => Err(NotInstalled::Needs { what: what.clone(), hint: recipe.hint.clone() }),
    }
}

/// The first line that the stack says of its version.
fn says(
    recipe: &Recipe,
    root: &Path,
    itself: &Path,
    stop: &AtomicBool,
) -> Result<String, NotInstalled> {
    let command = recipe.filled(&recipe.says, Placeholders::new(root, itself));
    let dir = root.join(&recipe.name);
    let dir = if dir.is_dir() { dir.as_path() } else { Path::new("/") };
    let said = run_in(dir, &command, stop)?;
    let first = said.split(" / ").next().unwrap_or_default();
    Ok(first.chars().take(VERSION_CHARS).collect())
}

/// Runs a command in a folder to its end; the last lines that it wrote, with " / " between them.
fn run_in(dir: &Path, command: &str, stop: &AtomicBool) -> Result<String, NotInstalled> {
    let failed = |output: String| NotInstalled::Failed { command: command.to_owned(), output };
    let words = shlex::split(command).unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return Err(failed("no command".to_owned()));
    };
    // A path of the folder, as a shell there would find it.
    let inside = dir.join(program);
    let program = if program.contains('/') && inside.is_file() { inside } else { program.into() };
    let mut made = Command::new(program);
    made.args(arguments).current_dir(dir).stdin(Stdio::null());
    let started = Process::start_apart(made);
    let (mut process, output) = started.map_err(|e| failed(e.to_string()))?;
    loop {
        if let Some(status) = process.poll().map_err(|e| failed(e.to_string()))? {
            return match status.success() {
                true => Ok(output.last_words()),
                false => Err(failed(format!("{status}: {}", output.last_words()))),
            };
        }
        if stop.load(Ordering::Relaxed) {
            let _ = process.end();
            return Err(NotInstalled::Interrupted);
        }
        thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_share_is_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        prepare(dir.path()).expect("a folder that can be written");
        let served = dir.path().join(FILES_DIR).join(SERVED);
        assert_eq!(fs::metadata(&served).expect("a file").len(), SERVED_BYTES);
        let state = || {
            let times = [served.clone(), dir.path().join(CERTIFICATE)]
                .map(|file| fs::metadata(file).and_then(|found| found.modified()).expect("a time"));
            (times, fs::read(dir.path().join(KEY)).expect("a key"))
        };
        // A file that is made anew would be of now.
        let then = time::SystemTime::UNIX_EPOCH + time::Duration::from_secs(1_000_000_000);
        for file in [served.clone(), dir.path().join(CERTIFICATE)] {
            let opened = fs::File::options().append(true).open(file).expect("a file");
            opened.set_modified(then).expect("a time");
        }
        let before = state();
        assert_eq!(before.0, [then; 2]);
        prepare(dir.path()).expect("it is there");
        assert_eq!(state(), before);
    }
}
