//! Runs the benchmarks through gungraun, reads what callgrind counted, and prints it per event.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Set for the run within the run, whose `main` is gungraun's.
const INNER: &str = "FULLPIPE_BENCH_INNER";

/// One figure: instructions in all, and the events they were spent on.
pub struct Figure {
    /// Whose cost of what.
    pub name: String,
    /// The directory of the benchmark below gungraun's own: group/function.id.
    pub path: String,
    /// Sends or ACKs that were counted.
    pub events: u64,
    /// The most instructions an event may cost.
    pub target: Option<u64>,
}

/// True if gungraun's own `main` has to run: within [`run`], and in the process under valgrind.
pub fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
        || std::env::args().nth(1).is_some_and(|arg| arg == "--gungraun-run")
}

/// Runs this very program once more, as gungraun's, and gives the directory of its output. Says why
/// and ends when that fails. `scratch` is CARGO_TARGET_TMPDIR, which benchmarks alone are told.
pub fn run(scratch: &str, package: &str, bench: &str) -> PathBuf {
    let home = Path::new(scratch).join("gungraun");
    // Callgrind counts what runs; what ran before would only fill the output with comparisons.
    let _was_not_there = std::fs::remove_dir_all(home.join(package).join(bench));
    let status = std::env::current_exe().and_then(|exe| {
        Command::new(exe)
            .args(std::env::args_os().skip(1))
            .env(INNER, "1")
            .env("GUNGRAUN_HOME", &home)
            .status()
    });
    match status {
        Ok(status) if status.success() => home.join(package).join(bench),
        Ok(status) => exit(status.code().unwrap_or(1)),
        Err(e) => {
            eprintln!("the benchmarks do not start: {e}");
            exit(1);
        }
    }
}

/// The instructions that callgrind counted for the benchmark in `dir`.
fn instructions(dir: &Path) -> Option<u64> {
    let out = std::fs::read_dir(dir).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut totals = out
        .filter(|path| path.extension().is_some_and(|ext| ext == "out"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .filter_map(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("summary: "))?.to_owned();
            line.split_whitespace().next()?.parse().ok()
        });
    totals.next()
}

/// Result of the comparison with the targets.
#[derive(Default)]
pub struct Outcome {
    /// Figures above their targets.
    pub missed: usize,
    /// Figures that were not counted: filtered out, or not found.
    pub unmeasured: usize,
}

/// Prints a heading of what was counted.
pub fn heading(what: &str) {
    println!("\n{what:<34} {:>8} {:>8} {:>8}", "figure", "target", "events");
}

impl Outcome {
    /// Reads a figure and prints its instructions per event beside the target. Gives them.
    pub fn print(&mut self, dir: &Path, figure: &Figure) -> Option<u64> {
        let Figure { name, path, events, target } = figure;
        let goal = target.map_or_else(|| "-".to_owned(), |t| t.to_string());
        let Some(all) = instructions(&dir.join(path)) else {
            self.unmeasured += 1;
            println!("{name:<34} {:>8} {goal:>8}", "none");
            return None;
        };
        let each = all.div_ceil(*events);
        println!("{name:<34} {each:>8} {goal:>8} {events:>8}{}", self.judge(each, *target));
        Some(each)
    }

    /// The mark behind a figure that is above its target.
    pub fn judge(&mut self, figure: u64, target: Option<u64>) -> &'static str {
        let is_missed = target.is_some_and(|t| figure > t);
        self.missed += usize::from(is_missed);
        if is_missed { "  MISSED" } else { "" }
    }
}

/// The last line, and the exit code that goes with it.
pub fn conclude(outcome: &Outcome) {
    match outcome {
        Outcome { missed: 0, unmeasured: 0 } => println!("\nEvery target is met."),
        Outcome { missed: 0, unmeasured } => println!("\n{unmeasured} figures were not measured."),
        Outcome { missed, .. } => {
            println!("\n{missed} of the targets MISSED.");
            exit(1);
        }
    }
}
