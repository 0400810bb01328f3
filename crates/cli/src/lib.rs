//! The command: arguments and printing. Each subcommand is a module with its `Args`, which clap
//! fills, and a `run` that takes them.
//!
//! A program of its own can be this command with more algorithms: see [`main_with`] and
//! `examples/own_algorithm.rs`.

mod clean;
mod colour;
mod compare;
mod completions;
mod conformance;
mod descriptors;
mod experiment;
mod explain;
mod failure;
mod figures;
mod get;
mod heartbeat;
mod interop;
mod interrupt;
mod judge;
mod kernel;
mod lines;
mod link;
mod live;
mod log;
mod man;
mod over_args;
mod path_args;
mod peers;
mod perf;
mod pictures;
mod proxy;
mod report;
mod run;
mod serve;
mod signals;
mod suites;
mod survey;
mod sweep;
mod trace;
mod trace_args;
mod transport;
mod tun;
mod width;

use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fullpipe_cc::CustomAlgorithm;
use fullpipe_scenario::shortened;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use failure::Failure;
use log::Log;

/// One BBR congestion control for every transport, and the lab that proves it.
#[derive(Parser)]
#[command(version = VERSION, after_help = EXIT_STATUS)]
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
    Report(report::Args),
    Sweep(sweep::Args),
    Survey(survey::Args),
    Trace(trace::Args),
    Link(link::Args),
    Judge(judge::Args),
    Peers(peers::Args),
    Interop(interop::Args),
    Figures(figures::Args),
    Serve(serve::Args),
    Get(get::Args),
    Perf(perf::Args),
    Proxy(proxy::Args),
    Kernel(kernel::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The version, the commit that it was built from, and what it was built with.
#[cfg(feature = "kernel")]
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("FULLPIPE_COMMIT"), ", with feature kernel)");
#[cfg(not(feature = "kernel"))]
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("FULLPIPE_COMMIT"), ", without feature kernel)");

const EXIT_STATUS: &str = "\
Exit status: 0 done, 1 failed, 2 bad input (one line says which), 130 interrupted.
RUST_LOG chooses what is logged on stderr, for example RUST_LOG=debug.";

/// An error may quote what somebody wrote, whose length nothing bounds.
const MOST_OF_A_LINE: usize = 1000;

/// The command with algorithms of other crates besides: `compare --cc`, scenario files and all else
/// that takes a name know them by theirs. A `main` calls this and returns what it returns.
pub fn main_with(custom: &[&'static CustomAlgorithm]) -> ExitCode {
    fullpipe_adapter::register_algorithms(custom);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return answer_usage(&error),
    };
    let log = start_log(&cli.command);
    let outcome = match cli.command {
        Command::Clean(args) => clean::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Survey(args) => survey::run(&args),
        Command::Figures(args) => figures::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Link(args) => link::run(&args),
        Command::Judge(args) => judge::run(&args),
        Command::Peers(args) => peers::run(&args),
        Command::Interop(args) => interop::run(&args),
        Command::Kernel(args) => kernel::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    let exit_code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log.say(&format!("error: {}", shortened(&failure.to_string(), MOST_OF_A_LINE)));
            failure.exit_code()
        }
    };
    log.finish();
    exit_code
}

/// All arguments of this command, for what is generated from them.
fn command() -> clap::Command {
    Cli::command()
}

/// Logs on stderr, so that stdout is for results alone. A server's requests are its output; a
/// client has a progress bar there, which only trouble may disturb.
fn start_log(command: &Command) -> Log {
    let default = match command {
        Command::Serve(_) => "warn,fullpipe=info,fullpipe_files=info",
        _ => "warn",
    };
    let asked = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.unwrap_or_else(|| default.parse().expect("it was written here"));
    // Without colours: whatever else is no plain text on a line came from a peer, and the writer
    // escapes it.
    let goes_on = match command {
        Command::Serve(_) | Command::Proxy(_) => true,
        Command::Perf(args) => args.is_a_server(),
        _ => false,
    };
    let log = Log::start(goes_on);
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(false)
        .with_writer(log.writer());
    tracing_subscriber::registry().with(filter).with(lines).init();
    log
}

