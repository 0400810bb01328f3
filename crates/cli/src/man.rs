//! `fullpipe man`: the manual pages of this command.

use std::fs;
use std::path::PathBuf;

use clap_mangen::Man;

use crate::failure::Failure;
use crate::{command, print};

/// Print the manual page, or write the pages of all subcommands into a directory
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory for fullpipe.1, fullpipe-run.1 and so on; without it fullpipe.1 goes to stdout
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe man | man -l -
  fullpipe man ~/.local/share/man/man1";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        // As generate_to() has it.
        Man::new(command().disable_help_subcommand(true))
            .render(&mut page)
            .map_err(Failure::run)?;
        return print(&String::from_utf8_lossy(&page));
    };
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command(), dir))
        .map_err(|error| Failure::bad_input(format!("cannot write to {}: {error}", dir.display())))
}
