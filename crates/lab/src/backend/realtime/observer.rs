//! Samples taken during a run in real time, and their schedule.

use fullpipe_cc::{Duration, Instant};
use fullpipe_report::observe::{ByFlow, Checkpoint, FlowSample, SeriesRow};
use fullpipe_scenario::Scenario;
use fullpipe_traffic::{Direction, SentPacket, Tally};

use super::Testbed;
use crate::backend::{OnSample, RunError};
use crate::observe::{Recorder, Sampling};

/// Rows are not closer than this: each look stops the senders for a moment.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(2);

/// Sampling interval of round trips and queues, independent of the series. A late sample has the
/// weight of the time for which it was the newest.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Up to this many flows are looked at in every interval; of more, in a longer one.
const FLOWS_AT_FULL_PACE: usize = 16;

/// Takes marks, rows of the series, and the samples behind the distributions of round trips.
pub(super) struct Observer<'a> {
    recorder: Option<Recorder>,
    /// The moments of marks that are still to come.
    moments: Vec<Duration>,
    /// Start of the run, since the epoch.
    zero: Duration,
    look_interval: Duration,
    next_look: Duration,
    /// The time of the newest look.
    seen: Duration,
    marks: Vec<Checkpoint>,
    /// Each weighted by the time for which it was the newest.
    rtt_ns: ByFlow,
    queue_ns: Tally,
    /// As they were seen last: a connection that is gone says nothing more.
    senders: Vec<FlowSample>,
    directions: Vec<Direction>,
    on_sample: &'a mut OnSample<'a>,
}

impl<'a> Observer<'a> {
    pub(super) fn new(
        scenario: &Scenario,
        moments: &[Duration],
        sampling: Sampling,
        on_sample: &'a mut OnSample<'a>,
    ) -> Self {
        let flows = scenario.flows.len();
        let crowd = flows.div_ceil(FLOWS_AT_FULL_PACE).max(1) as u64;
        let recorder = Recorder::new(sampling, scenario.interval, scenario.duration, flows);
        let look_interval = LOOK_INTERVAL.times(crowd);
        Self {
            recorder: recorder.map(|r| r.no_closer_than(SHORTEST_INTERVAL.times(crowd))),
            moments: moments.to_vec(),
            zero: Duration::ZERO,
            look_interval,
            next_look: look_interval,
            seen: Duration::ZERO,
            marks: Vec::new(),
            rtt_ns: ByFlow::new(flows),
            queue_ns: Tally::new(),
            senders: vec![FlowSample::default(); flows],
            directions: scenario.config.flows.iter().map(|flow| flow.direction).collect(),
            on_sample,
        }
    }

    /// The run began at this time since the epoch.
    pub(super) fn begin(&mut self, zero: Duration) {
        self.zero = zero;
    }

    /// Time of the next sample, row or mark.
    pub(super) fn next_due(&self) -> Duration {
        let row = self.recorder.as_ref().map_or(Duration::MAX, Recorder::next_due);
        let moment = self.moments.first().copied().unwrap_or(Duration::MAX);
        self.next_look.min(row).min(moment)
    }

