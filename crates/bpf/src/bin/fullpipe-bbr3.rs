//! The loader of the Debian package `fullpipe-bbr3`: the program goes into the kernel and stays
//! there until `unload`.

use std::process::ExitCode;

use clap::Parser;
use fullpipe_bpf::arguments;
use fullpipe_bpf::kernel::{self, Error};

/// BBRv3 for the TCP of this machine's kernel, Linux 6.4 or later. Needs root
#[derive(Parser, Debug)]
#[command(name = "fullpipe-bbr3", version)]
enum Command {
    /// Load it and keep it in the kernel (in /sys/fs/bpf/fullpipe)
    Load(arguments::Load),
    /// Show whether it is loaded, and the model of every connection that uses it
    Status,
    /// Take it out; connections that use it keep it until they close
    Unload,
    /// Say whether this kernel can have it, and what it lacks otherwise
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
            ExitCode::from(if matches!(error, Error::BadName(_)) { 2 } else { 1 })
        }
    }
}

/// What the command says when it is done.
fn run(command: &Command) -> Result<String, Error> {
    Ok(match command {
        Command::Load(options) => {
            let options = options.options(true);
            kernel::load(&options)?;
            let default = if options.default { ", and the default of new connections" } else { "" };
            format!("{} is in the kernel{default}\n", options.name)
        }
        Command::Status => kernel::report()?,
        Command::Unload => kernel::unload()?.to_string(),
        Command::Check => {
            kernel::check()?;
            "this kernel can have it\n".to_owned()
        }
    })
}
