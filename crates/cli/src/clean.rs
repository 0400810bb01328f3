//! `fullpipe clean`: removes what killed runs left.

use crate::failure::Failure;
use crate::print;

/// Remove what a killed run left on this machine
///
/// A run over tcp or with --link tun removes its network namespaces when it ends, also by Ctrl-C or SIGTERM.
/// A run that is killed (SIGKILL) cannot. This removes the namespaces of runs whose process is gone, with the
/// devices in them, and nothing else.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    let removed = fullpipe_lab::clean().map_err(Failure::run)?;
    let mut text: String =
        removed.iter().map(|name| format!("removed namespace {name}\n")).collect();
    if removed.is_empty() {
        text.push_str("nothing was left\n");
    }
    print(&text)
}