    /// The newest smoothed round trip of each flow that has one.
    pub(super) fn rtts(&self) -> impl Iterator<Item = Duration> + '_ {
        self.senders.iter().filter_map(|sender| sender.srtt)
    }

    /// Looks at what is due at `t`; rows are of the flows that are there.
    pub(super) fn look<T: Testbed>(
        &mut self,
        t: Duration,
        testbed: &T,
        is_there: &[bool],
    ) -> Result<(), RunError> {
        self.ask(t, testbed)?;
        if self.recorder.as_ref().is_some_and(|r| r.next_due() <= t) {
            self.row(t, is_there)?;
        }
        while self.moments.first().is_some_and(|moment| *moment <= t) {
            let moment = self.moments.remove(0);
            self.push_mark(moment, t, testbed)?;
        }
        Ok(())
    }

    /// The last row and the last mark.
    pub(super) fn finish<T: Testbed>(
        &mut self,
        t: Duration,
        testbed: &T,
        is_there: &[bool],
    ) -> Result<(), RunError> {
        self.ask(t, testbed)?;
        if self.recorder.as_ref().is_some_and(|r| !r.is_near(t)) {
            self.row(t, is_there)?;
        }
        self.push_mark(t, t, testbed)
    }

    pub(super) fn into_parts(self) -> (Vec<Checkpoint>, Vec<SeriesRow>) {
        (self.marks, self.recorder.map_or(Vec::new(), Recorder::finish))
    }

    /// Takes a mark for `at` now.
    pub(super) fn mark<T: Testbed>(
        &mut self,
        at: Duration,
        taken: Duration,
        testbed: &T,
    ) -> Result<(), RunError> {
        self.ask(taken, testbed)?;
        self.push_mark(at, taken, testbed)
    }

    /// Samples the senders and the link now.
    fn ask<T: Testbed>(&mut self, t: Duration, testbed: &T) -> Result<(), RunError> {
        let link = testbed.link()?.sample()?;
        let weight = ((t - self.seen).as_nanos() / 1_000_000).max(1);
        let now = testbed.senders().into_iter().zip(testbed.received());
        for (i, (known, (sender, received))) in self.senders.iter_mut().zip(now).enumerate() {
            if let Some(sender) = sender {
                if let Some(rtt) = sender.srtt.filter(|_| t > Duration::ZERO) {
                    self.rtt_ns.flow_mut(i).record_n(rtt.as_nanos(), weight);
                }
                *known = sender;
            }
            (known.received, known.queue) = (received, link.queue_of(self.directions[i]));
        }
        for (known, newest) in self.senders.iter_mut().zip(testbed.newest_packets()) {
            // The handshake is before the run.
            known.newest_packet = newest.and_then(|packet| in_run(packet, self.zero));
        }
        self.queue_ns.record_n(link.queue.delay.as_nanos(), weight);
        self.seen = t;
        let intervals = t.as_nanos() / self.look_interval.as_nanos();
        self.next_look = self.look_interval.times(intervals + 1);
        Ok(())
    }

    fn row(&mut self, t: Duration, is_there: &[bool]) -> Result<(), RunError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let there = self.senders.iter().zip(is_there).enumerate();
        // A program's window is not known.
        let has_begun = |sample: &FlowSample| sample.cwnd > 0 || sample.sender.sent_packets > 0;
        let there = there.filter(|(_, (sample, is_there))| **is_there && has_begun(sample));
        let samples: Vec<_> = there.map(|(i, (sample, _))| (i, *sample)).collect();
        for (i, sample) in &samples {
            (self.on_sample)(*i, t, sample)?;
        }
        recorder.push(t, samples.into_iter());
        Ok(())
    }

    fn push_mark<T: Testbed>(
        &mut self,
        at: Duration,
        taken: Duration,
        testbed: &T,
    ) -> Result<(), RunError> {
        let link = testbed.link()?;
        self.marks.push(Checkpoint {
            at,
            taken,
            received: self.senders.iter().map(|s| s.received).collect(),
            sent: self.senders.iter().map(|s| s.sender).collect(),
            links: vec![link.sample()?.stats],
            queue_ns: vec![match link.queue_delay_ns() {
                Some(each_packet) => Tally::from(&each_packet),
                None => self.queue_ns.clone(),
            }],
            queue_ns_by_flow: None,
            rtt_ns: self.rtt_ns.clone(),
            latency_ns: testbed.latency_ns(),
            completion_ns: testbed.completion_ns(),
            incomplete: testbed.incomplete(),
            // No backend in real time has such flows.
            media: vec![None; self.senders.len()],
            on_link: testbed.on_link(),
        });
        Ok(())
    }
}

/// The packet with its time since the start of the run, if it was sent in the run.
fn in_run(packet: SentPacket, zero: Duration) -> Option<SentPacket> {
    let start = Instant::default() + zero;
    let after = (packet.sent >= start).then(|| packet.sent.since(start))?;
    Some(SentPacket { sent: Instant::default() + after, ..packet })
}
