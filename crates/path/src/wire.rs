//! A rate, exactly.

use std::sync::Arc;

use fullpipe_units::{Duration, Instant, NANOS_PER_SEC, Rate};

use crate::schedule::Schedule;
use crate::{MTU_BYTES, RateConfig, Series};

/// The exact time at which the wire is free again, `nanos + fraction / rate`.
///
/// The fraction is carried from packet to packet, so a busy wire never drifts from its rate.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    rate: u64,
    nanos: u64,
    fraction: u64,
    change: Change,
}

/// A change of the rate over time, if any.
#[derive(Clone, Debug)]
enum Change {
    Never,
    Steps(Schedule<Rate>, Option<Round>),
    Trace(Opportunities),
}

/// A round of a series that begins again.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The start of the first, in nanoseconds, and the length of each.
    start: u64,
    nanos: u64,
    /// Work of the wire in one, in bytes/s times nanoseconds; above 0.
    work: u128,
}

/// Moments at which one full packet's bytes can leave at once, repeated for ever.
#[derive(Clone, Debug)]
struct Opportunities {
    times: Arc<[Duration]>,
    /// The next one, and how often the trace has run through.
    next: usize,
    rounds: u64,
    /// Unused bytes of the opportunity at the wire's time.
    left: u64,
}

impl Opportunities {
    fn next_time(&self) -> u64 {
        let period = self.times.last().map_or(0, |t| t.as_nanos());
        let time = self.times.get(self.next).map_or(0, |t| t.as_nanos());
        period.saturating_mul(self.rounds).saturating_add(time)
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next == self.times.len() {
            self.next = 0;
            self.rounds += 1;
        }
    }

    /// Passes by the opportunities before `now`. Those of the current round one by one, so that a
    /// packet every now and then costs no more than the trace is long.
    fn skip_to(&mut self, now: u64) {
        let period = self.times.last().map_or(1, |t| t.as_nanos()).max(1);
        // Those at the very end of a round belong to it, not to the next.
        let round = now.saturating_sub(1) / period;
        if round > self.rounds {
            (self.rounds, self.next) = (round, 0);
        }
        while self.next_time() < now {
            self.advance();
        }
    }
}

impl Wire {
    /// No rate is zero, but in steps that others follow.
    pub(crate) fn new(config: &RateConfig) -> Self {
        let wire = |rate: Rate, change| {
            let rate = rate.as_bytes_per_sec();
            Self { rate, nanos: 0, fraction: 0, change }
        };
        match config {
            RateConfig::Constant(rate) => wire(*rate, Change::Never),
            RateConfig::Steps(steps) => {
                let mut schedule = Schedule::new(steps);
                wire(schedule.at(Instant::default()), Change::Steps(schedule, None))
            }
            RateConfig::Series(series) => {
                let mut schedule = Schedule::of(series);
                wire(schedule.at(Instant::default()), Change::Steps(schedule, round_of(series)))
            }
            RateConfig::Trace(times) => {
                let times = times.clone();
                let trace = Opportunities { times, next: 0, rounds: 0, left: 0 };
                wire(Rate::ZERO, Change::Trace(trace))
            }
        }
    }

