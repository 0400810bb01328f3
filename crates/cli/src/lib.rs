//! The command: arguments and printing. Each subcommand is a module with its `Args`, which clap
//! fills, and a `run` that takes them.
//!
//! A program of its own can be this command with more algorithms: see [`main_with`] and
//! `examples/own_algorithm.rs`.

mod clean;
mod compare;
mod conformance;
mod experiment;
mod explain;
mod failure;
mod figures;
mod get;
mod interrupt;
mod kernel;
mod live;
mod log;
mod run;
mod serve;
mod sweep;

use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fullpipe_cc::CustomAlgorithm;
use tracing_subscriber::EnvFilter;

use failure::Failure;

/// One BBR congestion control for every transport, and the lab that proves it.
#[derive(Parser)]
#[command(version, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Compare(compare::Args),
    Clean(clean::Args),
    Conformance(conformance::Args),
    Explain(explain::Args),
    Run(run::Args),
    Sweep(sweep::Args),
    Figures(figures::Args),
    Serve(serve::Args),
    Get(get::Args),
    Kernel(kernel::Args),
}

const EXIT_STATUS: &str = "\
Exit status: 0 done, 1 failed, 2 bad input (one line says which), 130 interrupted.
RUST_LOG chooses what is logged on stderr, for example RUST_LOG=debug.";

/// The command with algorithms of other crates besides: `compare --cc`, scenario files and all else that
/// takes a name know them by theirs. A `main` calls this and returns what it returns.
pub fn main_with(custom: &[&'static CustomAlgorithm]) -> ExitCode {
    fullpipe_quic::register_algorithms(custom);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return answer_usage(&error),
    };
    start_log(&cli.command);
    let outcome = match cli.command {
        Command::Clean(args) => clean::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Figures(args) => figures::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Kernel(args) => kernel::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("error: {failure}"));
            failure.exit_code()
        }
    }
}

/// Logs on stderr, so that stdout is for results alone. A server's requests are its output; a
/// client has a progress bar there, which only trouble may disturb.
fn start_log(command: &Command) {
    let default = match command {
        Command::Serve(_) => "warn,fullpipe=info,fullpipe_quic=info",
        _ => "warn",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    // Without colours: whatever else is no plain text on a line came from a peer, and the writer escapes it.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(false)
        .with_writer(|| log::Escaping(stderr()))
        .init();
}

/// The RTT that a handshake assumes before one was measured. noq's 333 ms make a handshake whose packets are lost
/// wait three times as long.
const INITIAL_RTT: fullpipe_cc::Duration = fullpipe_cc::Duration::from_millis(100);

/// A time that something may take: more than none.
fn parse_timeout(text: &str) -> Result<fullpipe_cc::Duration, String> {
    let time = fullpipe_lab::units::parse_duration(text).map_err(|error| error.to_string())?;
    match time {
        fullpipe_cc::Duration::ZERO => Err("a timeout must be more than 0".to_owned()),
        time => Ok(time),
    }
}

/// Help and version go out as clap has them; an error becomes the one line that all bad input gets.
fn answer_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr()
        || error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        // Nobody is left to be told that the terminal is gone.
        let _ = error.print();
        return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
    }
    let text = error.render().to_string();
    let problem = text.split("\n\n").next().unwrap_or(&text);
    let line = problem.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    say(&format!("{line} (--help shows what is right)"));
    ExitCode::from(2)
}

/// One line on stderr. It is not worth a panic that stderr is closed.
fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// On stdout. Whoever closed it has read enough.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
