//! `fullpipe clean`: removes what killed runs left, and puts back what they changed.

use crate::failure::Failure;
use crate::print;

/// Remove what a killed run left on this machine
///
/// A run over tcp or with --link tun removes its network namespaces when it ends, also by Ctrl-C or SIGTERM.
/// A run that is killed (SIGKILL) cannot. This removes the namespaces of runs whose process is gone, with the
/// devices in them; where `kernel load --default` was killed, it puts back what was the default; and nothing else.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    let done = fullpipe_lab::clean().map_err(Failure::run)?;
    match done.is_empty() {
        true => print("nothing was left\n"),
        false => print(&(done.join("\n") + "\n")),
    }
}
