//! Bounds on a flow alone on a lossless link, whatever limits it: its window, the length of
//! Startup, and what it saves of the path.
//!
//! `PROPTEST_CASES` sets the number of histories.

use std::collections::VecDeque;

use fullpipe_cc::{Algorithm, Config, Duration, Instant, Rate, SendDecision, State};
use proptest::prelude::*;

use crate::test_link::{Link, MS, SMSS};

/// What a flow does for a time, and what limits it.
#[derive(Clone, Debug)]
enum Phase {
    /// Data for so many ms.
    Bulk(u64),
    /// So many answers of so many packets, with a pause of so many ms after each.
    Answers(u64, u64, u64),
    /// The receiver's window is so many tenths of the BDP, for so many ms.
    Credit(u64, u64),
    /// ACKs come together at multiples of so many tenths of the round trip from now on.
    Clump(u64),
    /// A packet has so many bytes from now on.
    Mtu(u32),
    /// A packet every so many ms, for so many ms.
    Trickle(u64, u64),
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        3 => (1u64..2_000).prop_map(Phase::Bulk),
        3 => (1u64..40, 1u64..200, 1u64..300).prop_map(|(n, packets, ms)| {
            Phase::Answers(n, packets, ms)
        }),
        2 => (1u64..40, 1u64..2_000).prop_map(|(tenths, ms)| Phase::Credit(tenths, ms)),
        2 => (0u64..15).prop_map(Phase::Clump),
        1 => prop_oneof![Just(1_200), Just(1_452), Just(600)].prop_map(Phase::Mtu),
        1 => (1u64..100, 1u64..1_000).prop_map(|(gap, ms)| Phase::Trickle(gap, ms)),
    ]
}

/// The name of every algorithm with BBR's model.
fn bbrs() -> impl Iterator<Item = Algorithm> {
    let all = Algorithm::NAMES.iter().filter(|name| name.starts_with("bbr"));
    all.map(|name| name.parse().expect("its own name"))
}

/// A flow on a link, and what came out of it.
struct Watched {
    link: Link,
    config: Config,
    bdp: u64,
    /// The flow's bound on extra_acked is that of Linux.
    is_linux: bool,
    /// The longest time between two ACKs that the link makes of clumps.
    longest_clump: Duration,
    /// The most that one ACK brought.
    largest_ack: u64,
    largest_packet: u64,
    /// Deliveries of the last round trip, and the most of any.
    recent: VecDeque<(Instant, u64)>,
    in_recent: u64,
    most_in_round_trip: u64,
    longest_rtt: Duration,
}

impl Watched {
    fn new(algorithm: Algorithm, mbit: u64, rtt_ms: u64, config: Config) -> Self {
        let link = Link::with(algorithm, mbit, MS.times(rtt_ms), config);
        Self {
            bdp: link.rate.bytes_in(link.rtt),
            is_linux: algorithm.to_string().ends_with("linux") || algorithm == Algorithm::BBR1,
            link,
            config,
            longest_clump: Duration::ZERO,
            largest_ack: 0,
            largest_packet: SMSS,
            recent: VecDeque::new(),
            in_recent: 0,
            most_in_round_trip: 0,
            longest_rtt: Duration::ZERO,
        }
    }

