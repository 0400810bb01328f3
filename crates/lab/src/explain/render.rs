//! The story as lines of text.

use std::fmt::Write as _;

use fullpipe_cc::Duration;

use super::{Chapter, HANDSHAKE, Story};

/// More stays than these are told in numbers alone, from the middle.
const FIRST: usize = 40;
const LAST: usize = 8;

pub(super) fn mbit(bps: u64) -> String {
    match bps as f64 / 1e6 {
        m if m >= 100.0 => format!("{m:.0} Mbit/s"),
        m if m >= 1.0 => format!("{m:.1} Mbit/s"),
        m => format!("{:.1} kbit/s", m * 1e3),
    }
}

pub(super) fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..1_000_000 => format!("{:.0} kB", n as f64 / 1e3),
        _ => format!("{:.2} MB", n as f64 / 1e6),
    }
}

pub(super) fn ms(d: Duration) -> String {
    millis(d.as_nanos() as f64 / 1e6)
}

fn millis(ms: f64) -> String {
    if ms >= 1000.0 { format!("{:.2} s", ms / 1e3) } else { format!("{ms:.1} ms") }
}

impl Story {
    /// The story in words, a line or two for each stay in a state.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let goodput = self.received_bytes as f64 * 8.0 / self.elapsed_s.max(1e-9);
        let truth = &self.truth;
        let _ = write!(
            out,
            "{} on {}\nTrue: the link carries {} of what {} counts{}; the shortest round trip is {}; a BDP is {}.\n\n",
            self.cc,
            self.path,
            mbit(truth.carries_bps),
            self.cc,
            if truth.changes { " on average, because the path changes" } else { "" },
            millis(truth.min_rtt_ms),
            bytes(truth.bdp_bytes),
        );
        let hidden = self.chapters.len().saturating_sub(FIRST + LAST);
        for (i, chapter) in self.chapters.iter().enumerate() {
            if hidden > 0 && i == FIRST {
                let _ = writeln!(out, "  ... {hidden} more like these; --json has them all\n");
            }
            if hidden == 0 || i < FIRST || i >= FIRST + hidden {
                self.chapter(&mut out, chapter);
            }
        }
        self.beliefs(&mut out);
        self.waits(&mut out);
        let _ = writeln!(
            out,
            "\nIn {:.2} s {} arrived: {}, {:.1} % of what the link carries.",
            self.elapsed_s,
            bytes(self.received_bytes),
            mbit(goodput as u64),
            100.0 * goodput / truth.carries_bps.max(1) as f64
        );
        out
    }

    fn chapter(&self, out: &mut String, c: &Chapter) {
        let _ = writeln!(out, "{:>8.3} s  {}: {}.", c.t_s, c.state, c.why);
        let _ = write!(
            out,
            "{:12}{} long; queue {} on average, {} at most; ",
            "",
            millis(c.lasted_s * 1e3),
            millis(c.queue_mean_ms),
            millis(c.queue_max_ms)
        );
        let _ = match c.lost_bytes {
            0 => write!(out, "nothing lost"),
            lost => write!(out, "{} lost", bytes(lost)),
        };
        let _ = match c.max_bw_bps.zip(c.min_rtt_ms) {
            _ if c.state == HANDSHAKE => writeln!(out),
            Some((bw, rtt)) => writeln!(out, "; then max_bw {}, min_rtt {}", mbit(bw), millis(rtt)),
            None if self.cc.starts_with("fixed") => writeln!(out, "; a rate and no window"),
            None => writeln!(out, "; then a window of {}", bytes(c.cwnd_bytes)),
        };
    }

    /// Writes the model's values at the end of each stay, beside the true ones.
    fn beliefs(&self, out: &mut String) {
        let spread = |values: Vec<f64>| {
            let low = values.iter().copied().reduce(f64::min)?;
            Some((low, values.iter().copied().reduce(f64::max)?, *values.last()?))
        };
        // Startup's belief is still growing; after it the model claims to know.
        let has_more = self.chapters.iter().any(|c| !matches!(c.state, HANDSHAKE | "Startup"));
        let is_early = |c: &&Chapter| c.state == HANDSHAKE || c.state == "Startup" && has_more;
        let known = || self.chapters.iter().filter(|c| !is_early(c));
        let bw = spread(known().filter_map(|c| c.max_bw_bps).map(|b| b as f64).collect());
        let rtt = spread(known().filter_map(|c| c.min_rtt_ms).collect());
        let (Some(bw), Some(rtt)) = (bw, rtt) else {
            let has = if self.cc.starts_with("fixed") { "a rate" } else { "a window" };
            let _ = writeln!(out, "\nBelieved: {} has {has} and no model of the path.", self.cc);
            return;
        };
        let percent = |x: f64| 100.0 * x / self.truth.carries_bps.max(1) as f64;
        let _ = writeln!(
            out,
            "\nBelieved after Startup: max_bw {:.1} to {:.1} % of what the link carries, {:.1} % at the end; \
             min_rtt {} to {}, {} at the end, where {} is true.",
            percent(bw.0),
            percent(bw.1),
            percent(bw.2),
            millis(rtt.0),
            millis(rtt.1),
            millis(rtt.2),
            millis(self.truth.min_rtt_ms)
        );
    }

    fn waits(&self, out: &mut String) {
        let w = self.whereabouts;
        let _ = writeln!(
            out,
            "Where bytes were: {} in flight on average, {} of it waiting in the bottleneck's queue and {} on the way.",
            bytes(w.inflight_bytes),
            bytes(w.queue_bytes),
            bytes(w.path_bytes)
        );
        if let Some(share) = self.window_limited_share.filter(|share| *share >= 0.001) {
            let _ = writeln!(
                out,
                "The receiver's window was full for {:.1} % of the time: then it was the limit, and not {}.",
                100.0 * share,
                self.cc
            );
        }
        for s in &self.states {
            let times =
                if s.visits == 1 { "once".to_owned() } else { format!("{} times", s.visits) };
            let _ = writeln!(
                out,
                "  {:<22} {:>5.1} % of the time, {times}; {:>5.1} % of the waiting, {} on average; {} lost",
                s.state,
                100.0 * s.time_share,
                100.0 * s.waiting_share,
                millis(s.queue_mean_ms),
                bytes(s.lost_bytes)
            );
        }
    }
}
