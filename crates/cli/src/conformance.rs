//! `fullpipe conformance`: the draft's own test cases.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use fullpipe_cc::{Amendments, DraftRules};
use fullpipe_conformance::suites::{Changes, Suite};
use fullpipe_conformance::{CASES, Case, CaseResult, Stack, Subject, Undecided};
use fullpipe_scenario::{Cc, Edition, Over, Stack as OverStack};
use serde::Serialize;

use crate::experiment::Work;
use crate::failure::Failure;
use crate::heartbeat::PATIENCE;
use crate::interrupt::Interrupt;
use crate::suites;
use crate::{print, say};

/// Check an algorithm against the test cases of its draft, or the conditions of others
///
/// Runs the 22 cases of "BBR Example Test Cases" (draft-ietf-ccwg-bbr) with the real controller in
/// the simulator, from 64 kbit/s to 10 Gbit/s and half a millisecond to a second, and says for each
/// what was seen. All cores work on it. A case that a rule of bbr3x or bbr-swift changes must fail with
/// it and pass without it.
///
/// With --suite the conditions of another source are checked, which are scenario files with
/// expectations in this program: quiche-bbr3 (Google QUICHE's simulator tests), c4 (the C4 project's
/// tests, for bbr3x), linux-v3 (what a running Linux with BBRv3 did, for bbr3-linux) or reports
/// (public reports of faults).
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The cases to run, by number or name, like 1 or startup_ends_on_a_plateau; of another suite
    /// its files, like transfer [default: all]
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// The suite: draft, quiche-bbr3, c4, linux-v3 or reports
    #[arg(long, value_name = "NAME", default_value = "draft")]
    suite: String,
    /// The algorithm: bbr3; bbr3x with its amendments; bbr-swift with a target of 4.29 s;
    /// noq:bbr3, noq's own, over noq; quinn:bbr, quinn's own of version 1, over quinn; of another
    /// suite any, in place of its own [default: bbr3, or the suite's]
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// The stack that carries it, under a virtual clock: sim, noq, quinn, or, of another suite, tcp
    #[arg(long, short = 's', value_name = "STACK", default_value = "sim")]
    stack: OverStack,
    #[command(flatten)]
    work: Work,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe conformance
  fullpipe conformance 3 startup_ends_on_a_plateau
  fullpipe conformance --cc bbr3x
  fullpipe conformance --cc bbr-swift
  fullpipe conformance --stack noq
  fullpipe conformance --stack noq --cc noq:bbr3
  fullpipe conformance --suite quiche-bbr3
  fullpipe conformance --suite quiche-bbr3 transfer --cc bbr3x
  fullpipe conformance --suite c4 c4_alone c4_short_long --stack noq
  fullpipe conformance --suite linux-v3 --json
  fullpipe conformance --json";

#[derive(Serialize)]
struct Results {
    cases: Vec<CaseResult>,
    /// True if somebody stopped it: the cases are those that were through.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

fn find(name: &str) -> Result<&'static Case, String> {
    let number = name.parse().ok();
    let case =
        CASES.iter().find(|c| Some(c.id) == number || c.name == name || c.test_name() == name);
    case.ok_or_else(|| {
        let last = CASES.last().map_or(0, |c| c.id);
        format!("there is no such case: give a number from 1 to {last}, or a name as conformance prints it")
    })
}

fn subject(name: &str) -> Result<Subject, String> {
    match name {
        "bbr3" => Ok(Subject::Bbr3),
        "bbr3x" => Ok(Subject::Bbr3x(Amendments::NONE)),
        "bbr-swift" => Ok(Subject::BbrSwift(DraftRules::NONE)),
        "noq:bbr3" => Ok(Subject::NoqBbr3),
        #[cfg(feature = "quinn")]
        "quinn:bbr" => Ok(Subject::QuinnBbr),
        _ => Err(
            "the cases are of BBRv3's draft: write bbr3, bbr3x, bbr-swift, noq:bbr3 or (with the \
                  feature quinn) quinn:bbr"
                .to_owned(),
        ),
    }
}

fn stack(stack: OverStack) -> Result<Stack, String> {
    match stack {
        OverStack::Sim => Ok(Stack::Sim),
        OverStack::Noq => Ok(Stack::Noq),
        #[cfg(feature = "quinn")]
        OverStack::Quinn => Ok(Stack::Quinn),
        _ => {
            Err("the draft's cases run over sim, noq and (with the feature quinn) quinn".to_owned())
        }
    }
}

