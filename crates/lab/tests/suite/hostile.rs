//! Scenario files that nobody would write on purpose: drawn ones, ones with changed bytes, numbers
//! and lines. Each is refused in one line, or runs within 2 GB and 15 s of CPU from its beginning
//! until it ends or is told to stop. `PROPTEST_CASES` sets their number.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fullpipe_lab::{RunError, RunOptions, run_point};
use fullpipe_report::output::table;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;
use nix::time::{ClockId, clock_gettime};

#[path = "../generator/mod.rs"]
mod generator;

use generator::Chance;

/// Cases in `test.sh`.
const CASES: u64 = 300;

const MOST_MEMORY: isize = 2_000_000_000;
const MOST_CPU: Duration = Duration::from_secs(15);

/// The duration of a run; of one in [`PATIENT`] cases the second time.
const RUN: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(3)];
const PATIENT: u64 = 50;

/// Counts what each thread allocates: other tests may run beside this one.
struct Counting;

thread_local! {
    /// Bytes that this thread took and did not give back; another's that it gave back make it less.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    let now = NOW.get() + bytes;
    NOW.set(now);
    PEAK.set(PEAK.get().max(now));
}

// SAFETY: everything is the system's; this only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: as the caller has it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: as the caller has it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that this thread had of the system at a time during `work`, beside what it had.
pub(crate) fn peak_of(work: impl FnOnce()) -> u64 {
    let before = NOW.get();
    PEAK.set(before);
    work();
    (PEAK.get() - before).cast_unsigned() as u64
}

/// CPU time of this thread.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock").into()
}

/// The outcome of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Came {
    Refused,
    Ran,
    Stopped,
}

#[test]
fn no_file_brings_it_down() {
    let dir = tempfile::tempdir().expect("a directory");
    generator::write_traces(dir.path());
    let files = scenario_files();
    let (first, cases) = (first_case(), generator::cases(CASES));
    let watch = Watch::default();
    let (mut seen, mut bad) = ([0; 3], Vec::new());
    let (mut peak, mut slowest) = ((0, 0), (Duration::ZERO, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| watch.keep());
        for case in first..first + cases {
            let text = text(case, &files);
            if cases == 1 {
                println!("{text}");
            }
            let patience = RUN[usize::from(case % PATIENT == 0)];
            watch.begin(case, patience);
            PEAK.set(NOW.get());
            let (memory, begun) = (NOW.get(), cpu());
            let came = catch_unwind(AssertUnwindSafe(|| try_out(&text, dir.path(), &watch.stop)));
            let memory = PEAK.get() - memory;
            let spent = cpu() - begun;
            watch.end();
            peak = peak.max((memory, case));
            slowest = slowest.max((spent, case));
            match came {
                _ if memory > MOST_MEMORY => bad.push(format!("case {case}: {memory} bytes")),
                _ if spent > MOST_CPU => bad.push(format!("case {case}: {spent:?} of CPU")),
                Ok(Ok(came)) => seen[came as usize] += 1,
                Ok(Err(why)) => bad.push(format!("case {case}: {why}")),
                Err(_) => bad.push(format!("case {case}: a panic")),
            }
        }
        watch.over.store(true, Ordering::Relaxed);
    });
    let [refused, ran, stopped] = seen;
    println!(
        "{cases} files: {refused} refused, {ran} ran, {stopped} were stopped; the most memory {} MB (case {}), \
         the most CPU {:?} (case {})",
        peak.0 / 1_000_000,
        peak.1,
        slowest.0,
        slowest.1
    );
    assert!(bad.is_empty(), "{} of {cases}:\n{}", bad.len(), bad.join("\n"));
    let some = cases / 20;
    assert!(refused >= some && ran + stopped >= some, "too few of a kind: {seen:?}");
}

