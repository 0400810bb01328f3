//! Collects the course of a run at a steady interval, and keeps it short however long the run is.

use fullpipe_cc::{Duration, Rate};

use crate::backend::realtime::KernelLook;
use crate::metrics::{bits_per_sec, millis, seconds};
use crate::output::results::Series;

/// Time between two rows of a run that is not too long for it: the shortest round trips that are
/// worth a plot, and a twentieth of the time in which the eye sees a change.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);

/// Up to this many flows are looked at in every [`INTERVAL`].
const FLOWS_AT_FULL_PACE: usize = 16;

/// With more rows than this the plot is drawn no finer and the JSON only longer.
const MAX_ROWS: usize = 2000;

/// With more numbers than this the flows' own series are left out.
const MAX_FLOW_CELLS: usize = 40_000;

/// What is seen at one moment, summed over the flows; counters since the start of the run.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Row {
    /// Time since the first request.
    pub(crate) t: Duration,
    /// Application bytes that each flow received so far.
    pub(crate) received: Vec<u64>,
    /// Time in which the link would carry what its buffer holds.
    pub(crate) queue: Duration,
    /// Newest round-trip sample, as a mean over the flows.
    pub(crate) rtt: Option<Duration>,
    /// Congestion windows in bytes.
    pub(crate) cwnd: u64,
    /// Bytes in flight.
    pub(crate) inflight: Option<u64>,
    /// Pacing rates.
    pub(crate) pacing: Option<Rate>,
    /// State of the first flow.
    pub(crate) state: Option<&'static str>,
    /// What only a kernel tells.
    pub(crate) kernel: Option<KernelLook>,
}

/// Rows at a steady interval, which doubles whenever they become too many.
#[derive(Debug)]
pub(crate) struct Recorder {
    interval: Duration,
    next: Duration,
    rows: Vec<Row>,
}

impl Recorder {
    /// For a run of this many flows: to look at each of many at short intervals would cost the
    /// processor time that they need.
    pub(crate) fn new(flows: usize) -> Self {
        Self::every(INTERVAL, flows)
    }

    /// The same with rows at another interval.
    pub(crate) fn every(interval: Duration, flows: usize) -> Self {
        let interval = interval.times(flows.div_ceil(FLOWS_AT_FULL_PACE).max(1) as u64);
        Self { interval, next: Duration::ZERO, rows: Vec::new() }
    }

    /// When the next row is due.
    pub(crate) fn next_due(&self) -> Duration {
        self.next
    }

    /// Takes a row. One that comes late shifts none of those after it.
    pub(crate) fn push(&mut self, row: Row) {
        let intervals = row.t.as_nanos() / self.interval.as_nanos();
        self.next = self.interval.times(intervals + 1);
        self.rows.push(row);
        if self.rows.len() > MAX_ROWS {
            self.halve();
        }
    }

    /// Takes the row at the end of the run, in place of one that is so near that a rate between
    /// the two would mean nothing.
    pub(crate) fn push_last(&mut self, row: Row) {
        if self.rows.last().is_some_and(|r| (row.t - r.t).times(2) < self.interval) {
            self.rows.pop();
        }
        self.rows.push(row);
    }

    fn halve(&mut self) {
        let mut keep = false;
        self.rows.retain(|_| {
            keep = !keep;
            keep
        });
        self.interval = self.interval.times(2);
        let t = self.rows.last().map_or(Duration::ZERO, |r| r.t);
        self.next = self.interval.times(t.as_nanos() / self.interval.as_nanos() + 1);
    }

