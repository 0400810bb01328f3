//! `fullpipe judge`: verdicts on any sender.

use std::ffi::OsString;
use std::sync::atomic::Ordering;

use fullpipe_lab::RunError;
use fullpipe_lab::output::SCHEMA_VERSION;
use fullpipe_lab::program::{
    self, Grade, Judgement, ProgramPath, ProgramPlace, ProgramRequest, ProgramResult,
};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::{Relay, cannot_run, outcome, parse_relay};
use crate::{print, say};

/// Judge any sender by what it does on four paths
///
/// Runs the command on each path as fullpipe link does and looks at the direction that carried the data: whether it
/// fills the path, whether it keeps a standing queue in a deep buffer, its rate at 1 % of random loss, and its losses
/// at a shallow buffer. bbr3, bbr1 and cubic run on the same paths in the simulator for as long, and the limits come
/// from them: good is about what the best of them does, broken is worse than each by far, poor is between. Each
/// transfer has to take 3 s at least, better 10.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Relay UDP from the address LISTEN to SERVER and back, without root, as fullpipe link does
    #[arg(long, value_name = "LISTEN=SERVER", value_parser = parse_relay, allow_hyphen_values = true)]
    udp: Option<Relay>,
    /// Print one JSON object on stdout; the commands' output goes to stderr
    #[arg(long)]
    json: bool,
    /// The command and its arguments, behind --; {host} and {port} are replaced as fullpipe link does
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples (with iperf3 -s running on this machine):
  sudo fullpipe judge -- iperf3 -c {host} -t 10
  sudo fullpipe judge -- iperf3 -c {host} -t 10 -C bbr
  fullpipe judge --udp 0=127.0.0.1:4433 -- my-quic-client https://localhost:{port}/file

Exit status: 0 nothing is broken, 1 something is, 2 bad input or a command that cannot be judged, 130 interrupted; that
of a command that failed.";

/// The object of --json.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema_version: u32,
    checks: &'a [Judgement],
    runs: &'a [ProgramResult],
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let place = args.udp.map_or(ProgramPlace::Namespace, Relay::place);
    program::check(place).map_err(Failure::bad_input)?;
    let stop = Interrupt::install()?.flag();
    let (mut checks, mut runs) = (Vec::new(), Vec::new());
    let paths = program::paths();
    for (i, options) in paths.iter().enumerate() {
        let plan = options.plan().map_err(Failure::run)?;
        let path = ProgramPath::of(&plan, false).map_err(Failure::run)?;
        say(&format!("judge: {} of {}: {}", i + 1, paths.len(), path.name));
        let result = program::run(ProgramRequest {
            path: &path,
            place,
            rebind: &[],
            capture: None,
            command: &args.command,
            server: None,
            output_on_stderr: true,
            stop: &stop,
            address: &mut |_| (),
            watch: &mut |_| (),
        });
        let result = result.map_err(cannot_run)?;
        outcome(&result)?;
        if let Some(warning) = &result.emulator.warning {
            say(&format!("{}: not to be trusted: {warning}", result.path));
        }
        let judged = program::judge(i, &result, &stop);
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::interrupted(true));
        }
        checks.push(judged.map_err(|error| match error {
            RunError::Scenario(_) => Failure::bad_input(error),
            error => Failure::run(error),
        })?);
        runs.push(result);
    }
    if args.json {
        let report = Report { schema_version: SCHEMA_VERSION, checks: &checks, runs: &runs };
        print(&format!("{}\n", serde_json::to_string(&report).map_err(Failure::run)?))?;
    } else {
        print(&program::judgements(&checks).to_text())?;
    }
    let broken: Vec<&str> =
        checks.iter().filter(|c| c.grade == Grade::Broken).map(|c| c.check.as_str()).collect();
    match broken.as_slice() {
        [] => Ok(()),
        some => Err(Failure::run(format!("broken: {}", some.join(", ")))),
    }
}
