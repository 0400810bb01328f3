//! The programs of ours in the kernel, for people and for monitoring.

use std::fmt::{self, Write};
use std::fs;

use super::inventory::{self, Found, Held};
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

/// The programs of ours in the kernel.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The programs, in the order in which they were loaded.
    pub programs: Vec<Program>,
}

/// Looks at the programs in the kernel: those that are pinned, those that a process holds, and
/// those that were unloaded and still have connections.
///
/// # Errors
///
/// Only root sees them.
pub fn status() -> Result<Status, Error> {
    let here = sysctl::default()?;
    let elsewhere: Vec<String> =
        namespaces::in_others(|| sysctl::default().ok()).into_iter().flatten().collect();
    let programs =
        inventory::programs()?.into_iter().map(|found| program(found, &here, &elsewhere));
    let mut programs: Vec<Program> = programs.collect::<Result<_, _>>()?;
    // What nobody holds is about to go.
    let is_in_use = |p: &Program| p.usage.connections > 0 || p.usage.as_reno() > 0;
    programs.retain(|program| program.held != Held::ByConnections || is_in_use(program));
    Ok(Status { programs })
}

fn program(found: Found, here: &str, elsewhere: &[String]) -> Result<Program, Error> {
    let Found { settings, usage, held } = found;
    let is_this_build = settings.is_this_build();
    let connections = match held {
        Held::Pinned => {
            let records = fs::read(pins::connections(&settings.name));
            connection::decode(&records.map_err(|source| Error::Pins { source })?)
        }
        Held::ByProcess | Held::ByConnections => Vec::new(),
    };
    // Of two by one name, it is the one that TCP has.
    let is_registered = held != Held::ByConnections;
    let with_it = elsewhere.iter().filter(|default| **default == settings.name).count();
    Ok(Program {
        held,
        amended: settings.amended,
        low_latency_ecn: settings.low_latency_ecn,
        version: settings.version,
        is_this_build,
        is_default: is_registered && here == settings.name,
        default_elsewhere: if is_registered { with_it } else { 0 },
        previous_default: Some(settings.previous_default).filter(|name| !name.is_empty()),
        max_connections: settings.max_connections,
        usage,
        connections,
        name: settings.name,
    })
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.programs.is_empty() {
            writeln!(f, "nothing is loaded")?;
        }
        self.programs.iter().try_for_each(|program| program.fmt(f))
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

impl Held {
    fn word(self) -> &'static str {
        match self {
            Self::Pinned => "pin",
            Self::ByProcess => "process",
            Self::ByConnections => "connections",
        }
    }
}

impl Status {
    /// One JSON object: volumes are bytes, rates bytes a second, times nanoseconds, and `null` is
    /// what is not known yet or not bounded.
    pub fn json(&self) -> String {
        let programs: Vec<String> = self.programs.iter().map(Program::json).collect();
        format!("{{\"programs\":[{}]}}\n", programs.join(","))
    }

    /// The numbers of each program in Prometheus's text format, and how many connections of pinned
    /// programs are in each state.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in METRICS {
            let _ = writeln!(text, "# HELP fullpipe_kernel_{name} {help}");
            let _ = writeln!(text, "# TYPE fullpipe_kernel_{name} {kind}");
            for program in &self.programs {
                value(program, &mut |labels, value| {
                    let own = program.labels();
                    let _ = writeln!(text, "fullpipe_kernel_{name}{{{own}{labels}}} {value}");
                });
            }
        }
        text
    }
}

/// Takes labels beside those of the program, and a value.
type Give<'a> = &'a mut dyn FnMut(&str, u64);

/// Name, kind, help and values of a metric.
type Metric = (&'static str, &'static str, &'static str, fn(&Program, Give<'_>));