    /// Another rate, not zero, from when it is free again, and for ever.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        let nanos = self.free_at().as_nanos();
        *self = Self { nanos, ..Self::new(&RateConfig::Constant(rate)) };
    }

    /// An idle wire takes a packet at `now`.
    #[inline]
    pub(crate) fn restart(&mut self, now: Instant) {
        let now = now.as_nanos();
        if let Change::Trace(trace) = &mut self.change
            && now > self.nanos
        {
            trace.left = 0;
            trace.skip_to(now);
        }
        self.nanos = now;
        self.fraction = 0;
    }

    /// The time at which the wire, free at [`Self::free_at`], can begin with a packet: a trace's
    /// next opportunity if nothing is left of the last one; at a rate of 0 the end of the outage.
    /// Must not be called when nothing waits: it moves the wire's time to the end of an outage.
    #[inline]
    pub(crate) fn ready_at(&mut self) -> Instant {
        if !matches!(self.change, Change::Never) {
            self.pass_by_outage();
        }
        match &self.change {
            Change::Trace(trace) if trace.left == 0 => Instant::from_nanos(trace.next_time()),
            _ => self.free_at(),
        }
    }

    /// A free wire does nothing while the rate is 0: its time is the end of that.
    #[cold]
    fn pass_by_outage(&mut self) {
        let Change::Steps(schedule, _) = &mut self.change else { return };
        while schedule.at(Instant::from_nanos(self.nanos)) == Rate::ZERO {
            let Some(step) = schedule.next_step() else { return };
            (self.nanos, self.fraction) = (step.as_nanos(), 0);
        }
    }

    /// Puts `bytes` more on the wire.
    #[inline]
    pub(crate) fn carry(&mut self, bytes: u64) {
        match self.change {
            Change::Never => self.carry_at_rate(bytes),
            _ => self.carry_changing(bytes),
        }
    }

    #[inline]
    fn carry_at_rate(&mut self, bytes: u64) {
        let in_64_bits =
            bytes.checked_mul(NANOS_PER_SEC).and_then(|b| b.checked_add(self.fraction));
        match in_64_bits {
            // A division of 64 bits costs a tenth of one of 128.
            Some(work) => {
                let nanos = work / self.rate;
                self.fraction = work - nanos * self.rate;
                self.nanos = self.nanos.saturating_add(nanos);
            }
            None => self.work(work(bytes) + u128::from(self.fraction)),
        }
    }

    /// Does `work`, in bytes/s times nanoseconds, at the present rate.
    fn work(&mut self, work: u128) {
        let rate = u128::from(self.rate.max(1));
        self.fraction = (work % rate) as u64;
        self.nanos = self.nanos.saturating_add(u64::try_from(work / rate).unwrap_or(u64::MAX));
    }

    #[cold]
    fn carry_changing(&mut self, bytes: u64) {
        match &mut self.change {
            Change::Never => {}
            Change::Steps(schedule, round) => {
                let mut todo = work(bytes) + u128::from(self.fraction);
                // Whole rounds at once: a round can be of nanoseconds, or do next to nothing.
                if let Some(round) = round
                    && self.nanos >= round.start
                {
                    let rounds = todo.saturating_sub(1) / round.work;
                    todo -= rounds * round.work;
                    let rounds = u64::try_from(rounds).unwrap_or(u64::MAX);
                    self.nanos = self.nanos.saturating_add(rounds.saturating_mul(round.nanos));
                }
                loop {
                    self.rate = schedule.at(Instant::from_nanos(self.nanos)).as_bytes_per_sec();
                    let Some(step) = schedule.next_step() else { break };
                    // What the wire can do until the rate changes.
                    let time = step.as_nanos() - self.nanos;
                    let possible = u128::from(self.rate) * u128::from(time);
                    if todo <= possible {
                        break;
                    }
                    todo -= possible;
                    self.nanos = step.as_nanos();
                }
                self.work(todo);
            }
            Change::Trace(trace) => {
                let mut todo = bytes;
                while todo > trace.left && self.nanos < u64::MAX {
                    todo -= trace.left;
                    trace.left = u64::from(MTU_BYTES);
                    self.nanos = trace.next_time();
                    trace.advance();
                }
                trace.left = trace.left.saturating_sub(todo);
            }
        }
    }

    /// The first whole nanosecond at which the wire is free: never earlier than the exact time, so
    /// that the rate is never exceeded.
    #[inline]
    pub(crate) fn free_at(&self) -> Instant {
        Instant::from_nanos(self.nanos) + Duration::from_nanos(u64::from(self.fraction > 0))
    }
}

/// `None` if it never begins again.
fn round_of(series: &Series<Rate>) -> Option<Round> {
    let (start, nanos) = (series.start().as_nanos(), series.period()?.as_nanos());
    let work = series.work_of_a_round(|rate| rate.as_bytes_per_sec());
    (work > 0).then_some(Round { start, nanos, work })
}

fn work(bytes: u64) -> u128 {
    u128::from(bytes) * u128::from(NANOS_PER_SEC)
}
