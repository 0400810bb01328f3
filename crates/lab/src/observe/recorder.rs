//! Makes rows of the series from samples, at a steady interval.

use std::collections::HashMap;

use fullpipe_cc::{Duration, Rate};
use fullpipe_scenario::formulas::{bits_per_sec, millis, seconds};

use fullpipe_report::observe::{FlowSample, SeriesRow, rows_within};

/// Rule for the series of a scenario that does not say how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sampling {
    /// Only when it names an interval.
    Asked,
    /// Else so many rows a flow. A run whose length is not known beforehand has up to four times as
    /// many.
    Rows(u64),
}

/// The first interval of a run whose length is not known beforehand.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);

/// The series of a run, a row for each flow that is there.
pub(crate) struct Recorder {
    interval: Duration,
    next: Duration,
    /// Time of the newest rows, and the bytes that each flow had received by then.
    before: (Duration, Vec<u64>),
    moments: u64,
    /// With more moments than these, every other one is dropped.
    most: u64,
    rows: Vec<SeriesRow>,
}

impl Recorder {
    /// For a run of these flows; nothing when no series is asked for.
    pub(crate) fn new(
        sampling: Sampling,
        interval: Option<Duration>,
        duration: Option<Duration>,
        flows: usize,
    ) -> Option<Self> {
        let sampling = match sampling {
            Sampling::Rows(n) => Sampling::Rows(rows_within(n, flows)),
            Sampling::Asked => Sampling::Asked,
        };
        let (interval, most) = match (interval, sampling, duration) {
            (Some(interval), ..) => (interval, u64::MAX),
            (None, Sampling::Asked, _) => return None,
            (None, Sampling::Rows(n), Some(duration)) => {
                let even = Duration::from_nanos(duration.as_nanos() / n.max(1));
                (even.max(Duration::from_micros(1)), u64::MAX)
            }
            (None, Sampling::Rows(n), None) => (FIRST_INTERVAL, 4 * n.max(1)),
        };
        let before = (Duration::ZERO, vec![0; flows]);
        Some(Self { interval, next: interval, before, moments: 0, most, rows: Vec::new() })
    }

    /// The same with a longer interval: each look at a sender in real time stops it for a moment.
    pub(crate) fn no_closer_than(mut self, least: Duration) -> Self {
        self.interval = self.interval.max(least);
        self.next = self.interval;
        self
    }

    /// Time at which the next rows are due.
    pub(crate) fn next_due(&self) -> Duration {
        self.next
    }

    /// Takes the samples of one moment, of the flows that are there. Rows that come late shift none
    /// of those after them.
    pub(crate) fn push(&mut self, t: Duration, flows: impl Iterator<Item = (usize, FlowSample)>) {
        let (then, received) = &mut self.before;
        for (flow, sample) in flows {
            let got = sample.received - received[flow];
            received[flow] = sample.received;
            let goodput = bits_per_sec(got, t - *then) as f64 / 1e6;
            self.rows.push(row(t, flow, goodput, &sample));
        }
        *then = t;
        self.next = self.interval.times(t.as_nanos() / self.interval.as_nanos() + 1);
        self.moments += 1;
        if self.moments > self.most {
            self.halve();
        }
    }

    /// True if rows at the end of the run would be so near to the newest that a rate between the
    /// two would mean nothing.
    pub(crate) fn is_near(&self, end: Duration) -> bool {
        (end - self.before.0).times(2) < self.interval
    }

    /// Keeps every other moment; a flow's goodput becomes the mean over both.
    fn halve(&mut self) {
        let (mut keep, mut moment) = (true, f64::NAN);
        let mut dropped: HashMap<usize, f64> = HashMap::new();
        self.rows.retain_mut(|row| {
            if row.t_s != moment {
                (keep, moment) = (!keep, row.t_s);
            }
            match (keep, dropped.remove(&row.flow)) {
                (true, Some(earlier)) => row.goodput_mbps = (row.goodput_mbps + earlier) / 2.0,
                (true, None) => {}
                (false, _) => {
                    dropped.insert(row.flow, row.goodput_mbps);
                }
            }
            keep
        });
        self.moments /= 2;
        self.interval = self.interval.times(2);
        let t = self.before.0;
        self.next = self.interval.times(t.as_nanos() / self.interval.as_nanos() + 1);
    }

