//! The loader of the Debian package `fullpipe-bbr3`: the program goes into the kernel and stays
//! there until `unload`.

use std::process::ExitCode;

use clap::Parser;
use fullpipe_bpf::arguments;
use fullpipe_bpf::kernel::{self, Error, Verdict};

/// BBRv3 for the TCP of this machine's kernel, Linux 6.4 or later. Needs root
#[derive(Parser, Debug)]
#[command(name = "fullpipe-bbr3", version)]
enum Command {
    /// Load it and keep it in the kernel (in /sys/fs/bpf/fullpipe)
    Load(arguments::Load),
    /// Show what is loaded, and the model of every connection that uses it
    Status {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// The numbers of connections, by reason also those that run as Reno, for Prometheus
    Metrics,
    /// Take it out; connections that use it keep it until they close
    Unload {
        /// The name of one; without it, all that are pinned
        name: Option<String>,
    },
    /// Say whether this kernel can have it, what it lacks otherwise, and what is in its way
    Check,
}

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            eprintln!("{} (--help shows what is right)", text.lines().next().unwrap_or(&text));
            return ExitCode::from(2);
        }
        Err(help) => {
            // Nobody is left to be told that the terminal is gone.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    match run(&command) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if matches!(error, Error::BadName(_) | Error::BadLimit) { 2 } else { 1 })
        }
    }
}

/// What the command says when it is done.
fn run(command: &Command) -> Result<String, Error> {
    Ok(match command {
        Command::Load(options) => {
            let options = options.options(true);
            kernel::load(&options)?;
            warn();
            let default = if options.default { ", and the default of new connections" } else { "" };
            format!("{} is in the kernel{default}\n", options.name)
        }
        Command::Status { json: true } => kernel::status()?.json(),
        Command::Status { json: false } => kernel::status()?.to_string(),
        Command::Metrics => kernel::status()?.metrics(),
        Command::Unload { name } => {
            kernel::unload(name.as_deref())?.iter().map(ToString::to_string).collect()
        }
        Command::Check => {
            kernel::check()?;
            let findings = kernel::doctor().into_iter();
            let wrong = findings.filter(|finding| finding.verdict != Verdict::Good);
            let lines = wrong.map(|finding| format!("{finding}\n"));
            format!("this kernel can have it\n{}", lines.collect::<String>())
        }
    })
}

/// Says what the kernel has that this program does not know.
fn warn() {
    let unknown = kernel::unknown_operations().unwrap_or_default();
    if !unknown.is_empty() {
        eprintln!(
            "warning: this kernel's TCP has operations that are newer: {}",
            unknown.join(", ")
        );
    }
}
