//! Figures that are known by samples: what senders say of themselves, and when. A row of the series
//! counts in a window when it lies behind the window's beginning and not behind its end.

use std::collections::BTreeMap;

use fullpipe_cc::State;

use super::{Column, Condition, Count, Metric, Stat, percentile};
use crate::observe::SeriesRow;

/// The rows of some flows between two times.
pub(crate) struct Course<'a> {
    rows: Vec<&'a SeriesRow>,
    /// The last row of each of these flows before.
    before: BTreeMap<usize, &'a SeriesRow>,
    from: f64,
}

/// Until every flow stays within so much of its share, for so many round trips.
const NEAR: f64 = 0.1;
const NEAR_RTTS: f64 = 5.0;

impl<'a> Course<'a> {
    pub(crate) fn of(rows: &'a [SeriesRow], flows: Option<&[usize]>, from: f64, to: f64) -> Self {
        let is_ours = |row: &&SeriesRow| flows.is_none_or(|flows| flows.contains(&row.flow));
        let mut before = BTreeMap::new();
        let mut ours = Vec::new();
        for row in rows.iter().filter(is_ours) {
            if row.t_s <= from {
                before.insert(row.flow, row);
            } else if row.t_s <= to {
                ours.push(row);
            }
        }
        Self { rows: ours, before, from }
    }

    /// A figure; `rtt_s` is the round trip of the empty path.
    pub(crate) fn value(&self, metric: Metric, rtt_s: f64) -> Option<f64> {
        match metric {
            Metric::Sampled(column, stat) => self.stat(column, stat),
            Metric::StateShare(state) => {
                let n = self.rows.iter().filter(|row| row.state == state).count();
                (!self.rows.is_empty()).then(|| n as f64 / self.rows.len() as f64)
            }
            Metric::Until(count, condition) => self.until(count, condition),
            Metric::Convergence => self.convergence(rtt_s),
            Metric::ProbeRttShared => self.probe_rtt_shared(),
            _ => None,
        }
    }

    fn stat(&self, column: Column, stat: Stat) -> Option<f64> {
        let mut all: Vec<f64> = self.rows.iter().filter_map(|r| column.of(r)).collect();
        let last = all.last().copied();
        match stat {
            Stat::Last => last,
            Stat::Mean => last.map(|_| all.iter().sum::<f64>() / all.len() as f64),
            Stat::Min => percentile(&mut all, 0.0),
            Stat::P50 => percentile(&mut all, 0.5),
            Stat::P95 => percentile(&mut all, 0.95),
            Stat::P99 => percentile(&mut all, 0.99),
            Stat::Max => percentile(&mut all, 1.0),
        }
    }

    /// The rows of one moment together, in the order of time.
    fn moments(&self) -> impl Iterator<Item = &[&'a SeriesRow]> {
        self.rows.chunk_by(|a, b| a.t_s == b.t_s)
    }

    /// Until all flows that are there are like this; rounds and probes are those of the first of them.
    fn until(&self, count: Count, condition: Condition) -> Option<f64> {
        let holds = |rows: &[&SeriesRow]| rows.iter().all(|row| condition.holds(row));
        let met = *self.moments().find(|rows| holds(rows))?.first()?;
        let start = self.before.get(&met.flow).copied();
        match count {
            Count::Seconds => Some(met.t_s - self.from),
            Count::Rounds => {
                Some(met.rounds?.saturating_sub(start.and_then(|r| r.rounds).unwrap_or(0)) as f64)
            }
            Count::Cycles => {
                let probes = |row: &SeriesRow| row.pacing_gain.is_some_and(|gain| gain > 1.0);
                let mut before = false;
                let mut n = 0;
                let ours = self.rows.iter().copied().filter(|r| r.flow == met.flow);
                for row in start.into_iter().chain(ours.take_while(|r| r.t_s <= met.t_s)) {
                    n += u32::from(probes(row) && !before);
                    before = probes(row);
                }
                Some(f64::from(n))
            }
        }
    }

    /// From the last start of a flow to the first moment from which every flow's goodput, over five
    /// round trips, is within a tenth of the mean.
    fn convergence(&self, rtt_s: f64) -> Option<f64> {
        let mut flows: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
        for rows in self.moments() {
            for row in rows {
                flows.entry(row.flow).or_default().push((row.t_s, row.goodput_mbps));
            }
        }
        let newest = flows.values().filter_map(|rows| rows.first()).map(|r| r.0);
        let start = newest.fold(self.from, f64::max);
        let times: Vec<f64> = self.moments().map(|m| m[0].t_s).filter(|t| *t >= start).collect();
        let (window, end) = (NEAR_RTTS * rtt_s, *times.last()?);
        let mean = |rows: &[(f64, f64)], t: f64| {
            let first = rows.partition_point(|r| r.0 <= t);
            let last = rows.partition_point(|r| r.0 <= t + window);
            let inside = &rows[first..last];
            inside.iter().map(|r| r.1).sum::<f64>() / inside.len().max(1) as f64
        };
        let found = times.iter().take_while(|t| **t + window <= end).find(|t| {
            let got: Vec<f64> = flows.values().map(|rows| mean(rows, **t)).collect();
            let share = got.iter().sum::<f64>() / got.len() as f64;
            share > 0.0 && got.iter().all(|g| (g / share - 1.0).abs() <= NEAR)
        });
        found.map(|t| t - start)
    }

    /// Of the times with some flow in ProbeRTT the share that has a moment with all of them in it.
    fn probe_rtt_shared(&self) -> Option<f64> {
        let (mut episodes, mut shared) = (0.0, 0.0);
        let (mut inside, mut all) = (false, false);
        for rows in self.moments() {
            let n = rows.iter().filter(|r| r.state == State::ProbeRtt.name()).count();
            if n > 0 {
                all = n == rows.len() || inside && all;
                inside = true;
            } else if inside {
                episodes += 1.0;
                shared += f64::from(u8::from(all));
                (inside, all) = (false, false);
            }
        }
        (episodes > 0.0).then(|| shared / episodes)
    }
}

impl Column {
    pub(crate) fn of(self, row: &SeriesRow) -> Option<f64> {
        match self {
            Self::Goodput => Some(row.goodput_mbps),
            Self::Rtt => row.rtt_ms,
            Self::Queue => Some(row.queue_ms),
            Self::Srtt => row.srtt_ms,
            Self::Cwnd => Some(row.cwnd_bytes as f64),
            Self::Inflight => Some(row.inflight_bytes as f64),
            Self::Pacing => row.pacing_mbps,
            Self::MaxBw => row.max_bw_mbps,
            Self::MinRtt => row.min_rtt_ms,
            Self::PacingGain => row.pacing_gain,
            Self::CwndGain => row.cwnd_gain,
        }
    }
}

impl Condition {
    fn holds(self, row: &SeriesRow) -> bool {
        match self {
            Self::Number(column, comparison, bound) => {
                column.of(row).is_some_and(|x| comparison.holds(x, f64::from_bits(bound)))
            }
            Self::State(state, is) => (row.state == state) == is,
        }
    }
}
