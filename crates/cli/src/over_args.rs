//! The options `--stack`, `--clock` and `--link`, which commands that run flows share.

use std::convert::Infallible;

use fullpipe_lab::BackendChoice;
use fullpipe_scenario::{Clock, LinkKind, Over, Stack, of_former_backend};

use crate::experiment::Experiment;
use crate::failure::Failure;

/// The stack that carries the flows, its clock and its link.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct OverArgs {
    /// The stack whose packets cross the path: sim (the simulator's own), noq, quinn or s2n (QUIC
    /// by noq, quinn or s2n-quic), tcp (this project's TCP in user space) or linux (the kernel's
    /// TCP; needs Linux and root) [default: that of the file, or sim]
    #[arg(long, short = 's', value_name = "STACK")]
    stack: Option<Stack>,
    /// The clock: virtual (as fast as the machine can, and the same each time) or real [default:
    /// that of the file; or virtual, but real for s2n and linux]
    #[arg(long, value_name = "CLOCK")]
    clock: Option<Clock>,
    /// The link between the ends in real time: udp (inside this process), tun (between two network
    /// namespaces; needs Linux and root) or netem (the kernel's own there, for linux) [default: udp
    /// for QUIC, tun for TCP]
    #[arg(long, value_name = "LINK")]
    link: Option<LinkKind>,
    /// Has become --stack and --clock.
    #[arg(long, short = 'b', alias = "over", hide = true, value_parser = refuse)]
    backend: Option<Infallible>,
}

/// The name of a backend is refused with what it is called now.
fn refuse(name: &str) -> Result<Infallible, String> {
    Err(match of_former_backend(name) {
        Some(over) => format!("it has become {}", over.options()),
        None => "it has become --stack, with --clock and --link".to_owned(),
    })
}

impl OverArgs {
    /// As far as options name them.
    pub(crate) fn named(&self) -> Over {
        Over { stack: self.stack, clock: self.clock, link: self.link }
    }

    /// The backend and the link of what is no file.
    pub(crate) fn choose(&self) -> Result<(BackendChoice, Option<LinkKind>), Failure> {
        choose(self.named())
    }
}

/// The backend, and the link that was named.
pub(crate) fn choose(over: Over) -> Result<(BackendChoice, Option<LinkKind>), Failure> {
    Ok((BackendChoice::of(over).map_err(Failure::bad_input)?, over.link))
}

/// The backend and the link of all of these files: one call has one.
pub(crate) fn choose_for(
    experiments: &[Experiment],
) -> Result<(BackendChoice, Option<LinkKind>), Failure> {
    let over = |e: &Experiment| Over { clock: Some(e.plan.over.clock()), ..e.plan.over };
    let name = |e: &Experiment| e.file.clone().unwrap_or_else(|| e.plan.name.clone());
    let Some((first, others)) = experiments.split_first() else {
        return choose(Over::default());
    };
    let of_first = over(first);
    if let Some(other) = others.iter().find(|e| {
        let of_other = over(e);
        (of_other.stack(), of_other.clock, of_other.link)
            != (of_first.stack(), of_first.clock, of_first.link)
    }) {
        return Err(Failure::bad_input(format!(
            "{} names {}, and {} names {}; give one of them, or one file at a time",
            name(first),
            of_first.options(),
            name(other),
            over(other).options()
        )));
    }
    choose(of_first)
}
