//! The fitness of this machine for the program, and all that is in the way.

use std::fmt;
use std::fs;

use super::inventory::Held;
use super::variant::Variant;
use super::{
    DEFAULT_NAME, DEFAULT_NAME_AMENDED, Status, cgroup, check, error, pins, status, sysctl,
    unknown_operations,
};

/// Bytes of a socket's options that a connection's state takes: `struct flow`, and what the kernel
/// keeps beside it.
const STATE: u64 = 8_192;

/// The weight of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Good,
    /// It works, and not as well as it could.
    Poor,
    /// It does not work.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its weight.
    pub verdict: Severity,
    /// The finding and what would be right, in one line.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Severity::Good => "good",
            Severity::Poor => "poor",
            Severity::Bad => "BAD ",
        };
        write!(f, "{word}  {}", self.text)
    }
}

fn good(text: impl Into<String>) -> Finding {
    Finding { verdict: Severity::Good, text: text.into() }
}

fn poor(text: impl Into<String>) -> Finding {
    Finding { verdict: Severity::Poor, text: text.into() }
}

fn bad(text: impl Into<String>) -> Finding {
    Finding { verdict: Severity::Bad, text: text.into() }
}

/// Looks at the kernel, at the rights of this process and at the settings of this network
/// namespace. Changes nothing.
pub fn doctor() -> Vec<Finding> {
    // Without the rights to look there is no list.
    let programs = status().ok();
    let mut findings = of_kernel();
    findings.push(of_rights());
    findings.push(if pins::has_file_system() {
        good("/sys/fs/bpf is there for --pin")
    } else {
        poor("/sys/fs/bpf is not mounted, which --pin needs: mount -t bpf -o mode=700 bpf /sys/fs/bpf")
    });
    findings.push(match cgroup::mount_point() {
        Some(path) => good(format!("cgroups are in {}, for `use`", path.display())),
        None => poor("no cgroups of version 2, which `use` needs: mount -t cgroup2 none DIRECTORY"),
    });
    findings.extend(of_names(&sysctl::available().unwrap_or_default(), programs.as_ref()));
    findings.extend(of_settings(|path| {
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok())
    }));
    findings.extend(programs.as_ref().map(of_programs).unwrap_or_default());
    findings
}

fn of_kernel() -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut findings = vec![match check() {
        Ok(()) => good(format!("Linux {release} can have it")),
        Err(error) => bad(error.to_string()),
    }];
    findings.extend(Variant::of_this_kernel().ok().and_then(of_variant));
    findings.extend(of_operations(&unknown_operations().unwrap_or_default()));
    findings
}

fn of_variant(variant: Variant) -> Option<Finding> {
    let kernels = variant.never_run_on()?;
    Some(poor(format!("the variant of the program for {kernels} was never run: none was at hand")))
}

fn of_operations(unknown: &[String]) -> Option<Finding> {
    let names = unknown.join(", ");
    (!unknown.is_empty()).then(|| {
        poor(format!(
            "this kernel's TCP has operations that this program does not know, and may miss what they say: {names}"
        ))
    })
}

fn of_rights() -> Finding {
    let lacking = error::lacking();
    match lacking.join(", ") {
        none if none.is_empty() => good("this process may load it, also as the default"),
        names if lacking == ["CAP_NET_ADMIN"] => {
            poor(format!("this process may load it, and not as the default: it lacks {names}"))
        }
        names if error::is_in_user_namespace() => bad(format!(
            "this process may not load it: it lacks {names} outside of its user namespace, whose root is not the machine's"
        )),
        names => bad(format!("this process may not load it: it lacks {names}")),
    }
}

/// Names that somebody else has.
fn of_names(available: &[String], status: Option<&Status>) -> Vec<Finding> {
    let is_there = |name: &&str| available.iter().any(|available| available == name);
    let is_ours = |name: &str| {
        let programs = status.iter().flat_map(|status| &status.programs);
        programs.filter(|p| p.held != Held::ByConnections).any(|program| program.name == name)
    };
    let names = [DEFAULT_NAME, DEFAULT_NAME_AMENDED].into_iter().filter(is_there);
    let findings = names.map(|name| match status {
        Some(_) if is_ours(name) => good(format!("{name} is loaded")),
        Some(_) => poor(format!(
            "{name} is taken by something else (a module, or another's program): load under another name, with --name"
        )),
        None => poor(format!("{name} is taken; only root sees by what")),
    });
    findings.collect()
}

