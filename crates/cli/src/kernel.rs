//! `fullpipe kernel`: BBRv3 in the kernel that this machine runs.

use clap::Subcommand;
use fullpipe_bpf::arguments::{self, Handle};
use fullpipe_cc::Duration;
use fullpipe_scenario::units;

#[cfg(not(all(feature = "kernel", target_os = "linux")))]
use crate::failure::Failure;

/// Run BBRv3 in this machine's kernel, for every TCP connection that asks for it
///
/// Loads the congestion control as BPF into a stock Linux kernel, 6.4 or later: nothing is rebuilt,
/// nothing restarts. Programs choose it with setsockopt(TCP_CONGESTION). Needs root.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  sudo fullpipe kernel load bbr3 bbr3x --pin
  sudo fullpipe kernel status
  sudo fullpipe kernel doctor
  sudo fullpipe kernel use bbr3 --cgroup /sys/fs/cgroup/system.slice/nginx.service --port 443
  sudo fullpipe kernel unload";

// Without the feature there is help for the options, and nobody who reads them.
#[cfg_attr(not(all(feature = "kernel", target_os = "linux")), allow(dead_code))]
#[derive(Subcommand, Debug)]
enum Action {
    /// Load it, and hold it until Ctrl-C; with --pin, until `fullpipe kernel unload`
    Load {
        #[command(flatten)]
        options: arguments::Load,
        /// Keep it in the kernel when this command ends (in /sys/fs/bpf/fullpipe)
        #[arg(long)]
        pin: bool,
    },
    #[command(flatten)]
    Handle(Handle),
    /// Report what this machine supports, what it lacks, and what is in the way
    Doctor,
    /// Measure bbr3 and bbr3x beside linux:bbr and linux:cubic on eight paths and on loopback:
    /// a quarter of an hour
    ///
    /// They are loaded for this under names of their own. The table is markdown on stdout. The
    /// figures of a path are those of one run; (!) marks a run whose link was late. Use a quiet
    /// machine.
    Figures {
        /// Duration of each run on a path
        #[arg(long, value_name = "TIME", default_value = "24s", value_parser = units::parse_duration)]
        duration: Duration,
    },
}

#[cfg(not(all(feature = "kernel", target_os = "linux")))]
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let action = match &args.action {
        Action::Load { .. } => "load",
        Action::Handle(handle) => handle.name(),
        Action::Doctor => "doctor",
        Action::Figures { .. } => "figures",
    };
    Err(Failure::bad_input(format!(
        "`kernel {action}` is not in this fullpipe: on Linux, build it with `cargo install --path \
         crates/cli --features kernel` (needs clang-19, libelf-dev and zlib1g-dev)"
    )))
}

#[cfg(all(feature = "kernel", target_os = "linux"))]
pub(crate) use linux::run;

#[cfg(all(feature = "kernel", target_os = "linux"))]
mod linux {
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    use fullpipe_bpf::arguments;
    use fullpipe_bpf::kernel::{self, Cost, Counting, Error, Loaded, Options, Severity};
    use fullpipe_figures::kernel::{self as kernel_figures, Campaign, Contender};
    use fullpipe_scenario::KernelCc;

    use super::{Action, Args};
    use crate::failure::Failure;
    use crate::interrupt::Interrupt;
    use crate::{print, say};

    /// Time after which Ctrl-C is seen.
    const NAP: Duration = Duration::from_millis(100);

    pub(crate) fn run(args: &Args) -> Result<(), Failure> {
        match &args.action {
            Action::Load { options, pin } => load(&options.options(*pin).map_err(fail)?, *pin),
            Action::Handle(handle) => print(&handle.run().map_err(fail)?),
            Action::Doctor => doctor(),
            Action::Figures { duration } => figures(*duration),
        }
    }

    fn fail(error: Error) -> Failure {
        if error.is_bad_input() { Failure::bad_input(error) } else { Failure::run(error) }
    }

    /// Fails if it cannot be loaded here.
    fn doctor() -> Result<(), Failure> {
        let findings = kernel::doctor();
        print(&findings.iter().map(|finding| format!("{finding}\n")).collect::<String>())?;
        match findings.iter().any(|finding| finding.verdict == Severity::Bad) {
            true => Err(Failure::run("it cannot be loaded here: BAD above says why")),
            false => Ok(()),
        }
    }

    fn load(all: &[Options], pin: bool) -> Result<(), Failure> {
        let stop = Interrupt::install()?.flag();
        let loaded = arguments::load(all).map_err(fail)?;
        if let Some(warning) = arguments::warning() {
            say(&warning);
        }
        print(&arguments::loaded(all))?;
        if pin {
            return Ok(());
        }
        say("Ctrl-C takes it out again; --pin would have kept it");
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(NAP);
        }
        drop(loaded);
        let lines = all.iter().map(|options| format!("{} is out of the kernel\n", options.name));
        print(&lines.collect::<String>())
    }

    /// Duration of each of the three runs over loopback.
    const LOOPBACK: fullpipe_cc::Duration = fullpipe_cc::Duration::from_secs(4);

    fn figures(duration: fullpipe_cc::Duration) -> Result<(), Failure> {
        // What cannot be measured is not to be loaded for it.
        if duration == fullpipe_cc::Duration::ZERO {
            let why = "--duration must be greater than 0; write a time like 10s";
            return Err(Failure::bad_input(why));
        }
        let stop = Interrupt::install()?.flag();
        // The name, the program, and its cost so far.
        let load = |amended, prefix| -> Result<_, Failure> {
            let name = format!("{prefix}_{}", std::process::id());
            let options = Options { name: name.clone(), amended, ..Options::default() };
            Ok((name, kernel::load(&options).map_err(fail)?, Cost::default()))
        };
        let mut programs = [load(false, "bbr3")?, load(true, "bbr3x")?];
        let _counting = Counting::start().map_err(fail)?;
        let contender = |label: &str, name: &str| {
            let cc =
                KernelCc::named(name).ok_or_else(|| Failure::run(format!("no name: {name}")))?;
            Ok(Contender { label: label.to_owned(), cc })
        };
        let contenders = vec![
            contender("bbr3-linux", &programs[0].0)?,
            contender("bbr3x-linux", &programs[1].0)?,
            contender("linux:bbr", "bbr")?,
            contender("linux:cubic", "cubic")?,
        ];
        let campaign = Campaign { contenders, duration, loopback: LOOPBACK };
        let mut cost = |contender: &Contender| {
            let own = programs.iter_mut().find(|(name, ..)| contender.cc.name() == name);
            own.map_or("-".to_owned(), |(_, loaded, before)| cost_since(loaded, before))
        };
        let tell = &mut |line: &str| say(line);
        let table = kernel_figures::run(&campaign, "cong_control ns", &mut cost, &stop, tell);
        print(&table.map_err(Failure::run)?)?;
        match stop.load(Ordering::Relaxed) {
            true => Err(Failure::Interrupted("interrupted; this is the table so far".to_owned())),
            false => Ok(()),
        }
    }

    /// Nanoseconds an ACK since the last time.
    fn cost_since(loaded: &Loaded, before: &mut Cost) -> String {
        let now = loaded.ack_cost().unwrap_or(*before);
        let mean = (now - *before).mean();
        *before = now;
        mean.map_or("-".to_owned(), |nanos| format!("{nanos:.0}"))
    }
}
