//! The harness of the binaries `live`: tests that need something of the machine, or run in real
//! time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::machine::Watch;
use crate::need::{self, Need};
use crate::record::{self, Entry, Outcome};

/// Tries of a test in real time before it is inconclusive.
const TRIES: usize = 3;

/// A test of a binary `live`. [`crate::tests!`] makes them.
#[derive(Clone, Copy)]
pub struct Test {
    /// Its module and function.
    pub name: &'static str,
    /// Capabilities without which it is skipped.
    pub needs: &'static [Need],
    /// It asserts times or rates: a failure on a disturbed machine does not count.
    pub timed: bool,
    /// It is for `./test.sh --long`: ignored unless asked for (`--ignored`, `--include-ignored`).
    pub long: bool,
    /// The test.
    pub run: fn(),
}

/// Makes `TESTS` of the functions of a module, for [`main`]:
///
/// ```
/// fn a_file_arrives() {}
/// fn the_queue_is_short() {}
/// fn ten_gigabytes_arrive() {}
///
/// fullpipe_testkit::tests! {
///     [] a_file_arrives;
///     timed [Root, Tun] the_queue_is_short;
///     long timed [Root, Tun, Iperf3] ten_gigabytes_arrive;
/// }
/// # assert_eq!(TESTS.len(), 3);
/// # assert!(TESTS[2].long && TESTS[2].timed && !TESTS[0].timed);
/// ```
#[macro_export]
macro_rules! tests {
    (@ [$($done:tt)*]) => {
        /// The tests of this module.
        pub(crate) const TESTS: &[$crate::Test] = &[$($done)*];
    };
    (@ $done:tt long timed $needs:tt $($rest:tt)*) => { $crate::tests!(=> $done true true $needs $($rest)*); };
    (@ $done:tt long $needs:tt $($rest:tt)*) => { $crate::tests!(=> $done true false $needs $($rest)*); };
    (@ $done:tt timed $needs:tt $($rest:tt)*) => { $crate::tests!(=> $done false true $needs $($rest)*); };
    (@ $done:tt $needs:tt $($rest:tt)*) => { $crate::tests!(=> $done false false $needs $($rest)*); };
    (=> [$($done:tt)*] $long:tt $timed:tt $needs:tt $($test:ident),+ $(,)?; $($rest:tt)*) => {
        $crate::tests!(@ [$($done)* $($crate::__test!($test $long $timed $needs),)+] $($rest)*);
    };
    ($($group:tt)*) => { $crate::tests!(@ [] $($group)*); };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __test {
    ($test:ident $long:tt $timed:tt [$($need:ident),* $(,)?]) => {
        $crate::Test {
            name: concat!(module_path!(), "::", stringify!($test)),
            needs: &[$($crate::Need::$need),*],
            timed: $timed,
            long: $long,
            run: $test,
        }
    };
}

/// The payload of a panic that skips a test.
struct Skip(String);

/// The payload of a panic that repeats a test.
struct Untrusted(String);

/// Skips the rest of a test that cannot go on here. What can be known before belongs into its
/// needs.
pub fn skip(why: impl Into<String>) -> ! {
    // Without the hook, which would print a backtrace of what is no failure.
    resume_unwind(Box::new(Skip(why.into())))
}

/// Says that this try proves nothing, as when a link reports that it was late: it is made again,
/// and after three of them the test is inconclusive.
pub fn inconclusive(why: impl Into<String>) -> ! {
    resume_unwind(Box::new(Untrusted(why.into())))
}

/// Runs the tests that the arguments choose, which are libtest's, one after the other.
pub fn main(modules: &[&[Test]]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A binary of this kind measures: nothing runs beside a test.
    arguments.test_threads = Some(1);
    need::required();
    let all = modules.iter().copied().flatten();
    let trials = all.map(|test| {
        let test = *test;
        // The name of the binary is the same for all of them.
        let name = test.name.split_once("::").map_or(test.name, |(_, name)| name);
        Trial::ignorable_test(name, move || run(name, &test)).with_ignored_flag(test.long)
    });
    let done = libtest_mimic::run(&arguments, trials.collect());
    if done.num_ignored > 0 && !arguments.list {
        eprintln!(
            "ignored: what this machine lacks, with its reason, and what ./test.sh --long runs"
        );
    }
    done.exit_code()
}

fn run(name: &str, test: &Test) -> Result<Completion, Failed> {
    let record = |outcome, why: &str| {
        record::write(&Entry { test: name.to_owned(), outcome, why: why.replace('\n', " ") });
    };
    for need in test.needs {
        if let Err(why) = need.probe() {
            if need.is_required() {
                return Err(format!("FULLPIPE_REQUIRE names {need}, and there is {why}").into());
            }
            record(Outcome::Skipped, &why);
            return Ok(Completion::ignored_with(why));
        }
    }
    let mut doubts: Vec<String> = Vec::new();
    for _ in 0..TRIES {
        let watch = Watch::start();
        let done = catch_unwind(AssertUnwindSafe(test.run));
        let machine = watch.end();
        let Err(panic) = done else {
            if let Some(first) = doubts.first() {
                record(Outcome::Repeated, &format!("the first try: {first}"));
            }
            return Ok(Completion::Completed);
        };
        match panic.downcast::<Skip>() {
            Ok(skip) => {
                record(Outcome::Skipped, &skip.0);
                return Ok(Completion::ignored_with(skip.0));
            }
            Err(panic) => match panic.downcast::<Untrusted>() {
                Ok(why) => doubts.push(format!("{} ({machine})", why.0)),
                Err(panic) => {
                    let said = said(panic.as_ref());
                    if !test.timed || machine.is_quiet() {
                        let earlier = doubts.first().map(|d| format!("; an earlier try: {d}"));
                        return Err(
                            format!("{said} ({machine}){}", earlier.unwrap_or_default()).into()
                        );
                    }
                    doubts.push(format!("{said} ({machine})"));
                }
            },
        }
    }
    let why = format!("{TRIES} tries, the last: {}", doubts.last().expect("there were some"));
    record(Outcome::Inconclusive, &why);
    Ok(Completion::ignored_with(format!("inconclusive: {why}")))
}

/// The text of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text")
}
