//! A host's clock that steps, jumps or jitters, while the path stays what it is.
//!
//! `PROPTEST_CASES` sets the number of histories.

use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant, SendDecision, State};
use proptest::prelude::*;

use crate::bounds::cases;
use crate::test_link::{Link, MS, SMSS};

const START: Duration = Duration::from_secs(1_000_000);
/// A clock that is before its newest time by no more is one that jitters.
const JITTER: Duration = Duration::from_micros(100);
/// The pacer takes less than this for a host that reads its clock before it processes an ACK.
const PACER_BOUND: Duration = Duration::from_millis(20);

/// Something that happens to the host's clock, or that the flow does until then.
#[derive(Clone, Debug)]
enum Event {
    /// Data for so many us.
    Bulk(u64),
    /// No data for so many us.
    Idle(u64),
    /// Data until the flow is in ProbeRTT, for some seconds at most, and so many us of it.
    ProbeRtt(u64),
    /// Losses until the flow recovers, and so many us of that.
    Recovery(u64),
    /// The clock steps back by so many us.
    Back(u64),
    /// The clock jumps by so many us.
    Forth(u64),
    /// From now on the clock is up to so many us too early.
    Jitter(u64),
    /// From now on the host comes up to so many us late to an ACK.
    Late(u64),
}

/// From one millisecond to an hour, in microseconds.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![1_000u64..20_000, 20_000u64..1_000_000, 1_000_000u64..=3_600_000_000]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1u64..2_000_000).prop_map(Event::Bulk),
        1 => (1u64..400_000).prop_map(Event::Idle),
        1 => (0u64..300_000).prop_map(Event::ProbeRtt),
        1 => (0u64..100_000).prop_map(Event::Recovery),
        3 => step().prop_map(Event::Back),
        1 => step().prop_map(Event::Forth),
        1 => (0u64..50).prop_map(Event::Jitter),
        1 => (0u64..5_000).prop_map(Event::Late),
    ]
}

/// Every algorithm.
fn algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::NAMES.iter().map(|name| name.parse().expect("its own name"))
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// A flow on a link with a buffer of one BDP, and what is known of its clock.
struct Watched {
    link: Link,
    bdp: u64,
    /// Steps that the flow has seen no ACK since.
    back: Duration,
    newest_ack: Instant,
    /// By so much round trips may seem too short: steps that no two ACKs show.
    unseen: Duration,
    most_jitter: Duration,
    most_late: Duration,
    /// Since when the flow has been in this state, or the newest step. What passed between the last
    /// call before a step and the first one after it the flow cannot know.
    state: State,
    since: Instant,
    /// Packets that arrived, for the losses of a full buffer.
    count: u64,
    extra: u64,
    longest_rtt: Duration,
}

impl Watched {
    fn new(algorithm: Algorithm, mbit: u64, rtt: Duration) -> Self {
        let mut link = Link::new(algorithm, mbit, rtt);
        link.now = Instant::default() + START;
        link.free = link.now;
        link.cc = Controller::new(algorithm, Config::new(1), link.now);
        let bdp = link.rate.bytes_in(rtt);
        // Linux takes 100 ms of data for aggregation.
        let is_linux = algorithm.name().ends_with("linux") || algorithm.name() == "bbr1";
        let extra = if is_linux { link.rate.bytes_in(MS.times(100)) } else { 0 };
        Self {
            bdp,
            back: Duration::ZERO,
            newest_ack: link.now,
            unseen: Duration::ZERO,
            most_jitter: Duration::ZERO,
            most_late: Duration::ZERO,
            state: link.state(),
            since: link.now,
            count: 0,
            extra,
            longest_rtt: rtt,
            link,
        }
    }

    fn live(&mut self, event: &Event) {
        match *event {
            Event::Bulk(us) => self.run(micros(us), false),
            Event::Idle(us) => {
                self.link.busy = false;
                self.run(micros(us), false);
                self.link.busy = true;
            }
            Event::ProbeRtt(us) => {
                let end = self.link.now + Duration::from_secs(6);
                while self.link.now < end && self.link.state() != State::ProbeRtt {
                    self.step(false);
                }
                self.run(micros(us), false);
            }
            Event::Recovery(us) => {
                let end = self.link.now + MS.times(200);
                while self.link.now < end && self.link.state() != State::Recovery {
                    self.step(true);
                }
                self.run(micros(us), false);
            }
            Event::Back(us) => {
                self.link.clock_behind = self.link.clock_behind + micros(us);
                self.back = self.back + micros(us);
                self.since = self.link.now;
            }
            Event::Forth(us) => {
                let step = micros(us).min(self.link.clock_behind);
                self.link.clock_behind = self.link.clock_behind - step;
                self.back = self.back - step;
                self.since = self.link.now;
            }
            Event::Jitter(us) => self.link.clock_jitter = micros(us),
            Event::Late(us) => self.link.host_late = micros(us),
        }
        self.most_jitter = self.most_jitter.max(self.link.clock_jitter);
        self.most_late = self.most_late.max(self.link.host_late);
    }