    /// The rows as columns, and each flow's own goodput where there is room for it.
    pub(crate) fn finish(self) -> (Series, Vec<Vec<u64>>) {
        let mut series = Series::default();
        let flows = self.rows.last().map_or(0, |r| r.received.len());
        let draw_flows = flows > 1 && flows * self.rows.len() <= MAX_FLOW_CELLS;
        let kernel = self.rows.iter().any(|r| r.kernel.is_some());
        let mut per_flow = vec![Vec::new(); flows];
        let start = Row::default();
        let mut before = &start;
        for row in &self.rows {
            let time = row.t - before.t;
            let got = |i: usize| {
                let earlier = before.received.get(i).copied().unwrap_or(0);
                row.received.get(i).copied().unwrap_or(0).saturating_sub(earlier)
            };
            series.t_s.push(seconds(row.t));
            series.goodput_bps.push(bits_per_sec((0..flows).map(got).sum(), time));
            series.queue_ms.push(millis(row.queue));
            series.rtt_ms.push(row.rtt.map(millis));
            series.cwnd_bytes.push(row.cwnd);
            series.inflight_bytes.push(row.inflight);
            series.pacing_bps.push(row.pacing.map(Rate::as_bits_per_sec));
            series.state.push(row.state.map(str::to_owned));
            if kernel {
                let delivery = row.kernel.map(|k| k.delivery.as_bits_per_sec());
                series.delivery_bps.push(delivery);
                series.retransmitted_bytes.push(row.kernel.map(|k| k.retransmitted_bytes));
            }
            if draw_flows {
                for (i, column) in per_flow.iter_mut().enumerate() {
                    column.push(bits_per_sec(got(i), time));
                }
            }
            before = row;
        }
        (series, per_flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(r: &Recorder, per_ms: u64) -> Row {
        let t = r.next_due();
        let ms = t.as_nanos() / 1_000_000;
        Row { t, received: vec![ms * per_ms, ms], cwnd: ms, ..Row::default() }
    }

    #[test]
    fn goodput_is_the_difference_of_two_rows() {
        let mut r = Recorder::new(2);
        for _ in 0..10 {
            let row = row(&r, 9);
            r.push(row);
        }
        let (series, flows) = r.finish();
        assert_eq!(series.t_s[..3], [0.0, 0.02, 0.04]);
        assert_eq!(series.goodput_bps[0], 0);
        // 10 bytes a millisecond are 80 kbit/s.
        assert!(series.goodput_bps[1..].iter().all(|&b| b == 80_000));
        assert!(flows[0][1..].iter().all(|&b| b == 72_000));
        assert!(flows[1][1..].iter().all(|&b| b == 8_000));
    }

    #[test]
    fn a_long_run_widens_the_interval_and_loses_no_byte() {
        let mut r = Recorder::new(2);
        while r.next_due() < Duration::from_secs(300) {
            let row = row(&r, 9);
            r.push(row);
        }
        let (series, _) = r.finish();
        assert!(series.t_s.len() > MAX_ROWS / 2 && series.t_s.len() <= MAX_ROWS);
        assert!(series.t_s.windows(2).all(|w| (w[1] - w[0] - 0.16).abs() < 1e-9));
        assert!(series.goodput_bps[1..].iter().all(|&b| b == 80_000));
    }

    #[test]
    fn late_rows_and_the_last_one_leave_no_interval_without_length() {
        let mut r = Recorder::new(1);
        for ms in [0, 20, 95, 100, 120] {
            assert!(r.next_due() <= Duration::from_millis(ms));
            r.push(Row { t: Duration::from_millis(ms), ..Row::default() });
        }
        r.push_last(Row { t: Duration::from_millis(121), ..Row::default() });
        assert_eq!(r.finish().0.t_s, [0.0, 0.02, 0.095, 0.1, 0.121]);
    }

    #[test]
    fn too_many_flows_have_no_series_of_their_own() {
        let mut r = Recorder::new(100);
        for i in 0..500 {
            r.push(Row { t: r.next_due(), received: vec![i; 100], ..Row::default() });
        }
        let (series, flows) = r.finish();
        assert_eq!(series.goodput_bps.len(), 500);
        assert!(flows.iter().all(Vec::is_empty));
    }
}