const METRICS: [Metric; 7] = [
    ("connections", "gauge", "Connections that have the state of the program.", |p, give| {
        give("", p.usage.connections.into());
    }),
    ("connections_limit", "gauge", "The most connections that may have it.", |p, give| {
        give("", p.max_connections.into());
    }),
    ("reno_connections", "gauge", "Connections that run as Reno, by the reason.", |p, give| {
        give(",reason=\"limit\"", p.usage.above_limit.into());
        give(",reason=\"memory\"", p.usage.without_memory.into());
    }),
    ("is_default", "gauge", "1 if new connections of this namespace use it.", |p, give| {
        give("", p.is_default.into());
    }),
    ("is_this_build", "gauge", "0 if another build than this one loaded it.", |p, give| {
        give("", p.is_this_build.into());
    }),
    ("state_connections", "gauge", "Connections of a pinned program by state.", |p, give| {
        let mut states: Vec<&str> = p.connections.iter().map(|c| c.state).collect();
        states.sort_unstable();
        for state in states.chunk_by(|a, b| a == b) {
            give(&format!(",state=\"{}\"", state[0]), state.len() as u64);
        }
    }),
    ("lost_bytes", "gauge", "Bytes that the present connections of a pin lost.", |p, give| {
        give("", p.connections.iter().map(|c| c.lost).sum());
    }),
];

impl Program {
    /// Two by one name differ in what holds them, or in their builds.
    fn labels(&self) -> String {
        format!("name=\"{}\",held=\"{}\"", escaped(&self.name), self.held.word())
    }

    fn json(&self) -> String {
        let connections: Vec<String> = self.connections.iter().map(Connection::json).collect();
        let previous = self.previous_default.as_ref();
        format!(
            "{{\"name\":\"{}\",\"held\":\"{}\",\"amended\":{},\"low_latency_ecn\":{},\"version\":\"{}\",\
             \"is_this_build\":{},\"is_default\":{},\"default_elsewhere\":{},\"previous_default\":{},\
             \"max_connections\":{},\"connections_now\":{},\"reno_above_limit\":{},\
             \"reno_without_memory\":{},\"connections\":[{}]}}",
            escaped(&self.name),
            self.held.word(),
            self.amended,
            self.low_latency_ecn,
            escaped(&self.version),
            self.is_this_build,
            self.is_default,
            self.default_elsewhere,
            previous.map_or("null".to_owned(), |name| format!("\"{}\"", escaped(name))),
            self.max_connections,
            self.usage.connections,
            self.usage.above_limit,
            self.usage.without_memory,
            connections.join(","),
        )
    }
}

impl Connection {
    fn json(&self) -> String {
        let or_null = |v: Option<u64>| v.map_or("null".to_owned(), |v| v.to_string());
        format!(
            "{{\"local_port\":{},\"remote\":\"{}\",\"state\":\"{}\",\"smss\":{},\"cwnd\":{},\
             \"pacing_rate\":{},\"max_bw\":{},\"min_rtt\":{},\"inflight_longterm\":{},\"delivered\":{},\
             \"lost\":{},\"marked\":{},\"ecn_alpha_256\":{}}}",
            self.local_port,
            self.remote,
            self.state,
            self.smss,
            self.cwnd,
            self.pacing_rate,
            self.max_bw,
            or_null(self.min_rtt),
            or_null(self.inflight_longterm),
            self.delivered,
            self.lost,
            self.marked,
            or_null(self.ecn_alpha.map(u64::from)),
        )
    }
}

/// A text of the kernel's for a string in JSON or of a label.
fn escaped(text: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    text.chars().filter(is_plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
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
        assert_eq!(Status::default().to_string(), "nothing is loaded\n");
    }

    #[test]
    fn json_and_metrics_have_the_numbers() {
        let usage = Usage { connections: 100, above_limit: 7, without_memory: 2 };
        let status = Status { programs: vec![Program { usage, ..program() }] };
        let json = status.json();
        for part in
            ["\"name\":\"bbr3\"", "\"reno_above_limit\":7", "\"previous_default\":\"cubic\""]
        {
            assert!(json.contains(part), "{json}");
        }
        let metrics = status.metrics();
        for line in [
            "fullpipe_kernel_connections{name=\"bbr3\",held=\"pin\"} 100",
            "fullpipe_kernel_connections_limit{name=\"bbr3\",held=\"pin\"} 100",
            "fullpipe_kernel_reno_connections{name=\"bbr3\",held=\"pin\",reason=\"limit\"} 7",
            "# TYPE fullpipe_kernel_connections gauge",
        ] {
            assert!(metrics.lines().any(|l| l == line), "{line} in {metrics}");
        }
    }
}
