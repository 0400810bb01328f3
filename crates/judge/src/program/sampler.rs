//! The state of a path while it runs.

use std::time::{self, Instant};

use fullpipe_cc::Duration;
use fullpipe_emu::LinkSample;
use fullpipe_path::Count;
use serde::{Deserialize, Serialize};

use super::path::{ProgramPath, first_rate};
use fullpipe_lab::Progress;
use fullpipe_scenario::formulas::{bits_per_sec, ratio};

/// Time between two looks.
const INTERVAL: time::Duration = time::Duration::from_millis(100);

/// Looks over which the share of losses is taken: one second.
const LOSS_LOOKS: usize = 10;

/// Rows that are kept: beyond that every second one goes.
const MOST_ROWS: usize = 20_000;

/// The path since the row before. Of each pair the first is what the command received and the
/// second what it sent.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProgramSample {
    /// Time since the start of the command, in seconds.
    pub at_s: f64,
    /// Rate of delivered bytes, IP headers included.
    pub mbps: [f64; 2],
    /// Rate that the path could carry; null where nothing limits it.
    #[serde(default)]
    pub capacity_mbps: [Option<f64>; 2],
    /// Queueing delay of a packet that comes now, in milliseconds.
    pub queue_ms: [f64; 2],
    /// Packets that the path has lost.
    pub lost: [u64; 2],
}

/// The counters of one look.
#[derive(Clone, Copy, Default)]
struct Seen {
    delivered_bytes: [u64; 2],
    lost: [u64; 2],
    offered: [u64; 2],
}

impl Seen {
    fn of(sample: &LinkSample) -> Self {
        let ways = [sample.downlink.stats, sample.uplink.stats];
        let packets = |count: Count| count.packets;
        Self {
            delivered_bytes: ways.map(|stats| stats.delivered.bytes),
            lost: ways.map(|stats| packets(stats.dropped())),
            offered: ways.map(|stats| packets(stats.arrived) + packets(stats.duplicated)),
        }
    }
}

/// Looks at a link now and then: for a watcher, and for the rows.
pub struct Watch {
    begun: Instant,
    looked: Instant,
    /// The newest looks, the last one last.
    seen: Vec<Seen>,
    rows: Vec<ProgramSample>,
    /// Looks that go into a row, and how many have since the last one.
    looks_a_row: u32,
    looks: u32,
    /// The time of the last row, and its counters.
    row: (Instant, Seen),
}

impl Watch {
    /// A watch of what began then.
    pub fn new(begun: Instant) -> Self {
        let none = Seen::default();
        let row = (begun, none);
        Self {
            begun,
            looked: begun,
            seen: vec![none],
            rows: Vec::new(),
            looks_a_row: 1,
            looks: 0,
            row,
        }
    }

    /// Looks, if it is time to.
    pub fn look(&mut self, sample: impl FnOnce() -> LinkSample, watch: &mut dyn FnMut(Progress)) {
        if self.looked.elapsed() < INTERVAL {
            return;
        }
        let sample = sample();
        let (now, seen) = (Instant::now(), Seen::of(&sample));
        let last = self.seen.last().copied().unwrap_or_default();
        let passed = (now - self.looked).into();
        let queues = [sample.downlink.queue.delay, sample.uplink.queue.delay];
        if self.seen.len() > LOSS_LOOKS {
            self.seen.remove(0);
        }
        self.seen.push(seen);
        self.looked = now;
        let oldest = self.seen[0];
        let sum = |of: fn(&Seen) -> [u64; 2]| {
            of(&seen).iter().sum::<u64>() - of(&oldest).iter().sum::<u64>()
        };
        watch(Progress {
            elapsed: (now - self.begun).into(),
            done: 0.0,
            flow_bps: [0, 1]
                .map(|way| {
                    bits_per_sec(seen.delivered_bytes[way] - last.delivered_bytes[way], passed)
                })
                .to_vec(),
            queue: queues[0].max(queues[1]),
            loss_rate: ratio(sum(|seen| seen.lost), sum(|seen| seen.offered)),
            ..Progress::default()
        });
        self.keep(now, seen, queues);
    }