/// A suite that is not the draft's.
fn run_suite(args: &Args, suite: &'static Suite) -> Result<(), Failure> {
    let cc = args.cc.as_ref().map(|name| name.parse::<Cc>()).transpose();
    let cc = cc.map_err(|why| Failure::bad_input(format!("--cc: {why}")))?;
    let edition = Edition { over: Over::of(args.stack), ..Edition::default() };
    suites::run(suite, &args.cases, &Changes { cc, edition }, (args.work, args.json))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let of_option =
        |option: &'static str| move |why: String| Failure::bad_input(format!("{option}: {why}"));
    if let Some(suite) = suites::find(&args.suite).map_err(of_option("--suite"))? {
        return run_suite(args, suite);
    }
    let cc = subject(args.cc.as_deref().unwrap_or("bbr3")).map_err(of_option("--cc"))?;
    let stack = stack(args.stack).map_err(of_option("--stack"))?;
    let cases = args.cases.iter().map(|name| {
        find(name).map_err(|why| Failure::bad_input(format!("'{}': {why}", name.escape_debug())))
    });
    let cases = cases.collect::<Result<Vec<&Case>, _>>()?;
    if !cc.runs_over(stack) {
        return Err(Failure::bad_input(match cc {
            Subject::NoqBbr3 => "noq:bbr3 is in noq alone: write --stack noq",
            #[cfg(feature = "quinn")]
            Subject::QuinnBbr => "quinn:bbr is in quinn alone: write --stack quinn",
            _ => {
                "a real stack has no rules to switch off, which the cases of bbr3x and bbr-swift need: write --cc bbr3"
            }
        }));
    }
    let cases = if cases.is_empty() { CASES.iter().collect() } else { cases };
    let stop = Interrupt::install()?.flag();
    let mut written = Ok(());
    let results = run_all(&cases, (cc, stack), args.work.jobs(), &stop, |result| {
        if !args.json && written.is_ok() {
            written = print(&line(result));
        }
    });
    written?;
    let interrupted = results.len() < cases.len();
    let passed = results.iter().filter(|r| r.passed).count();
    let changed = results.iter().filter(|r| r.changed_by.is_some()).count();
    let undecided = |kind| results.iter().filter(|r| r.undecided == Some(kind)).count();
    let (other, unseen) = (undecided(Undecided::NotApplicable), undecided(Undecided::Unseen));
    if args.json {
        let object = Results { cases: results, interrupted };
        print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
    } else {
        let by = match cc {
            Subject::BbrSwift(_) => "changed by its rules",
            _ => "changed by amendments",
        };
        let counts = [(changed, by), (other, "not applicable"), (unseen, "unseen")];
        let counts = counts.iter().filter(|(n, _)| *n > 0);
        let counts: String = counts.map(|(n, words)| format!(", {n} {words}")).collect();
        print(&format!("{passed} of {}{counts}\n", cases.len()))?;
    }
    if interrupted {
        return Err(Failure::Interrupted("interrupted; these are the results so far".into()));
    }
    match (cases.len() - passed - changed - other - unseen, unseen) {
        (0, 0) => Ok(()),
        (0, unseen) => {
            Err(Failure::run(format!("{unseen} of {} cases were not seen", cases.len())))
        }
        (failed, _) => Err(Failure::run(format!("{failed} of {} cases failed", cases.len()))),
    }
}

fn line(result: &CaseResult) -> String {
    let CaseResult { id, name, passed, undecided, changed_by, detail } = result;
    match (passed, changed_by, undecided) {
        (true, ..) => format!("ok   {id:>2} {name}: {detail}\n"),
        (_, Some(by), _) => format!("ok   {id:>2} {name}: changed by {by}: {detail}\n"),
        (_, _, Some(Undecided::NotApplicable)) => {
            format!("n/a  {id:>2} {name}: not applicable: {detail}\n")
        }
        (_, _, Some(Undecided::Unseen)) => format!("?    {id:>2} {name}: unseen: {detail}\n"),
        (false, None, None) => format!("FAIL {id:>2} {name}: {detail}\n"),
    }
}

/// Runs the cases on all cores, and tells of each in their order, as soon as those before it are
/// through. Returns what was through, in order.
fn run_all(
    cases: &[&Case],
    (subject, stack): (Subject, Stack),
    jobs: usize,
    stop: &AtomicBool,
    mut tell: impl FnMut(&CaseResult),
) -> Vec<CaseResult> {
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    let workers = jobs.min(cases.len());
    let mut in_order = BTreeMap::new();
    let mut told = 0;
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(place) else { return };
                    let Some(result) = case.run(subject, stack, stop) else { return };
                    if done.send((place, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let (mut spoken, mut said) = (Instant::now(), 0);
        loop {
            match results.recv_timeout(PATIENCE) {
                Ok((place, result)) => {
                    in_order.insert(place, result);
                    while let Some(result) = in_order.get(&told) {
                        tell(result);
                        told += 1;
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if spoken.elapsed() >= PATIENCE && in_order.len() > said {
                said = in_order.len();
                say(&format!("{said} of {} cases are through", cases.len()));
                spoken = Instant::now();
            }
        }
    });
    // After an interruption there may be gaps: what is behind one was not told yet.
    for (_, result) in in_order.range(told..) {
        tell(result);
    }
    in_order.into_values().collect()
}