    pub(crate) fn finish(self) -> Vec<SeriesRow> {
        self.rows
    }
}

fn row(t: Duration, flow: usize, goodput_mbps: f64, sample: &FlowSample) -> SeriesRow {
    let mbps = |rate: Rate| rate.as_bits_per_sec() as f64 / 1e6;
    let bbr = sample.model.as_ref().and_then(|model| model.bbr.as_ref());
    SeriesRow {
        t_s: seconds(t),
        flow,
        goodput_mbps,
        // The path's, which is not asked for each row.
        capacity_mbps: None,
        rtt_ms: sample.rtt.map(millis),
        srtt_ms: sample.srtt.map(millis),
        queue_ms: millis(sample.queue.delay),
        cwnd_bytes: sample.cwnd,
        inflight_bytes: sample.inflight,
        pacing_mbps: sample.pacing.map(mbps),
        state: sample.state.map(Into::into),
        rounds: bbr.map(|b| b.round_count),
        max_bw_mbps: bbr.map(|b| mbps(b.max_bw)),
        min_rtt_ms: bbr.and_then(|b| b.min_rtt).map(millis),
        pacing_gain: bbr.map(|b| f64::from(b.pacing_gain.as_percent()) / 100.0),
        cwnd_gain: bbr.map(|b| f64::from(b.cwnd_gain.as_percent()) / 100.0),
        bw_shortterm_mbps: bbr.and_then(|b| b.bw_shortterm).map(mbps),
        inflight_shortterm_bytes: bbr.and_then(|b| b.inflight_shortterm),
        inflight_longterm_bytes: bbr.and_then(|b| b.inflight_longterm),
        extra_acked_bytes: bbr.map(|b| b.extra_acked),
        full_bw_count: bbr.map(|b| b.full_bw_count),
        is_app_limited: sample.model.as_ref().map(|model| model.app_limited.into()),
        delivery_mbps: sample.delivery.map(mbps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(flows: usize) -> Recorder {
        Recorder::new(Sampling::Rows(500), None, None, flows).expect("rows were asked for")
    }

    fn push(r: &mut Recorder, t: Duration, bytes_per_ms: &[u64]) {
        let ms = t.as_nanos() / 1_000_000;
        let sample = |n: &u64| FlowSample { received: ms * n, ..FlowSample::default() };
        r.push(t, bytes_per_ms.iter().map(sample).enumerate());
    }

    #[test]
    fn goodput_is_the_difference_of_two_rows() {
        let mut r = recorder(2);
        for _ in 0..10 {
            let t = r.next_due();
            push(&mut r, t, &[9, 1]);
        }
        let rows = r.finish();
        assert_eq!((rows.len(), rows[0].t_s, rows[2].t_s), (20, 0.02, 0.04));
        // 9 bytes a millisecond are 72 kbit/s.
        assert!(rows.iter().all(|r| r.goodput_mbps == [0.072, 0.008][r.flow]), "{rows:?}");
    }

    #[test]
    fn a_run_of_unknown_length_widens_the_interval_and_loses_no_byte() {
        let mut r = recorder(2);
        while r.next_due() < Duration::from_secs(300) {
            let t = r.next_due();
            push(&mut r, t, &[9, 1]);
        }
        let rows = r.finish();
        assert!(rows.len() > 2000 && rows.len() <= 4000, "{}", rows.len());
        let one: Vec<_> = rows.iter().filter(|r| r.flow == 1).collect();
        assert!(one.windows(2).all(|w| (w[1].t_s - w[0].t_s - 0.16).abs() < 1e-9));
        assert!(one.iter().all(|r| (r.goodput_mbps - 0.008).abs() < 1e-9));
    }

    #[test]
    fn late_rows_shift_none_and_the_last_is_not_too_near() {
        let mut r = recorder(1);
        for ms in [20, 95, 100, 120] {
            assert!(r.next_due() <= Duration::from_millis(ms));
            push(&mut r, Duration::from_millis(ms), &[1]);
        }
        assert!(r.is_near(Duration::from_millis(121)) && !r.is_near(Duration::from_millis(130)));
    }
}
