//! The story of one flow: when and why it entered and left each state, what it believed and what
//! was true, and where its bytes waited.
//!
//! A [`Narrator`] sees nothing but an algorithm's [`Snapshot`] and the truth of the path, so that
//! it can tell of any algorithm that anybody drives; [`tell()`] drives a flow of a plan in the
//! simulator and looks after every event, or looks at it every few milliseconds of real time.

mod drive;
mod reasons;
mod render;

use fullpipe_cc::{Duration, Instant, Snapshot};
use fullpipe_scenario::formulas::{millis, millis_of, ratio, seconds};
use serde::Serialize;

pub use drive::{ExplainError, tell};

/// True properties of a path, independent of an algorithm's model.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Truth {
    /// Rate of the bottleneck for the bytes that congestion control counts, in bits per second: its
    /// rate without the headers that only the link sees.
    pub carries_bps: u64,
    /// The shortest possible round trip of a full packet, in milliseconds: the propagation and its
    /// own time on the wire.
    pub min_rtt_ms: f64,
    /// The product of the two, in bytes.
    pub bdp_bytes: u64,
    /// True if the path changes while it runs: then the rate is the mean over the run, and the
    /// round trip the shortest of all times.
    pub changes: bool,
}

/// The queue in front of the bottleneck at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BottleneckQueue {
    /// Bytes in it.
    pub bytes: u64,
    /// Queueing delay of a packet that arrives now.
    pub delay: Duration,
}

/// The name of a stay before there is a connection.
const HANDSHAKE: &str = "Handshake";

/// A stay in one state.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Chapter {
    /// Time of entry, in seconds from the start of the flow.
    pub t_s: f64,
    /// For how long, in seconds.
    pub lasted_s: f64,
    /// The state, in the draft's spelling; `Handshake` where packets of the handshake were lost.
    pub state: &'static str,
    /// Reason why it was entered, and why the one before was left.
    pub why: String,
    /// Mean and peak of the queue's delay meanwhile.
    pub queue_mean_ms: f64,
    /// The longest delay.
    pub queue_max_ms: f64,
    /// Bytes that the sender marked lost meanwhile.
    pub lost_bytes: u64,
    /// Bytes delivered meanwhile.
    pub delivered_bytes: u64,
    /// The congestion window at its end.
    pub cwnd_bytes: u64,
    /// BBR's maximum bandwidth at its end, in bits per second.
    pub max_bw_bps: Option<u64>,
    /// BBR's minimum round trip at its end.
    pub min_rtt_ms: Option<f64>,
}

/// All stays in one state together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StateTotal {
    /// The state.
    pub state: &'static str,
    /// Number of stays.
    pub visits: u64,
    /// The share of the time, from 0 to 1.
    pub time_share: f64,
    /// The mean of the queue's delay.
    pub queue_mean_ms: f64,
    /// The share of all waiting in the queue (bytes times time), from 0 to 1.
    pub waiting_share: f64,
    /// Bytes marked lost.
    pub lost_bytes: u64,
}

/// Location of the bytes in flight, as means over time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Whereabouts {
    /// In flight in all.
    pub inflight_bytes: u64,
    /// Of these in the bottleneck's queue.
    pub queue_bytes: u64,
    /// The others: on the way there, or as their ACKs on the way back.
    pub path_bytes: u64,
}

/// A flow's story.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Story {
    /// The algorithm.
    pub cc: String,
    /// The path in words.
    pub path: String,
    /// Its true properties.
    pub truth: Truth,
    /// Length of the story, in seconds.
    pub elapsed_s: f64,
    /// Application bytes that arrived.
    pub received_bytes: u64,
    /// The stays, one after the other.
    pub chapters: Vec<Chapter>,
    /// The same by state, the longest first.
    pub states: Vec<StateTotal>,
    /// Location of the bytes in flight.
    pub whereabouts: Whereabouts,
    /// The share of the time in which the receiver's window was full, from 0 to 1; null where the
    /// backend does not show it.
    pub window_limited_share: Option<f64>,
    /// True if the flow was stopped before its time: then this is the story so far.
    pub interrupted: bool,
}

/// Sums over a time.
#[derive(Clone, Copy, Default)]
struct Sums {
    nanos: u128,
    /// Nanoseconds of delay, and bytes, times nanoseconds.
    delay: u128,
    queue: u128,
    inflight: u128,
    max_delay: Duration,
}

impl Sums {
    fn add(&mut self, time: Duration, waiting: BottleneckQueue, inflight: u64) {
        let nanos = u128::from(time.as_nanos());
        self.nanos += nanos;
        self.delay += nanos * u128::from(waiting.delay.as_nanos());
        self.queue += nanos * u128::from(waiting.bytes);
        self.inflight += nanos * u128::from(inflight);
        self.max_delay = self.max_delay.max(waiting.delay);
    }

    fn mean(&self, sum: u128) -> f64 {
        if self.nanos == 0 { 0.0 } else { sum as f64 / self.nanos as f64 }
    }
}

/// The stay that lasts.
struct Stay {
    /// Its name, if it is none of the algorithm's states.
    name: Option<&'static str>,
    since: Instant,
    why: String,
    first: Snapshot,
    sums: Sums,
}

/// Puts a flow's story together from what it shows.
pub struct Narrator {
    truth: Truth,
    start: Instant,
    before: (Instant, Snapshot),
    stay: Stay,
    chapters: Vec<(Chapter, Sums)>,
    all: Sums,
    window_limited: Option<Duration>,
}

