//! The programs of ours in the kernel, for people.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::sync::OnceLock;

use super::cgroup::{self, InUse};
use super::inventory::{self, Found, Held};
use super::variant::Variant;
use super::{Connection, Error, Usage, connection, namespaces, pins, sysctl};

/// A program in the kernel.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name by which TCP knows it, or knew it.
    pub name: String,
    /// The holder that keeps it in the kernel.
    pub held: Held,
    /// True if it has the amendments of bbr3x.
    pub amended: bool,
    /// True if it responds to CE marks.
    pub low_latency_ecn: bool,
    /// Version of the loader that loaded it.
    pub version: String,
    /// True if it is the program that this loader carries. Else that loader was built from other
    /// sources: connections have its program until it is unloaded and loaded again.
    pub is_this_build: bool,
    /// True if new connections of this network namespace use it by default.
    pub is_default: bool,
    /// Number of other network namespaces whose new connections use it by default.
    pub default_elsewhere: usize,
    /// The default before it, if it became the default when it was loaded.
    pub previous_default: Option<String>,
    /// [`Options::max_connections`](super::Options::max_connections).
    pub max_connections: u32,
    /// Numbers of its connections.
    pub usage: Usage,
    /// Its connections, of a pinned program.
    pub connections: Vec<Connection>,
}

/// The programs of ours in the kernel, and what cgroups use.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The programs, in the order in which they were loaded.
    pub programs: Vec<Program>,
    /// The algorithms of cgroups, in the order in which they began.
    pub uses: Vec<InUse>,
    /// The kernels for which this one's variant of the program is, if it was never run on any.
    pub never_run_on: Option<&'static str>,
}

/// Looks at the programs in the kernel: those that are pinned, those that a process holds, and
/// those that were unloaded and still have connections.
///
/// # Errors
///
/// Only root sees them.
pub fn status() -> Result<Status, Error> {
    let defaults = Defaults {
        here: sysctl::default()?,
        elsewhere: namespaces::in_others(|| sysctl::default().ok()).into_iter().flatten().collect(),
        available: sysctl::available()?,
    };
    let programs = inventory::programs()?.into_iter().map(|found| program(found, &defaults));
    let mut programs: Vec<Program> = programs.collect::<Result<_, _>>()?;
    // What nobody holds is about to go.
    let is_in_use = |p: &Program| p.usage.connections > 0 || p.usage.as_reno() > 0;
    programs.retain(|program| {
        program.held != Held::ByConnections || is_in_use(program) || program.is_only_a_default()
    });
    Ok(Status { programs, uses: cgroup::list()?, never_run_on: never_run_on() })
}

/// [`Status::never_run_on`]. The kernel's types are megabytes, and stay the same.
fn never_run_on() -> Option<&'static str> {
    static VARIANT: OnceLock<Variant> = OnceLock::new();
    once_read(&VARIANT, || Variant::of_this_kernel().ok())?.never_run_on()
}

/// The value that was read before, or is read now. Of a failed read nothing is kept.
fn once_read<T: Copy>(kept: &OnceLock<T>, read: impl FnOnce() -> Option<T>) -> Option<T> {
    kept.get().copied().or_else(|| read().map(|value| *kept.get_or_init(|| value)))
}

/// The names that are defaults, and those that TCP has.
struct Defaults {
    here: String,
    /// Those of other network namespaces.
    elsewhere: Vec<String>,
    available: Vec<String>,
}

fn program(found: Found, defaults: &Defaults) -> Result<Program, Error> {
    let Found { settings, usage, held } = found;
    let is_this_build = settings.is_this_build();
    let connections = match held {
        Held::Pinned => match fs::read(pins::connections(&settings.name)) {
            Ok(records) => connection::decode(&records),
            // It is unloaded meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(Error::Pins { source }),
        },
        Held::ByProcess | Held::ByConnections => Vec::new(),
    };
    // Of two by one name, it is the one that TCP has. A default keeps its name after the
    // registration has ended.
    let is_it = held != Held::ByConnections || !defaults.available.contains(&settings.name);
    let with_it = defaults.elsewhere.iter().filter(|default| **default == settings.name).count();
    Ok(Program {
        held,
        amended: settings.amended,
        low_latency_ecn: settings.low_latency_ecn,
        version: settings.version,
        is_this_build,
        is_default: is_it && defaults.here == settings.name,
        default_elsewhere: if is_it { with_it } else { 0 },
        previous_default: Some(settings.previous_default).filter(|name| !name.is_empty()),
        max_connections: settings.max_connections,
        usage,
        connections,
        name: settings.name,
    })
}

