//! Commands that the lab runs: those of a recipe that installs a stack.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fullpipe_judge::peers::{Installed, NotInstalled, Recipe, install, installed};
use fullpipe_testkit::{until, until_some};

/// The file of ours that a stack gets.
const OURS: &str = "aioquic_peer.py";

fn recipe(install: &str, says: &str) -> Recipe {
    let text = format!(
        "name = \"x\"\nabout = \"\"\nversion = \"1\"\norigin = \"here\"\nfiles = [{OURS:?}]\ninstall = [{install:?}]\n\
         says = {says:?}\nserver = \"\"\nclient = \"\"\nsends = \"server\"\ncc = [\"y\"]\n"
    );
    toml::from_str(&text).expect("a recipe")
}

fn install_into(
    dir: &Path,
    recipe: &Recipe,
    stop: &AtomicBool,
) -> (Result<Installed, NotInstalled>, usize) {
    let mut told = 0;
    let done = install(recipe, dir, Path::new("/x"), stop, &mut |_| told += 1);
    (done, told)
}

fn a_stack_with_another_program_of_ours_is_installed_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let recipe = recipe("true", "sh -c 'echo 1.2; echo more'");
    let go = AtomicBool::new(false);
    for commands in [1, 0] {
        let (done, told) = install_into(dir.path(), &recipe, &go);
        assert_eq!(done.expect("it installs").says, "1.2");
        assert_eq!(told, commands, "it is there the second time");
    }
    let file = dir.path().join("x").join(OURS);
    fs::write(&file, "another").expect("a file");
    let why = installed(&recipe, dir.path(), Path::new("/x")).expect_err("another");
    assert!(why.to_string().contains(OURS), "{why}");
    let (done, told) = install_into(dir.path(), &recipe, &go);
    assert_eq!((done.expect("again").says.as_str(), told), ("1.2", 1));
    assert_ne!(fs::read(&file).expect("a file"), b"another");
}

fn a_command_that_fails_is_said_with_its_last_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    let why = |command| {
        let (done, _) = install_into(dir.path(), &recipe(command, "true"), &AtomicBool::new(false));
        done.expect_err("it fails").to_string()
    };
    let said = why("sh -c 'echo none; echo first; echo second >&2; echo; echo third; exit 3'");
    assert!(said.ends_with("exit status: 3: first / second / third"), "{said}");
    assert!(why("no-such-program").contains("no-such-program"));
}

/// Stops when it is dropped: also when a test has failed.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn a_stop_ends_a_command_with_all_that_it_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x/pid");
    let recipe = recipe("sh -c 'sleep 1000 & echo $! > pid; wait'", "true");
    let stop = AtomicBool::new(false);
    let (process, done) = thread::scope(|scope| {
        let installing = scope.spawn(|| install_into(dir.path(), &recipe, &stop).0);
        let stopping = Stopping(&stop);
        let process = until_some("what the command started", || {
            let line = fs::read_to_string(&file).ok()?;
            line.ends_with('\n').then(|| line.trim().to_owned())
        });
        drop(stopping);
        (process, installing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    assert!(matches!(done, Err(NotInstalled::Interrupted)), "{done:?}");
    // Whoever adopts it may take a moment to see that it ended.
    until("what the command started has ended", || {
        let status = fs::read_to_string(format!("/proc/{process}/stat"));
        status.map_or(true, |text| text.rsplit(") ").next().is_some_and(|s| s.starts_with('Z')))
    });
}

fullpipe_testkit::tests! {
    [] a_stack_with_another_program_of_ours_is_installed_anew,
        a_command_that_fails_is_said_with_its_last_lines,
        a_stop_ends_a_command_with_all_that_it_started;
}
