//! The programs of ours in the kernel, for other programs: JSON and Prometheus's text.

use std::fmt::Write;

use super::cgroup::InUse;
use super::{Connection, Held, Program, Status};

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
        let uses: Vec<String> = self.uses.iter().map(InUse::json).collect();
        format!("{{\"programs\":[{}],\"uses\":[{}]}}\n", programs.join(","), uses.join(","))
    }

    /// The numbers of each program in Prometheus's text format, how many connections of pinned
    /// programs are in each state, and how many each cgroup was given.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let programs = self.by_labels();
        for (name, kind, help, value) in METRICS {
            let _ = writeln!(text, "# HELP fullpipe_kernel_{name} {help}");
            let _ = writeln!(text, "# TYPE fullpipe_kernel_{name} {kind}");
            for program in &programs {
                value(program, &mut |labels, value| {
                    let own = program.labels();
                    let _ = writeln!(text, "fullpipe_kernel_{name}{{{own}{labels}}} {value}");
                });
            }
        }
        for (name, help, value) in METRICS_OF_USES {
            let _ = writeln!(text, "# HELP fullpipe_kernel_{name} {help}");
            let _ = writeln!(text, "# TYPE fullpipe_kernel_{name} counter");
            // Cgroups that were removed have no name, and get no more connections.
            for (found, cgroup) in self.uses.iter().filter_map(|u| Some((u, u.cgroup.as_ref()?))) {
                let cgroup = escaped(&cgroup.to_string_lossy());
                let (ports, algorithm) = (found.ports_joined(), escaped(&found.algorithm));
                let labels =
                    format!("algorithm=\"{algorithm}\",cgroup=\"{cgroup}\",ports=\"{ports}\"");
                let _ = writeln!(text, "fullpipe_kernel_{name}{{{labels}}} {}", value(found));
            }
        }
        text
    }

    /// Programs that their labels do not tell apart, as two that were unloaded, are one.
    fn by_labels(&self) -> Vec<Program> {
        let mut all: Vec<Program> = Vec::new();
        for program in &self.programs {
            match all.iter_mut().find(|earlier| earlier.labels() == program.labels()) {
                Some(earlier) => earlier.add(program),
                None => all.push(program.clone()),
            }
        }
        all
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

/// Name, help and value of a metric of what cgroups use.
type MetricOfUses = (&'static str, &'static str, fn(&InUse) -> u64);

const METRICS_OF_USES: [MetricOfUses; 2] = [
    ("use_connections_total", "Connections of a cgroup that were given the algorithm.", |u| {
        u.given
    }),
    ("use_refused_total", "Those that were to have it, and kept what they had.", |u| u.refused),
];

impl InUse {
    fn ports_joined(&self) -> String {
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        ports.join(",")
    }

    fn json(&self) -> String {
        let cgroup = self
            .cgroup
            .as_ref()
            .map_or("null".to_owned(), |path| format!("\"{}\"", escaped(&path.to_string_lossy())));
        format!(
            "{{\"algorithm\":\"{}\",\"cgroup\":{cgroup},\"ports\":[{}],\"is_known\":{},\"given\":{},\
             \"refused\":{}}}",
            escaped(&self.algorithm),
            self.ports_joined(),
            self.is_known,
            self.given,
            self.refused,
        )
    }
}

impl Program {
    fn labels(&self) -> String {
        format!("name=\"{}\",held=\"{}\"", escaped(&self.name), self.held.word())
    }

    fn add(&mut self, other: &Self) {
        self.usage.connections += other.usage.connections;
        self.usage.above_limit += other.usage.above_limit;
        self.usage.without_memory += other.usage.without_memory;
        self.max_connections = self.max_connections.max(other.max_connections);
        self.is_default |= other.is_default;
        self.is_this_build &= other.is_this_build;
        self.connections.extend(other.connections.iter().cloned());
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
            "{{\"local\":\"{}\",\"remote\":\"{}\",\"namespace\":{},\"state\":\"{}\",\"smss\":{},\"cwnd\":{},\
             \"pacing_rate\":{},\"max_bw\":{},\"min_rtt\":{},\"inflight_longterm\":{},\"delivered\":{},\
             \"lost\":{},\"losses\":{},\"losses_not_found\":{},\"tail_losses\":{},\"marked\":{},\"ecn_alpha_256\":{}}}",
            self.local,
            self.remote,
            or_null(self.namespace.map(u64::from)),
            self.state,
            self.smss,
            self.cwnd,
            self.pacing_rate,
            self.max_bw,
            or_null(self.min_rtt),
            or_null(self.inflight_longterm),
            self.delivered,
            self.lost,
            self.losses,
            self.losses_not_found,
            self.tail_losses,
            self.marked,
            or_null(self.ecn_alpha.map(u64::from)),
        )
    }
}

/// A text of the kernel's for a string in JSON or of a label: what is escaped otherwise in one than
/// in the other is left out.
fn escaped(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Usage;
    use crate::kernel::cgroup::tests::in_use;
    use crate::kernel::status::tests::program;

    #[test]
    fn json_and_metrics_have_the_numbers() {
        let usage = Usage { connections: 100, above_limit: 7, without_memory: 2 };
        let status = Status {
            programs: vec![Program { usage, ..program() }],
            uses: vec![in_use()],
            ..Status::default()
        };
        let json = status.json();
        for part in [
            "\"name\":\"bbr3\"",
            "\"reno_above_limit\":7",
            "\"previous_default\":\"cubic\"",
            r#""cgroup":"/sys/fs/cgroup/web\\x2dserver","ports":[80,443]"#,
        ] {
            assert!(json.contains(part), "{json}");
        }
        let metrics = status.metrics();
        for line in [
            "fullpipe_kernel_connections{name=\"bbr3\",held=\"pin\"} 100",
            "fullpipe_kernel_connections_limit{name=\"bbr3\",held=\"pin\"} 100",
            "fullpipe_kernel_reno_connections{name=\"bbr3\",held=\"pin\",reason=\"limit\"} 7",
            "# TYPE fullpipe_kernel_connections gauge",
            r#"fullpipe_kernel_use_connections_total{algorithm="bbr3",cgroup="/sys/fs/cgroup/web\\x2dserver",ports="80,443"} 12"#,
        ] {
            assert!(metrics.lines().any(|l| l == line), "{line} in {metrics}");
        }
    }

    /// Prometheus refuses a text that has the same labels twice.
    #[test]
    fn two_unloaded_programs_of_one_name_are_one_series() {
        let unloaded = |is_this_build| Program {
            held: Held::ByConnections,
            is_default: false,
            is_this_build,
            ..program()
        };
        let status = Status {
            programs: vec![unloaded(false), unloaded(true), program()],
            ..Status::default()
        };
        let metrics = status.metrics();
        let mut series: Vec<&str> =
            metrics.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        series.retain(|series| !series.starts_with('#'));
        let all = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), all, "{metrics}");
        let both = "fullpipe_kernel_connections{name=\"bbr3\",held=\"connections\"} 2";
        assert!(metrics.lines().any(|line| line == both), "{metrics}");
    }
}