/// Settings of TCP by their files; `value` reads one.
fn of_settings(value: impl Fn(&str) -> Option<u64>) -> Vec<Finding> {
    let ipv4 = |name: &str| value(&format!("/proc/sys/net/ipv4/{name}"));
    let mut findings = Vec::new();
    if ipv4("tcp_sack") == Some(0) {
        findings.push(poor("net.ipv4.tcp_sack=0: losses are found late and one at a time"));
    }
    if ipv4("tcp_timestamps") == Some(0) {
        findings.push(poor(
            "net.ipv4.tcp_timestamps=0: packets that were sent twice give no round-trip time",
        ));
    }
    if value("/proc/sys/net/core/optmem_max").is_some_and(|bytes| bytes < 2 * STATE) {
        findings.push(poor(
            "net.core.optmem_max is below 16384: sockets may lack the room for its state and go on as Reno",
        ));
    }
    if value("/proc/sys/net/core/bpf_jit_enable") == Some(0) {
        findings.push(bad("net.core.bpf_jit_enable=0: programs of this kind need the compiler"));
    }
    findings
}

/// Programs in the kernel that are not as they should be.
fn of_programs(status: &Status) -> Vec<Finding> {
    let mut findings = Vec::new();
    for program in &status.programs {
        let (name, usage) = (&program.name, program.usage);
        if program.is_only_a_default() {
            findings.push(poor(format!(
                "{name} is the default of new connections and held by nobody: `unload` puts the default of before back"
            )));
        } else if program.held == Held::ByConnections {
            findings.push(poor(format!(
                "{} connections still use a {name} that was unloaded, until they close",
                usage.connections + usage.as_reno()
            )));
        } else if !program.is_this_build {
            findings.push(poor(format!("{name} is another build: unload and load renew it")));
        }
        if usage.above_limit > 0 {
            findings.push(poor(format!(
                "{} connections of {name} run as Reno, above its limit of {}: a larger --max-connections",
                usage.above_limit, program.max_connections
            )));
        }
        if usage.without_memory > 0 {
            findings.push(poor(format!(
                "{} connections of {name} run as Reno without memory: net.core.optmem_max, or the memory cgroup",
                usage.without_memory
            )));
        }
    }
    for found in &status.uses {
        if !found.is_known {
            findings.push(poor(format!("{found}: TCP has no such algorithm now")));
        } else if found.is_gone() {
            findings.push(poor(format!("{found}: the next `use` removes what is left of it")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_in_its_way_are_named() {
        assert_eq!(of_settings(|_| None), []);
        let said = |path: &'static str| of_settings(move |p| (p == path).then_some(0));
        for path in
            ["ipv4/tcp_sack", "ipv4/tcp_timestamps", "core/optmem_max", "core/bpf_jit_enable"]
        {
            let full = format!("/proc/sys/net/{path}").leak();
            let [finding] = &said(full)[..] else { panic!("one for {path}") };
            let name = path.split('/').next_back().expect("a name");
            assert!(finding.text.contains(name), "{finding}");
        }
    }

    #[test]
    fn a_name_that_another_has_is_not_taken_for_ours() {
        let names = ["reno".to_owned(), "bbr3".to_owned()];
        let [finding] = &of_names(&names, Some(&Status::default()))[..] else { panic!("one") };
        assert_eq!(finding.verdict, Severity::Poor);
        assert!(finding.text.contains("--name"), "{finding}");
        assert_eq!(of_names(&names[..1], Some(&Status::default())), []);
    }

    #[test]
    fn a_variant_that_was_never_run_is_a_warning() {
        let said: Vec<_> = Variant::ALL.into_iter().filter_map(of_variant).collect();
        let [finding] = &said[..] else { panic!("one: {said:?}") };
        assert!(finding.text.contains("6.4 to 6.9"), "{finding}");
    }

    #[test]
    fn newer_operations_are_a_warning() {
        assert_eq!(of_operations(&[]), None);
        let finding = of_operations(&["cwnd_event_sent".to_owned()]).expect("one");
        assert!(finding.to_string().contains("cwnd_event_sent"), "{finding}");
    }
}