    /// One event of the link, and the bounds after it.
    fn step(&mut self) {
        let before = self.link.delivered;
        let oldest = self.link.flight.front().map(|f| f.packet.send_time());
        self.link.step(&mut || false);
        let brought = self.link.delivered - before;
        if brought > 0 {
            self.largest_ack = self.largest_ack.max(brought);
            let rtt = oldest.map_or(Duration::ZERO, |sent| self.link.now.since(sent));
            self.longest_rtt = self.longest_rtt.max(rtt);
            self.recent.push_back((self.link.now, brought));
            self.in_recent += brought;
            while let Some((at, bytes)) = self.recent.front().copied()
                && self.link.now.since(at) > self.longest_rtt
            {
                self.in_recent -= bytes;
                self.recent.pop_front();
            }
            self.most_in_round_trip = self.most_in_round_trip.max(self.in_recent);
            self.check();
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.link.now + time;
        while self.link.now < end {
            self.step();
        }
    }

    fn live(&mut self, phase: &Phase) {
        match *phase {
            Phase::Bulk(ms) => self.run(MS.times(ms)),
            Phase::Answers(count, packets, ms) => {
                for _ in 0..count {
                    self.answer(packets);
                    self.link.busy = false;
                    self.run(MS.times(ms));
                    self.link.busy = true;
                }
            }
            Phase::Credit(tenths, ms) => {
                self.link.credit = (self.bdp * tenths / 10).max(2 * self.link.size);
                self.run(MS.times(ms));
                self.link.credit = u64::MAX;
            }
            Phase::Clump(tenths) => {
                let nanos = self.link.rtt.as_nanos() * tenths / 10;
                self.link.clump = Duration::from_nanos(nanos.max(1));
                self.longest_clump = self.longest_clump.max(self.link.clump);
            }
            Phase::Mtu(size) => {
                self.config.smss = size;
                self.link.size = size.into();
                self.largest_packet = self.largest_packet.max(size.into());
                self.link.cc.on_mtu_update(self.link.now, size, self.config.initial_cwnd);
            }
            Phase::Trickle(gap, ms) => {
                self.link.busy = false;
                for _ in 0..ms.div_ceil(gap) {
                    if matches!(self.link.cc.can_send(self.link.now), SendDecision::Now { .. }) {
                        self.link.send_packet();
                    }
                    self.run(MS.times(gap));
                }
                self.link.busy = true;
            }
        }
    }

    /// So many packets leave as fast as the controller lets them.
    fn answer(&mut self, packets: u64) {
        let mut left = packets;
        while left > 0 {
            match self.link.cc.can_send(self.link.now) {
                SendDecision::Now { .. } => {
                    self.link.send_packet();
                    left -= 1;
                }
                SendDecision::At(at) => {
                    self.link.busy = false;
                    // ACKs that come before then.
                    let next = self.link.flight.front().map_or(at, |f| f.ack.min(at));
                    if next < at {
                        self.step_ack();
                    } else {
                        self.link.now = at;
                    }
                    self.link.busy = true;
                }
                SendDecision::CwndLimited => self.step_ack(),
            }
        }
    }

    /// The next ACK, with data that waits for it.
    fn step_ack(&mut self) {
        let credit = std::mem::replace(&mut self.link.credit, 0);
        let busy = std::mem::replace(&mut self.link.busy, true);
        self.step();
        (self.link.credit, self.link.busy) = (credit, busy);
    }

    fn check(&self) {
        let cc = &self.link.cc;
        if let Some(bbr) = cc.snapshot().bbr {
            // What one aggregation brings beyond the rate is no more than one ACK, and in the first
            // round trips as much as the initial window.
            let extra = self.largest_ack + self.link.rate.bytes_in(self.longest_clump);
            let quanta = 3 * cc.send_quantum() + 10 * self.largest_packet;
            // Linux takes 100 ms of data for aggregation, and counts what an estimate that is too
            // low does not explain as well.
            let linux = if self.is_linux { self.link.rate.bytes_in(MS.times(100)) } else { 0 };
            let bound = 3 * self.bdp + extra.max(linux) + quanta + cc.initial_cwnd();
            assert!(cc.cwnd() <= bound, "window {}, bound {bound}: {bbr:?}", cc.cwnd());
        }
        if let Some(saved) = cc.saved_parameters() {
            let most = 2 * self.most_in_round_trip;
            assert!(saved.cwnd <= most, "saved {saved:?}, at most {most}: {cc:?}");
        }
    }
}

/// Histories with which a window once went on growing, over Mbit/s and ms: BDPs of a few packets, on
/// which the estimate stays a percent below the rate of the ACKs, and an estimate of Startup.
#[test]
fn data_above_a_low_estimate_is_no_aggregation() {
    let histories: [(u64, u64, &[Phase]); 3] = [
        (3, 3, &[Phase::Clump(11), Phase::Credit(32, 1_380), Phase::Credit(32, 1_271)]),
        (17, 2, &[Phase::Credit(1, 6), Phase::Bulk(281)]),
        (19, 36, &[Phase::Answers(2, 38, 36), Phase::Bulk(333)]),
    ];
    for (mbit, rtt_ms, history) in histories {
        for algorithm in bbrs() {
            let mut flow = Watched::new(algorithm, mbit, rtt_ms, Config::new(1));
            history.iter().for_each(|phase| flow.live(phase));
        }
    }
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// Three BDP are Startup's window; an aggregation adds what it brought at once, and quanta a
    /// few packets. Nothing that is saved is above twice what arrived in a round trip.
    #[test]
    fn a_window_is_at_most_three_bdp_and_one_aggregation(
        mbit in 2u64..100,
        rtt_ms in 2u64..100,
        cap in prop_oneof![2 => Just(None), 1 => (1u64..100).prop_map(Some)],
        history in prop::collection::vec(phase(), 1..12),
    ) {
        let cap = cap.map(|mbit| Rate::from_bits_per_sec(mbit * 1_000_000));
        let config = Config { max_pacing_rate: cap, ..Config::new(1) };
        for algorithm in bbrs() {
            let mut flow = Watched::new(algorithm, mbit, rtt_ms, config);
            history.iter().for_each(|phase| flow.live(phase));
        }
    }

    /// Whatever else limits a flow with data, a rate that stays the same for 20 round trips is that
    /// of the path: a receiver's window, a cap on the rate, or the link. An application that sends
    /// less than it may is another matter: nothing is queued then, and Startup may go on.
    #[test]
    fn startup_ends_within_20_rounds_of_constant_delivery(
        mbit in 2u64..100,
        rtt_ms in 2u64..100,
        credit in prop_oneof![Just(None), (2u64..40).prop_map(Some)],
        cap in prop_oneof![Just(None), (2u64..100).prop_map(Some)],
    ) {
        let cap = cap.map(|mbit| Rate::from_bits_per_sec(mbit * 1_000_000));
        let config = Config { max_pacing_rate: cap, ..Config::new(1) };
        for algorithm in bbrs() {
            let mut flow = Watched::new(algorithm, mbit, rtt_ms, config);
            if let Some(tenths) = credit {
                flow.link.credit = (flow.bdp * tenths / 10).max(2 * SMSS);
            }
            // The rate doubles in each round trip until something limits it, and 20 more.
            let growth = (flow.bdp / SMSS).max(1).ilog2() + 2;
            let end = u64::from(growth) + 20;
            while flow.link.bbr().round_count < end {
                flow.step();
            }
            let state = flow.link.state();
            prop_assert!(state != State::Startup, "{algorithm}: {:?}", flow.link.cc);
        }
    }
}