/// The RTT that a handshake assumes before one was measured. The first probe timeout is three times
/// as long (RFC 9002 section 6.2.2): 200 ms, as in quic-go, where noq's default of 333 ms is a
/// second. On a path of more than 200 ms a client sends its first packet a second time without
/// need.
const INITIAL_RTT: fullpipe_cc::Duration = fullpipe_cc::Duration::from_millis(67);

/// An algorithm of this program, with the name that was probably meant when there is none.
fn parse_cc(name: &str) -> Result<fullpipe_adapter::CongestionControl, String> {
    let all = fullpipe_adapter::CongestionControl::NAMES;
    name.parse().map_err(|error| {
        format!("{error}{}", fullpipe_scenario::suggest::did_you_mean(name, all.into_iter()))
    })
}

/// An address to listen on.
fn parse_address(text: &str) -> Result<std::net::SocketAddr, &'static str> {
    text.parse().map_err(|_| "it needs an IP address and a port, as 127.0.0.1:4433 or [::]:4433")
}

/// A time that something may take: more than none.
fn parse_timeout(text: &str) -> Result<fullpipe_cc::Duration, String> {
    let time = fullpipe_scenario::units::parse_duration(text).map_err(|error| error.to_string())?;
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
    let line = problem.lines().map(str::trim).collect::<Vec<_>>().join(" ") + &suggestion(error);
    let line = shortened(&line, MOST_OF_A_LINE);
    say(&format!("{line} (--help shows what is right)"));
    ExitCode::from(2)
}

/// The name that may have been meant, as clap has found it.
fn suggestion(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue};
    let kinds =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let meant = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        // clap has the most alike at the end.
        ContextValue::Strings(all) => all.last().cloned(),
        _ => None,
    });
    match (meant, error.get(ContextKind::InvalidArg)) {
        (_, Some(ContextValue::String(word)))
            if error.kind() == clap::error::ErrorKind::UnknownArgument
                && takes_a_stack()
                && let Some(now) = over_args::has_become(word) =>
        {
            format!("; {now}")
        }
        (Some(name), _) => format!("; did you mean {name}?"),
        (None, Some(ContextValue::String(word)))
            if error.kind() == clap::error::ErrorKind::UnknownArgument
                && !word.starts_with('-')
                && takes_a_command() =>
        {
            format!("; a command stands behind --, as in -- {word} …")
        }
        (None, Some(ContextValue::String(word)))
            if error.kind() == clap::error::ErrorKind::UnknownArgument && are_algorithms(word) =>
        {
            format!("; algorithms stand behind --cc, as in --cc {word}")
        }
        _ => String::new(),
    }
}

/// True of one algorithm, or of several with commas between them.
fn are_algorithms(word: &str) -> bool {
    word.split(',').all(|name| name.parse::<fullpipe_cc::Algorithm>().is_ok())
}

/// True if the subcommand that was asked for has the option `--stack`.
fn takes_a_stack() -> bool {
    let (asked, all) = (std::env::args().nth(1), command());
    let asked = asked.and_then(|name| all.find_subcommand(name));
    asked.is_some_and(|command| command.get_arguments().any(|arg| arg.get_id() == "stack"))
}

/// True if the subcommand that was asked for runs a command of the user's.
fn takes_a_command() -> bool {
    let asked = std::env::args().nth(1);
    asked.is_some_and(|name| ["link", "judge"].contains(&name.as_str()))
}

/// One line on stderr. It is not worth a panic that stderr is closed.
fn say(line: &str) {
    let _ = log::write_to_stderr(format!("{line}\n").as_bytes());
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
