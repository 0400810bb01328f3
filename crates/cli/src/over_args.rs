//! The options `--stack`, `--clock` and `--link`, which commands that run flows share.

use fullpipe_lab::BackendChoice;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Clock, LinkKind, Over, Stack, Wrong, locate, of_former_backend};

use crate::experiment::Experiment;
use crate::failure::Failure;

/// The stack that carries the flows, and its clock.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct StackArgs {
    /// The stack whose packets cross the path: sim (the simulator's own), noq, quinn or s2n (QUIC
    /// by noq, quinn or s2n-quic), tcp (this project's TCP in user space) or linux (the kernel's
    /// TCP; needs Linux and root) [default: that of the file, or sim]
    #[arg(long, short = 's', value_name = "STACK")]
    stack: Option<Stack>,
    /// The clock: virtual (as fast as the machine can, and the same each time) or real [default:
    /// that of the file; or virtual, but real for s2n and linux]
    #[arg(long, value_name = "CLOCK")]
    clock: Option<Clock>,
}

/// The stack that carries the flows, its clock and its link.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct OverArgs {
    #[command(flatten)]
    stack: StackArgs,
    /// The link between the ends in real time: udp (inside this process), tun (between two network
    /// namespaces; needs Linux and root) or netem (the kernel's own there, for linux) [default: udp
    /// for QUIC, tun for TCP]
    #[arg(long, value_name = "LINK")]
    link: Option<LinkKind>,
}

/// The options that named a backend before these did.
const FORMER: [&str; 3] = ["--backend", "--over", "-b"];

/// The new form of a former option, which clap does not know.
pub(crate) fn has_become(option: &str) -> Option<String> {
    if !FORMER.contains(&option) {
        return None;
    }
    let of_equals = |arg: &str| arg.strip_prefix(option)?.strip_prefix('=').map(str::to_owned);
    let mut args = std::env::args().skip_while(|arg| arg != option && of_equals(arg).is_none());
    let name = args.next().and_then(|arg| of_equals(&arg).or_else(|| args.next()));
    Some(match name.and_then(|name| of_former_backend(&name)) {
        Some(over) => format!("it has become {}", over.options()),
        None => "it has become --stack, with --clock and --link".to_owned(),
    })
}

impl StackArgs {
    /// The backend of what is no file.
    pub(crate) fn choose(&self) -> Result<BackendChoice, Failure> {
        choose(Over { stack: self.stack, clock: self.clock, link: None })
            .map(|(backend, _)| backend)
    }
}

impl OverArgs {
    /// As far as options name them.
    pub(crate) fn named(&self) -> Over {
        let StackArgs { stack, clock } = self.stack;
        Over { stack, clock, link: self.link }
    }

    /// The backend and the link of what is no file.
    pub(crate) fn choose(&self) -> Result<(BackendChoice, Option<LinkKind>), Failure> {
        choose(self.named())
    }
}

/// The backend, and the link that was named.
pub(crate) fn choose(over: Over) -> Result<(BackendChoice, Option<LinkKind>), Failure> {
    let backend = BackendChoice::of(over);
    let backend =
        backend.map_err(|error| Failure::bad_input(format!("--{}: {error}", error.field())))?;
    Ok((backend, over.link))
}

/// The backend and the link of a plan of this file. An error of what options did not name has the
/// line of the file.
pub(crate) fn choose_of(
    plan: &Plan,
    file: &str,
    options: &OverArgs,
) -> Result<(BackendChoice, Option<LinkKind>), Failure> {
    let of_file =
        |field: &str, why| Failure::bad_input(locate(&plan.text, file, &Wrong::new(field, why)));
    let (over, named) = (plan.over, options.named());
    let backend = BackendChoice::of(over).map_err(|error| match error.field() {
        field @ "clock" if named.clock.is_none() => of_file(field, error.to_string()),
        field @ "stack" if named.stack.is_none() => of_file(field, error.to_string()),
        field => Failure::bad_input(format!("--{field}: {error}")),
    })?;
    if named.link.is_none() {
        backend.link(over.link).map_err(|why| of_file("real_link", why))?;
    }
    Ok((backend, over.link))
}

/// The backend and the link of all of these files: one call has one.
pub(crate) fn choose_for(
    experiments: &[Experiment],
    options: &OverArgs,
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
    match &first.file {
        Some(file) => choose_of(&first.plan, file, options),
        None => choose(first.plan.over),
    }
}