/// A case to begin with, to run one again: `HOSTILE_CASE=17 PROPTEST_CASES=1`.
fn first_case() -> u64 {
    std::env::var("HOSTILE_CASE").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Stops a run in time, and everything when one does not stop.
#[derive(Default)]
struct Watch {
    stop: AtomicBool,
    over: AtomicBool,
    case: AtomicU64,
    /// Milliseconds that are left until the run is told to stop, and until that has taken too long.
    left: AtomicU64,
}

const STEP: Duration = Duration::from_millis(10);

/// A case has not come back so long after it was told to: the machine may be busy.
const HANGS: Duration = Duration::from_secs(240);

impl Watch {
    fn begin(&self, case: u64, patience: Duration) {
        self.stop.store(false, Ordering::Relaxed);
        self.case.store(case, Ordering::Relaxed);
        self.left.store((patience + HANGS).as_millis() as u64, Ordering::Relaxed);
    }

    fn end(&self) {
        self.left.store(u64::MAX, Ordering::Relaxed);
    }

    fn keep(&self) {
        let mut before = Instant::now();
        while !self.over.load(Ordering::Relaxed) {
            // Sleeps: the file under test knows no event at which it has run for long enough.
            std::thread::sleep(STEP);
            let passed = before.elapsed().as_millis() as u64;
            before = Instant::now();
            let left = self.left.load(Ordering::Relaxed);
            if left == u64::MAX {
                continue;
            }
            let now = left.saturating_sub(passed);
            // Another case may have begun meanwhile, and then this is of the one before.
            let _ = self.left.compare_exchange(left, now, Ordering::Relaxed, Ordering::Relaxed);
            if now < HANGS.as_millis() as u64 {
                self.stop.store(true, Ordering::Relaxed);
            }
            if now == 0 {
                eprintln!("case {} hangs", self.case.load(Ordering::Relaxed));
                std::process::exit(1);
            }
        }
    }
}

/// The command's action on a file.
fn try_out(text: &str, dir: &Path, stop: &AtomicBool) -> Result<Came, String> {
    let refused = |line: String| match (line.lines().count(), line.chars().count()) {
        (1, ..=1000) => Ok(Came::Refused),
        (lines, n) => Err(format!("a refusal of {lines} lines and {n} characters")),
    };
    let plan = match Plan::parse(text, "x.toml", "x", dir, Edition::default()) {
        Ok(plan) => plan,
        Err(error) => return refused(error.to_string()),
    };
    if let Err(error) = RunOptions::default().backend.check_plan(&plan, "x.toml") {
        return refused(error.to_string());
    }
    if let Err(error) = plan.jobs_within(MOST_MEMORY.cast_unsigned() as u64, 1, Some(500), "x.toml")
    {
        return refused(error.to_string());
    }
    let options = RunOptions { rows: Some(500), ..RunOptions::default() };
    match run_point(&plan, plan.grid.runs.len() - 1, &options, stop, &mut |_| ()) {
        Ok(run) => {
            let shown = table::runs(&plan.name, std::slice::from_ref(&run)).to_text();
            table::flows(&run).to_text();
            if plan.grid.runs.len() == 1 {
                let verdicts = plan.judge(&[&run.probes]);
                verdicts.iter().for_each(|verdict| drop(table::verdict(verdict)));
            }
            if shown.is_empty() { Err("no table".to_owned()) } else { Ok(Came::Ran) }
        }
        Err(RunError::StoppedEarly) => Ok(Came::Stopped),
        Err(error) => refused(error.to_string()),
    }
}

/// The scenarios that come with the program.
fn scenario_files() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = ["", "figures", "rfc9743", "kernel", "tcp-user"]
        .iter()
        .flat_map(|dir| std::fs::read_dir(root.join(dir)).expect("a directory"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files.iter().map(|path| std::fs::read_to_string(path).expect("a file")).collect()
}

/// The file of a case.
fn text(case: u64, files: &[String]) -> String {
    let mut chance = Chance::of(case);
    let mut text = match case % 5 {
        0 => return generator::scenario(&mut chance),
        1 | 2 => generator::scenario(&mut chance),
        _ => files[chance.number(0, files.len() as u64 - 1) as usize].clone(),
    };
    for _ in 0..chance.number(1, 3) {
        text = match chance.number(0, 9) {
            0 | 1 => changed_bytes(&mut chance, text),
            2 => changed_lines(&mut chance, &text),
            3 => grown(&mut chance, text),
            _ => changed_value(&mut chance, &text),
        };
    }
    text
}

fn changed_bytes(chance: &mut Chance, text: String) -> String {
    let mut bytes = text.into_bytes();
    for _ in 0..chance.number(1, 4) {
        let at = chance.number(0, bytes.len().max(1) as u64 - 1) as usize;
        match chance.number(0, 2) {
            0 if at < bytes.len() => bytes[at] = chance.number(0, 255) as u8,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.insert(at, b"[]{}=\"'.,#-_0189eE%\n"[chance.number(0, 19) as usize]),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn changed_lines(chance: &mut Chance, text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let pick =
        |chance: &mut Chance, lines: &[&str]| chance.number(0, lines.len() as u64 - 1) as usize;
    for _ in 0..chance.number(1, 3) {
        if lines.is_empty() {
            break;
        }
        let (a, b) = (pick(chance, &lines), pick(chance, &lines));
        match chance.number(0, 2) {
            0 => drop(lines.remove(a)),
            1 => lines.insert(b, lines[a]),
            _ => lines.swap(a, b),
        }
    }
    lines.join("\n")
}

/// Something becomes very long, deep or many.
fn grown(chance: &mut Chance, mut text: String) -> String {
    let long = "x".repeat(chance.number(1, 70_000) as usize);
    let n = [3, 40, 1000, 20_000][chance.number(0, 3) as usize];
    let many = |one: &str| format!("[{}]", vec![one; n].join(", "));
    let added = match chance.number(0, 8) {
        0 => format!("name = \"{long}\"\n"),
        1 => format!("about = \"{long}\"\n"),
        2 => format!("{long} = 1\n"),
        3 => format!("a = {}{}\n", "[".repeat(n), "]".repeat(n)),
        4 => format!("expect = {}\n", many("\"goodput_mbps > 0 after 1s\"")),
        5 => format!("seed = [{}]\n", (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ")),
        6 => {
            let down = many(chance.one_of(&[
                "{ duplication = \"100%\" }",
                "{ delay = \"1ms\" }",
                "{ jitter = \"1ms\" }",
                "{ bottleneck = { rate = \"9mbit\", queue = \"fq_codel\" } }",
            ]));
            format!("path = {{ rate = \"10mbit\", rtt = \"10ms\", down = {down} }}\n")
        }
        7 => {
            let mut flows = String::new();
            for i in 0..n {
                let _ = writeln!(flows, "[[flow]]\ncc = \"bbr3\"\nstop = \"{}ms\"", i + 1);
            }
            text.push_str(&flows);
            return text;
        }
        _ => format!("cc = \"{long}\"\n"),
    };
    format!("{added}{text}")
}

/// Another number, or another unit, in place of one that is there.
fn changed_value(chance: &mut Chance, text: &str) -> String {
    let digits: Vec<(usize, usize)> = numbers(text);
    if digits.is_empty() {
        return text.to_owned();
    }
    let (start, end) = digits[chance.number(0, digits.len() as u64 - 1) as usize];
    let rest = &text[end..];
    let old = rest.find(|c: char| !c.is_ascii_alphabetic() && c != '%').unwrap_or(rest.len());
    let number = chance.one_of(&[
        "0",
        "1",
        "2",
        "3",
        "7",
        "10",
        "-1",
        "0.5",
        "1e3",
        "0.001",
        "1000",
        "65536",
        "1000000",
        "4294967296",
        "1000000000",
        "9223372036854775807",
        "18446744073709551616",
        "1e300",
        "nan",
        "inf",
        "000",
        "",
        "1_000",
        "0x10",
    ]);
    let unit = match chance.number(0, 2) {
        0 => chance.one_of(&[
            "", "ns", "us", "ms", "s", "min", "bit", "kbit", "mbit", "gbit", "tbit", "B", "kB",
            "MB", "GB", "TB", "GiB", "pkts", "bdp", "%", "x",
        ]),
        _ => &rest[..old],
    };
    format!("{}{number}{unit}{}", &text[..start], &rest[old..])
}

fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut start = None;
    for (i, c) in text.char_indices() {
        match (c.is_ascii_digit() || c == '.', start) {
            (true, None) if c != '.' => start = Some(i),
            (false, Some(begun)) => {
                all.push((begun, i));
                start = None;
            }
            _ => {}
        }
    }
    all
}