    fn keep(&mut self, now: Instant, seen: Seen, queues: [Duration; 2]) {
        self.looks += 1;
        if self.looks < self.looks_a_row {
            return;
        }
        let (then, before) = std::mem::replace(&mut self.row, (now, seen));
        let passed: Duration = (now - then).into();
        let mbps = |way: usize| {
            let bytes = seen.delivered_bytes[way] - before.delivered_bytes[way];
            bits_per_sec(bytes, passed) as f64 / 1e6
        };
        self.looks = 0;
        self.rows.push(ProgramSample {
            at_s: (now - self.begun).as_secs_f64(),
            mbps: [0, 1].map(mbps),
            // The path's, which is not asked for each row.
            capacity_mbps: [None; 2],
            queue_ms: queues.map(|queue| queue.as_nanos() as f64 / 1e6),
            lost: [0, 1].map(|way| seen.lost[way] - before.lost[way]),
        });
        if self.rows.len() > MOST_ROWS {
            self.halve();
        }
    }

    /// Makes one row of two.
    fn halve(&mut self) {
        let pairs = self.rows.chunks_exact(2).map(|pair| {
            let both = |a: [f64; 2], b: [f64; 2]| [0, 1].map(|way| f64::midpoint(a[way], b[way]));
            ProgramSample {
                mbps: both(pair[0].mbps, pair[1].mbps),
                lost: [0, 1].map(|way| pair[0].lost[way] + pair[1].lost[way]),
                ..pair[1]
            }
        });
        self.rows = pairs.collect();
        self.looks_a_row *= 2;
    }

    /// The rows, with the capacity of this path.
    pub(super) fn into_rows(self, path: &ProgramPath) -> Vec<ProgramSample> {
        with_capacity(self.rows, path)
    }
}

/// Gives each row what both directions could carry since the row before.
fn with_capacity(mut rows: Vec<ProgramSample>, path: &ProgramPath) -> Vec<ProgramSample> {
    let times = rows.iter().map(|row| Duration::from_nanos((row.at_s * 1e9).round() as u64));
    let times: Vec<Duration> = times.collect();
    for (way, config) in [&path.down, &path.up].into_iter().enumerate() {
        let Some(rate) = first_rate(config) else { continue };
        let (mut from, mut carried) = (Duration::ZERO, 0);
        for ((row, &to), bytes) in rows.iter_mut().zip(&times).zip(rate.bytes_until(&times)) {
            let mbps = bits_per_sec(bytes - carried, to - from) as f64 / 1e6;
            row.capacity_mbps[way] = Some(mbps);
            (from, carried) = (to, bytes);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::PathOptions;

    #[test]
    fn a_row_has_the_mean_capacity_since_the_row_before() {
        let options = PathOptions {
            rate: Some("8mbit".to_owned()),
            rtt: Some("20ms".to_owned()),
            buffer: "1bdp".to_owned(),
            loss: None,
            seed: 1,
            extras: fullpipe_report::plan::PathExtras::default(),
        };
        let steps = "{ every = \"1s\", list = [{ at = \"500ms\", rate = \"2mbit\" }] }";
        let mut document = options.document();
        let path = document["path"].as_table_mut().expect("a table");
        path.insert("steps".to_owned(), steps.parse().expect("a table"));
        let plan = fullpipe_report::plan::Plan::parse(
            &document.to_string(),
            "x",
            "x",
            std::path::Path::new(""),
            fullpipe_scenario::Edition::default(),
        );
        let path = ProgramPath::of(&plan.expect("a plan"), false).expect("a path");
        let row = |at_s| ProgramSample {
            at_s,
            mbps: [0.0; 2],
            capacity_mbps: [None; 2],
            queue_ms: [0.0; 2],
            lost: [0; 2],
        };
        let rows = with_capacity([0.4, 0.6, 1.0, 3.0].map(row).to_vec(), &path);
        let down: Vec<_> = rows.iter().map(|row| row.capacity_mbps[0].expect("a rate")).collect();
        assert_eq!(down, [8.0, 5.0, 2.0, 5.0]);
        assert!(rows.iter().all(|row| row.capacity_mbps[1] == Some(8.0)), "{rows:?}");
    }
}