    fn run(&mut self, time: Duration, loses: bool) {
        let end = self.link.now + time;
        while self.link.now < end {
            self.step(loses);
        }
    }

    /// One event of the link, and what must hold after it.
    fn step(&mut self, loses: bool) {
        let (delivered, lost) = (self.link.delivered, self.link.lost);
        let arrival = self.link.flight.front().map(|f| f.ack);
        let queue = self.link.free.since(self.link.now);
        self.longest_rtt = self.longest_rtt.max(queue + self.link.rtt);
        let (count, is_full) = (&mut self.count, queue > self.link.rtt);
        self.link.step(&mut || {
            *count += 1;
            (loses || is_full) && count.is_multiple_of(8)
        });
        if let Some(arrival) = arrival.filter(|_| self.link.delivered > delivered) {
            let gap = arrival.since(self.newest_ack);
            if self.back <= gap + JITTER.times(2) {
                self.unseen = self.unseen + self.back;
            }
            (self.back, self.newest_ack) = (Duration::ZERO, arrival);
        }
        if self.link.delivered + self.link.lost > delivered + lost {
            self.check();
        }
    }
}

/// The bounds.
impl Watched {
    fn check(&mut self) {
        let snapshot = self.link.cc.snapshot();
        let least = self.link.rtt - (self.unseen + self.most_jitter + JITTER);
        let min_rtt = snapshot.bbr.and_then(|bbr| bbr.min_rtt);
        for rtt in [snapshot.latest_rtt, min_rtt].into_iter().flatten() {
            assert!(rtt >= least, "{rtt:?} of {least:?}: {:?}", self.link.cc);
        }
        let quanta = 3 * self.link.cc.send_quantum() + 10 * SMSS;
        let bound = 3 * self.bdp + self.extra + quanta + self.link.cc.initial_cwnd();
        let cwnd = self.link.cc.cwnd();
        assert!(cwnd <= bound, "window {cwnd}, bound {bound}: {:?}", self.link.cc);
        self.check_state();
        self.check_pacer();
    }

    /// ProbeRTT and Recovery end.
    fn check_state(&mut self) {
        let state = self.link.state();
        if state != self.state {
            (self.state, self.since) = (state, self.link.now);
        }
        let usual = match state {
            State::ProbeRtt => MS.times(200) + self.longest_rtt.times(4),
            State::Recovery => self.longest_rtt.times(4),
            _ => return,
        };
        let lasts = self.link.now.since(self.since);
        let most = usual + self.unseen + self.most_late.times(4) + MS.times(10);
        assert!(lasts <= most, "{state:?} for {lasts:?} of {most:?}: {:?}", self.link.cc);
    }

    fn check_pacer(&mut self) {
        let now = self.link.now;
        let host = self.link.host_time(now);
        let mut cc = self.link.cc.clone();
        if let (SendDecision::At(at), Some(rate)) = (cc.can_send(host), cc.pacing_rate()) {
            let most = rate.time_for(2 * SMSS) + PACER_BOUND;
            assert!(at.since(host) <= most, "waits {:?} of {most:?}: {cc:?}", at.since(host));
        }
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// Whatever the host's clock does, the path is what it was. A step that is no longer than the
    /// time between two ACKs cannot be seen, and a round trip may seem shorter by it.
    #[test]
    fn a_clock_that_steps_changes_no_path(
        mbit in 2u64..100,
        rtt_ms in 2u64..100,
        history in prop::collection::vec(event(), 1..16),
    ) {
        for algorithm in algorithms() {
            let mut flow = Watched::new(algorithm, mbit, MS.times(rtt_ms));
            history.iter().for_each(|event| flow.live(event));
            let before = flow.link.delivered;
            let time = MS.times(3_000);
            flow.run(time, false);
            let (delivered, possible) = (flow.link.delivered - before, flow.link.rate.bytes_in(time));
            // The others halve their windows at each loss, and are paced by a smoothed round trip in
            // which a jump is long to be seen.
            let least = if algorithm.name().starts_with("bbr") { possible * 4 / 10 } else { 0 };
            prop_assert!(delivered >= least, "{algorithm}: {delivered} of {possible}");
        }
    }
}