impl Program {
    /// True if it is in the kernel for being a default: the process that held it was killed.
    pub(super) fn is_only_a_default(&self) -> bool {
        self.held == Held::ByConnections && (self.is_default || self.default_elsewhere > 0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.programs.is_empty() && self.uses.is_empty() {
            writeln!(f, "nothing is loaded")?;
        }
        self.programs.iter().try_for_each(|program| program.fmt(f))?;
        if let Some(kernels) = self.never_run_on.filter(|_| !self.programs.is_empty()) {
            writeln!(f, "the variant of the program for {kernels} was never run")?;
        }
        for found in &self.uses {
            writeln!(f, "{found}: {} so far", found.given)?;
            if found.refused > 0 {
                writeln!(f, "  {} more kept what they had", found.refused)?;
            }
            if !found.is_known {
                writeln!(f, "  TCP has no {} now: they get the default", found.algorithm)?;
            }
        }
        Ok(())
    }
}

/// A line for the program, one for what is not as it should be, and one for each connection.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, usage, max_connections, .. } = self;
        let plural = if usage.connections == 1 { "" } else { "s" };
        let default = if self.is_default { ", the default" } else { "" };
        let previous = self.previous_default.as_ref();
        let before = previous.map(|name| format!(" (before it {name})")).unwrap_or_default();
        let elsewhere = match self.default_elsewhere {
            0 => String::new(),
            n => format!(", the default of {n} other network namespaces"),
        };
        let held = match self.held {
            Held::Pinned => "",
            Held::ByProcess => ", held by the process that loaded it",
            Held::ByConnections if self.is_only_a_default() => {
                ", held by nobody: `unload` puts the default of before back"
            }
            Held::ByConnections => ", unloaded: they keep it until they close",
        };
        writeln!(
            f,
            "{name}: {} connection{plural} of at most {max_connections}{default}{before}{elsewhere}{held}",
            usage.connections
        )?;
        if usage.as_reno() > 0 {
            let Usage { above_limit, without_memory, .. } = usage;
            writeln!(
                f,
                "  {} more run as Reno: {above_limit} above the limit (--max-connections), {without_memory} without \
                 memory for their state (net.core.optmem_max)",
                usage.as_reno()
            )?;
        }
        if !self.is_this_build && self.held != Held::ByConnections {
            writeln!(
                f,
                "  loaded by version {}, whose program is not that of this command: unload and load renew it",
                self.version
            )?;
        }
        self.connections.iter().try_for_each(|connection| writeln!(f, "  {connection}"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kernel::cgroup::tests::in_use;

    pub(crate) fn program() -> Program {
        Program {
            name: "bbr3".to_owned(),
            held: Held::Pinned,
            amended: false,
            low_latency_ecn: false,
            version: "0.1.0".to_owned(),
            is_this_build: true,
            is_default: true,
            default_elsewhere: 0,
            previous_default: Some("cubic".to_owned()),
            max_connections: 100,
            usage: Usage { connections: 1, above_limit: 0, without_memory: 0 },
            connections: Vec::new(),
        }
    }

    #[test]
    fn a_limit_that_is_reached_and_another_build_are_said() {
        let plain = program().to_string();
        assert_eq!(plain, "bbr3: 1 connection of at most 100, the default (before it cubic)\n");
        let usage = Usage { connections: 100, above_limit: 7, without_memory: 2 };
        let full = Program { usage, is_this_build: false, ..program() }.to_string();
        for part in ["9 more run as Reno: 7 above the limit", "2 without memory", "unload and load"]
        {
            assert!(full.contains(part), "{full}");
        }
        let gone = Program { held: Held::ByConnections, is_default: false, ..program() };
        assert!(gone.to_string().contains("unloaded: they keep it"), "{gone}");
        let kept = Program { held: Held::ByConnections, ..program() };
        assert!(kept.to_string().contains("`unload` puts the default of before back"), "{kept}");
        assert_eq!(Status::default().to_string(), "nothing is loaded\n");
        let never_run_on = Some("Linux 6.4 to 6.9");
        let status = Status { programs: vec![program()], never_run_on, ..Status::default() };
        assert!(status.to_string().contains("for Linux 6.4 to 6.9 was never run"), "{status}");
    }

    #[test]
    fn a_cgroup_whose_algorithm_is_gone_is_said() {
        let mut gone = in_use();
        (gone.is_known, gone.refused) = (false, 3);
        let text = Status { uses: vec![gone], ..Status::default() }.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "bbr3 on ports 80,443 for connections of /sys/fs/cgroup/web\\x2dserver: 12 so far",
                "  3 more kept what they had",
                "  TCP has no bbr3 now: they get the default",
            ]
        );
    }

    /// A process that may not read the kernel's types yet, or has no memory for them, may do so
    /// later.
    #[test]
    fn a_read_that_fails_is_tried_again() {
        let kept = OnceLock::new();
        assert_eq!(once_read(&kept, || None), None);
        assert_eq!(once_read(&kept, || Some(7)), Some(7));
        assert_eq!(once_read(&kept, || panic!("it is known")), Some(7));
    }
}
