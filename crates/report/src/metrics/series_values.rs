//! Figures that are known by samples: what senders say of themselves, and when. A row of the series
//! counts in a window when it lies behind the window's beginning and not behind its end.

use std::collections::BTreeMap;

use fullpipe_cc::State;
use fullpipe_scenario::formulas::percentile;

use super::{Column, Condition, Count, Metric, RunResult, Stat};
use crate::observe::SeriesRow;

/// The rows of some flows between two times.
pub(crate) struct SeriesValues<'a> {
    rows: Vec<&'a SeriesRow>,
    /// The last row of each of these flows before.
    before: BTreeMap<usize, &'a SeriesRow>,
    from: f64,
    /// Start and end of each flow in seconds; nothing of those that do not count.
    lives: Vec<(f64, f64)>,
}

/// The rows of one moment: their goodput is that of the time since the moment before.
struct Moment<'a> {
    from: f64,
    to: f64,
    rows: &'a [&'a SeriesRow],
}

/// Times in rows are rounded to this.
const TICK_S: f64 = 1e-4;

/// Until every flow stays within so much of its share, for so many round trips.
const NEAR: f64 = 0.1;
const NEAR_RTTS: f64 = 5.0;

impl RunResult {
    /// Seconds from `from` on until all flows have converged on a path of this round trip.
    pub fn convergence_s(&self, from: f64, rtt_s: f64) -> Option<f64> {
        let lives: Vec<_> = self.flows.iter().map(|f| (f.start_s, f.end_s)).collect();
        SeriesValues::of(&self.series, &lives, None, from, f64::INFINITY)
            .value(Metric::Convergence, rtt_s)
    }
}

impl<'a> SeriesValues<'a> {
    /// `lives` are start and end of each flow of the run, in seconds.
    pub(crate) fn of(
        rows: &'a [SeriesRow],
        lives: &[(f64, f64)],
        flows: Option<&[usize]>,
        from: f64,
        to: f64,
    ) -> Self {
        let counts = |flow: &usize| flows.is_none_or(|flows| flows.contains(flow));
        let is_ours = |row: &&SeriesRow| counts(&row.flow);
        let mut before = BTreeMap::new();
        let mut ours = Vec::new();
        for row in rows.iter().filter(is_ours) {
            if row.t_s <= from {
                before.insert(row.flow, row);
            } else if row.t_s <= to {
                ours.push(row);
            }
        }
        let gone = (f64::INFINITY, f64::NEG_INFINITY);
        let lives = lives.iter().enumerate().map(|(i, life)| if counts(&i) { *life } else { gone });
        Self { rows: ours, before, from, lives: lives.collect() }
    }

