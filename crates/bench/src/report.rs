//! Runs the benchmarks through gungraun, reads what callgrind counted, and prints it per event.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Set for the run within the run, whose `main` is gungraun's.
const INNER: &str = "FULLPIPE_BENCH_INNER";

/// Cost that callgrind counts, by its own names of what is added up.
pub type Cost = &'static [&'static str];
/// Instructions.
pub const INSTRUCTIONS: Cost = &["Ir"];
/// Reads and writes that the first cache did not have.
pub const FIRST_MISSES: Cost = &["D1mr", "D1mw"];
/// Those that the second one did not have either.
pub const SECOND_MISSES: Cost = &["DLmr", "DLmw"];

/// The caches that callgrind imitates where misses are counted: the same on every machine, so that
/// figures can be compared. The last one has the size of a core's own second cache.
pub const CACHES: [&str; 4] =
    ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"];

/// One figure: a cost in all, and the events it was spent on.
pub struct Figure {
    /// Whose cost of what.
    pub name: String,
    /// The directory of the benchmark below gungraun's own: group/function.id.
    pub path: String,
    /// The benchmark whose cost is taken off, where the figure is of a difference.
    pub less: Option<String>,
    /// The cost.
    pub cost: Cost,
    /// Sends, ACKs or packets that were counted.
    pub events: u64,
    /// The most that an event may cost.
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

/// The cost that callgrind counted for the benchmark in `dir`.
fn counted(dir: &Path, cost: Cost) -> Option<u64> {
    let out = std::fs::read_dir(dir).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut totals = out
        .filter(|path| path.extension().is_some_and(|ext| ext == "out"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .filter_map(|text| total(&text, cost));
    totals.next()
}

/// A cost in callgrind's output: a line with the names of the events, and one with their sums.
fn total(text: &str, cost: Cost) -> Option<u64> {
    let line = |start| text.lines().find_map(|line| line.strip_prefix(start));
    let names: Vec<&str> = line("events: ")?.split_whitespace().collect();
    let sums: Vec<&str> = line("summary: ")?.split_whitespace().collect();
    let each = cost.iter().map(|name| {
        let place = names.iter().position(|known| known == name)?;
        sums.get(place)?.parse::<u64>().ok()
    });
    each.sum()
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
    /// Reads a figure and prints its cost per event beside the target. Gives it.
    pub fn print(&mut self, dir: &Path, figure: &Figure) -> Option<u64> {
        let Figure { name, path, less, cost, events, target } = figure;
        let goal = target.map_or_else(|| "-".to_owned(), |t| t.to_string());
        let Some(all) = counted(&dir.join(path), cost) else {
            self.unmeasured += 1;
            println!("{name:<34} {:>8} {goal:>8}", "none");
            return None;
        };
        let all = match less.as_ref().map(|path| counted(&dir.join(path), cost)) {
            None => all,
            Some(less) => all.saturating_sub(less.unwrap_or(0)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_sum_of_its_events() {
        let text = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\
                    fn=(1) main\n1 2\nsummary: 900 300 200 9 70 5 3 20 1\n";
        let of = |cost| total(text, cost);
        assert_eq!([INSTRUCTIONS, FIRST_MISSES, SECOND_MISSES].map(of), [900, 75, 21].map(Some));
        assert_eq!(total("events: Ir\nsummary: 900\n", FIRST_MISSES), None, "not counted");
    }
}
