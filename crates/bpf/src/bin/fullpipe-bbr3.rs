//! The loader of the packages `fullpipe-bbr3`: the program goes into the kernel and stays there
//! until `unload`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use clap::Parser;
use fullpipe_bpf::arguments::{self, Handle};
use fullpipe_bpf::kernel::{self, Error, Severity};

/// BBRv3 for the TCP of this machine's kernel, Linux 6.4 or later. Needs root
#[derive(Parser, Debug)]
#[command(name = "fullpipe-bbr3", version)]
enum Command {
    /// Load it and keep it in the kernel (in /sys/fs/bpf/fullpipe)
    Load(arguments::Load),
    #[command(flatten)]
    Handle(Handle),
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
            ExitCode::from(if error.is_bad_input() { 2 } else { 1 })
        }
    }
}

/// The words of the command when it is done.
fn run(command: &Command) -> Result<String, Error> {
    Ok(match command {
        Command::Load(options) => {
            let options = options.options(true)?;
            arguments::load(&options)?;
            if let Some(note) = note_of_service() {
                let names: Vec<&str> = options.iter().map(|options| &*options.name).collect();
                fs::write(note, names.join("\n")).map_err(|source| Error::Service { source })?;
            }
            if let Some(warning) = arguments::warning() {
                eprintln!("warning: {warning}");
            }
            arguments::loaded(&options)
        }
        Command::Handle(Handle::Unload { name: None }) => match loaded_by_service() {
            Some(names) => unload(&names)?,
            None => Handle::Unload { name: None }.run()?,
        },
        Command::Handle(handle) => handle.run()?,
        Command::Check => {
            kernel::check()?;
            let findings = kernel::doctor().into_iter();
            let wrong = findings.filter(|finding| finding.verdict != Severity::Good);
            let lines = wrong.map(|finding| format!("{finding}\n"));
            format!("this kernel can have it\n{}", lines.collect::<String>())
        }
    })
}

/// The file with the names that the service loaded. It is in the unit's `RuntimeDirectory`, which
/// systemd names to the unit's commands, and removes when the unit has stopped.
fn note_of_service() -> Option<PathBuf> {
    env::var_os("RUNTIME_DIRECTORY").map(|directory| PathBuf::from(directory).join("loaded"))
}

fn loaded_by_service() -> Option<Vec<String>> {
    let names = fs::read_to_string(note_of_service()?).ok()?;
    Some(names.lines().map(str::to_owned).collect())
}

/// Unloads what the service loaded, also with the next version's options, and leaves what somebody
/// pinned by hand. One that somebody has unloaded already is no error.
fn unload(names: &[String]) -> Result<String, Error> {
    let mut done = String::new();
    for name in names {
        match kernel::unload(Some(name)) {
            Ok(undone) => done += &undone.to_string(),
            Err(Error::NotPinned | Error::NotPinnedBy(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
