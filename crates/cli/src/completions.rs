//! `fullpipe completions`: the script by which a shell completes this command's arguments.

use clap_complete::Shell;

use crate::failure::Failure;
use crate::{command, print};

/// Print the script by which a shell completes subcommands, options and files
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe completions bash > ~/.local/share/bash-completion/completions/fullpipe
  fullpipe completions zsh > /usr/local/share/zsh/site-functions/_fullpipe
  fullpipe completions fish > ~/.config/fish/completions/fullpipe.fish";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = command();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