impl Narrator {
    /// Begins with what the flow shows before it sends.
    pub fn new(truth: Truth, now: Instant, snapshot: Snapshot) -> Self {
        let why = reasons::began(&snapshot);
        let stay = Stay { name: None, since: now, why, first: snapshot, sums: Sums::default() };
        let before = (now, snapshot);
        Self {
            truth,
            start: now,
            before,
            stay,
            chapters: Vec::new(),
            all: Sums::default(),
            window_limited: None,
        }
    }

    /// Takes the truth about the receiver's window before [`Self::look`] at the same time: whether
    /// it has been full since the previous call.
    pub fn look_at_window(&mut self, now: Instant, is_full: bool) {
        let time = if is_full { now.since(self.before.0) } else { Duration::ZERO };
        self.window_limited = Some(self.window_limited.unwrap_or_default() + time);
    }

    /// Takes the flow's state after an event, or after a short time; `waiting` has held since the
    /// previous call.
    pub fn look(&mut self, now: Instant, snapshot: &Snapshot, waiting: BottleneckQueue) {
        let (then, before) = self.before;
        let time = now.since(then);
        self.stay.sums.add(time, waiting, before.inflight);
        self.all.add(time, waiting, before.inflight);
        if snapshot.state != before.state {
            let seen = reasons::StateChange {
                before: &before,
                after: snapshot,
                entered: &self.stay.first,
                lasted: now.since(self.stay.since),
            };
            let why = reasons::changed(&seen, &self.truth);
            let next =
                Stay { name: None, since: now, why, first: *snapshot, sums: Sums::default() };
            let stay = std::mem::replace(&mut self.stay, next);
            self.close(stay, now, snapshot);
        }
        self.before = (now, *snapshot);
    }

    /// Ends a handshake whose first packet was sent so many times, right after [`Self::look`]: until
    /// then the algorithm had nothing to do.
    pub fn connected(&mut self, tries: u32) {
        let (now, snapshot) = self.before;
        let why = reasons::began(&snapshot);
        let next = Stay { name: None, since: now, why, first: snapshot, sums: Sums::default() };
        let mut stay = std::mem::replace(&mut self.stay, next);
        (stay.name, stay.why) = (Some(HANDSHAKE), reasons::connected(tries));
        self.close(stay, now, &snapshot);
    }

    fn close(&mut self, stay: Stay, now: Instant, last: &Snapshot) {
        let bbr = last.bbr;
        let chapter = Chapter {
            t_s: seconds(stay.since.since(self.start)),
            lasted_s: seconds(now.since(stay.since)),
            state: stay.name.unwrap_or_else(|| stay.first.state.name()),
            why: stay.why,
            queue_mean_ms: millis_of(stay.sums.mean(stay.sums.delay)),
            queue_max_ms: millis(stay.sums.max_delay),
            lost_bytes: last.lost.saturating_sub(stay.first.lost),
            delivered_bytes: last.delivered.saturating_sub(stay.first.delivered),
            cwnd_bytes: last.cwnd,
            max_bw_bps: bbr.map(|b| b.max_bw.as_bits_per_sec()),
            min_rtt_ms: bbr.and_then(|b| b.min_rtt).map(millis),
        };
        self.chapters.push((chapter, stay.sums));
    }

    /// The story so far.
    pub fn finish(mut self, cc: String, path: String, received_bytes: u64) -> Story {
        let (now, last) = self.before;
        let next =
            Stay { name: None, since: now, why: String::new(), first: last, sums: Sums::default() };
        let stay = std::mem::replace(&mut self.stay, next);
        self.close(stay, now, &last);
        let inflight_bytes = self.all.mean(self.all.inflight) as u64;
        let queue_bytes = (self.all.mean(self.all.queue) as u64).min(inflight_bytes);
        Story {
            cc,
            path,
            truth: self.truth,
            elapsed_s: seconds(now.since(self.start)),
            received_bytes,
            states: self.states(),
            chapters: self.chapters.into_iter().map(|(chapter, _)| chapter).collect(),
            whereabouts: Whereabouts {
                inflight_bytes,
                queue_bytes,
                path_bytes: inflight_bytes - queue_bytes,
            },
            window_limited_share: self
                .window_limited
                .map(|time| ratio(time.as_nanos(), now.since(self.start).as_nanos().max(1))),
            interrupted: false,
        }
    }

    fn states(&self) -> Vec<StateTotal> {
        let mut totals: Vec<(StateTotal, Sums)> = Vec::new();
        for (chapter, sums) in &self.chapters {
            let place = totals.iter().position(|(t, _)| t.state == chapter.state);
            let place = place.unwrap_or_else(|| {
                let total = StateTotal {
                    state: chapter.state,
                    visits: 0,
                    time_share: 0.0,
                    queue_mean_ms: 0.0,
                    waiting_share: 0.0,
                    lost_bytes: 0,
                };
                totals.push((total, Sums::default()));
                totals.len() - 1
            });
            let (total, sum) = &mut totals[place];
            total.visits += 1;
            total.lost_bytes += chapter.lost_bytes;
            sum.nanos += sums.nanos;
            sum.delay += sums.delay;
            sum.queue += sums.queue;
        }
        let share = |part: u128, whole: u128| {
            // In thousandths of a millionth: both fit into 64 bits then.
            ratio((part * 1_000_000_000).checked_div(whole).unwrap_or(0) as u64, 1_000_000_000)
        };
        for (total, sum) in &mut totals {
            total.time_share = share(sum.nanos, self.all.nanos);
            total.queue_mean_ms = millis_of(sum.mean(sum.delay));
            total.waiting_share = share(sum.queue, self.all.queue);
        }
        totals.sort_by(|(a, _), (b, _)| b.time_share.total_cmp(&a.time_share));
        totals.into_iter().map(|(total, _)| total).collect()
    }
}

#[cfg(test)]
mod tests;
