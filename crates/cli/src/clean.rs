//! `fullpipe clean`: removes what killed runs left, and puts back what they changed.

use crate::failure::Failure;
use crate::print;

/// Remove what a killed run left on this machine
///
/// A run over TCP in real time, or with --link tun, and fullpipe link, remove their network namespaces when they
/// end, also by Ctrl-C or SIGTERM. A run that is killed (SIGKILL) cannot. This removes the
/// namespaces of runs whose process is gone, with the devices in them, and kills the commands of
/// fullpipe link that still run there; where `kernel load --default` was killed, it puts back what
/// was the default; and nothing else.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

const EXAMPLES: &str = "\
Examples:
  sudo fullpipe clean";

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    let cleaned = fullpipe_lab::clean();
    for line in &cleaned.done {
        print(&format!("{line}\n"))?;
    }
    match cleaned.left.as_slice() {
        [] if cleaned.done.is_empty() => print("nothing was left\n"),
        [] => Ok(()),
        left => Err(Failure::run(format!("not all could be removed: {}", left.join("; ")))),
    }
}