    /// A figure; `rtt_s` is the round trip of the empty path.
    pub(crate) fn value(&self, metric: Metric, rtt_s: f64) -> Option<f64> {
        match metric {
            Metric::Sampled(column, stat) => self.stat(column, stat),
            Metric::StateShare(state) => {
                let n = self.rows.iter().filter(|row| row.state.as_deref() == Some(state)).count();
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
            Stat::Min => percentile(&mut all, 0),
            Stat::P50 => percentile(&mut all, 50),
            Stat::P95 => percentile(&mut all, 95),
            Stat::P99 => percentile(&mut all, 99),
            Stat::Max => percentile(&mut all, 100),
        }
    }

    /// The rows of one moment together, in the order of time.
    fn moments(&self) -> impl Iterator<Item = &[&'a SeriesRow]> {
        self.rows.chunk_by(|a, b| a.t_s == b.t_s)
    }

    /// Until all flows that are there are like this; rounds and probes are those of the first of
    /// them.
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

    /// From the last start of a flow, or the window's beginning, to the first moment from which the
    /// goodput of every flow that is there, over five round trips, is within a tenth of the mean. A
    /// moment is this beginning or a row's time; where rows are further apart than five round
    /// trips, one row is what counts.
    fn convergence(&self, rtt_s: f64) -> Option<f64> {
        let moments: Vec<Moment<'_>> = self.covered().collect();
        let end = moments.last()?.to;
        let starts = self.lives.iter().map(|life| life.0).filter(|start| *start < end);
        let start = starts.fold(self.from, f64::max);
        let later = moments.iter().map(|m| m.to).filter(|t| *t > start);
        let found = std::iter::once(start).chain(later).find(|t| {
            let first = moments.partition_point(|m| m.from < t - TICK_S);
            let behind = moments.partition_point(|m| m.to <= t + NEAR_RTTS * rtt_s + TICK_S);
            let span = moments.get(first..behind.max(first + 1));
            let is_whole = t + NEAR_RTTS * rtt_s <= end + TICK_S;
            is_whole && span.is_some_and(|span| self.is_fair(span))
        });
        found.map(|t| t - start)
    }

    /// True if the flows that are there at the first of these moments stay for all of them, and get
    /// about the same.
    fn is_fair(&self, span: &[Moment<'_>]) -> bool {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return false };
        let mut sums = vec![0.0; self.lives.len()];
        for moment in span {
            for row in moment.rows {
                sums[row.flow] += (moment.to - moment.from) * row.goodput_mbps;
            }
        }
        let is_there =
            |life: &(f64, f64)| life.0 <= first.from + TICK_S && life.1 > first.from + TICK_S;
        let there: Vec<usize> = (0..sums.len()).filter(|i| is_there(&self.lives[*i])).collect();
        if there.iter().any(|i| self.lives[*i].1 < last.to - TICK_S) {
            return false;
        }
        let got: Vec<f64> = there.into_iter().map(|i| sums[i]).collect();
        let share = got.iter().sum::<f64>() / got.len() as f64;
        share > 0.0 && got.iter().all(|g| (g / share - 1.0).abs() <= NEAR)
    }

    /// The rows of each moment with the time that their goodput covers.
    fn covered(&self) -> impl Iterator<Item = Moment<'_>> {
        let mut from = self.before.values().map(|row| row.t_s).fold(0.0, f64::max);
        self.rows.chunk_by(|a, b| a.t_s == b.t_s).map(move |rows| {
            let to = rows[0].t_s;
            Moment { from: std::mem::replace(&mut from, to), to, rows }
        })
    }

    /// Share of the periods with some flow in ProbeRTT that have a moment with all flows in it.
    fn probe_rtt_shared(&self) -> Option<f64> {
        let (mut episodes, mut shared) = (0.0, 0.0);
        let (mut inside, mut all) = (false, false);
        for rows in self.moments() {
            let n =
                rows.iter().filter(|r| r.state.as_deref() == Some(State::ProbeRtt.name())).count();
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
            Self::Inflight => row.inflight_bytes.map(|n| n as f64),
            Self::Pacing => row.pacing_mbps,
            Self::MaxBw => row.max_bw_mbps,
            Self::MinRtt => row.min_rtt_ms,
            Self::PacingGain => row.pacing_gain,
            Self::CwndGain => row.cwnd_gain,
            Self::BwShortterm => row.bw_shortterm_mbps,
            Self::InflightShortterm => row.inflight_shortterm_bytes.map(|n| n as f64),
            Self::InflightLongterm => row.inflight_longterm_bytes.map(|n| n as f64),
            Self::ExtraAcked => row.extra_acked_bytes.map(|n| n as f64),
            Self::FullBwCount => row.full_bw_count.map(f64::from),
            Self::AppLimited => row.is_app_limited.map(f64::from),
        }
    }
}

impl Condition {
    fn holds(self, row: &SeriesRow) -> bool {
        match self {
            Self::Number(column, comparison, bound) => {
                column.of(row).is_some_and(|x| comparison.holds(x, f64::from_bits(bound)))
            }
            Self::State(state, is) => (row.state.as_deref() == Some(state)) == is,
        }
    }
}
