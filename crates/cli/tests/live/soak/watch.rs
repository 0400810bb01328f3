//! The server's resources, seen from outside.

use std::fmt;

use crate::common::{Serve, scrape};

/// The server's resources at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) resident: u64,
    pub(crate) descriptors: usize,
    connections: u64,
    handshakes: u64,
    answers: u64,
    open_files: u64,
    tasks: u64,
}

impl Sample {
    pub(crate) fn of(server: &Serve) -> Self {
        let (status, body) = scrape(server.metrics(), "/metrics");
        assert_eq!(status, "HTTP/1.1 200 OK");
        let gauge = |name: &str| {
            let name = format!("fullpipe_{name} ");
            let line = body.lines().find_map(|line| line.strip_prefix(&name)).expect("a gauge");
            line.parse().expect("a number")
        };
        Self {
            resident: server.resident(),
            descriptors: server.descriptors(),
            connections: gauge("connections"),
            handshakes: gauge("unvalidated_handshakes"),
            answers: gauge("answers"),
            open_files: gauge("open_files"),
            tasks: gauge("tasks"),
        }
    }

    /// The files come and go with the requests, and are looked at by themselves.
    fn other_descriptors(&self) -> f64 {
        self.descriptors as f64 - self.open_files as f64
    }

    /// True if no client has left anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.connections + self.handshakes + self.answers + self.open_files == 0
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} MB, {} descriptors, {} tasks, {} connections, {} half-open, {} answers, {} open files",
            self.resident as f64 / 1e6,
            self.descriptors,
            self.tasks,
            self.connections,
            self.handshakes,
            self.answers,
            self.open_files,
        )
    }
}

/// A figure's name, what it is, and how far beyond its share a mean may be.
type Figure = (&'static str, fn(&Sample) -> f64, f64);

const FIGURES: [Figure; 6] = [
    ("bytes of memory", |sample| sample.resident as f64, 4e6),
    ("descriptors of other things than files", Sample::other_descriptors, 4.0),
    ("tasks", |sample| sample.tasks as f64, 100.0),
    ("connections", |sample| sample.connections as f64, 20.0),
    ("answers", |sample| sample.answers as f64, 50.0),
    ("open files", |sample| sample.open_files as f64, 50.0),
];

/// The mean of the last third is at most a tenth more than that of the second, and the figure's own
/// margin.
pub(crate) fn assert_flat(samples: &[Sample]) {
    let third = samples.len() / 3;
    let mean = |of: &[Sample], what: fn(&Sample) -> f64| {
        of.iter().map(what).sum::<f64>() / of.len() as f64
    };
    for (name, what, margin) in FIGURES {
        let before = mean(&samples[third..2 * third], what);
        let after = mean(&samples[2 * third..], what);
        println!("{name}: {before:.0} in the second third, {after:.0} in the last");
        assert!(after <= before * 1.1 + margin, "{name}: {before:.0}, then {after:.0}");
    }
}
