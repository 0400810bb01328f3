//! CUBIC's stages of congestion avoidance, by both sets of rules: what ends one, and what the next
//! one begins with.

use fullpipe_cc::{Algorithm, Config, Controller, CubicOptions, CubicRules, Duration, Instant};

use crate::test_link::MS;

const RULES: [CubicRules; 2] = [CubicRules::Rfc9438, CubicRules::Linux];

/// Round trips of a full window each, acknowledged packet by packet.
struct Rounds {
    cc: Controller,
    now: Instant,
    rtt: Duration,
    smss: u32,
    config: Config,
}

impl Rounds {
    /// In congestion avoidance, after a loss in a window of so many bytes.
    fn after_a_loss(rules: CubicRules, smss: u32, window: u64, rtt: Duration) -> Self {
        let config = Config { smss, initial_cwnd: Some(window), ..Config::new(1) };
        let now = Instant::from_nanos(1);
        let cc =
            Controller::new(Algorithm::Cubic(CubicOptions::new().with_rules(rules)), config, now);
        let mut rounds = Self { cc, now, rtt, smss, config };
        rounds.go(true);
        rounds
    }

    /// Returns the most that one ACK added to the window, in bytes.
    fn go(&mut self, mut loses: bool) -> u64 {
        let packets = (self.cc.cwnd() / u64::from(self.smss)).max(1);
        let flight: Vec<_> = (0..packets).map(|_| self.cc.on_sent(self.now, self.smss)).collect();
        self.now += self.rtt;
        let mut most = 0;
        for packet in &flight {
            let before = self.cc.cwnd();
            let mut ack = self.cc.ack(self.now);
            if core::mem::take(&mut loses) {
                ack.lost(packet);
            } else {
                ack.acked(packet);
            }
            ack.finish();
            most = most.max(self.cc.cwnd().saturating_sub(before));
        }
        most
    }

    fn change_size(&mut self, smss: u32) {
        self.smss = smss;
        self.config.smss = smss;
        self.cc.on_mtu_update(self.now, smss, self.config.initial_cwnd);
    }
}

/// A window is bytes, and the path carries as many of them in packets of another size: the flow
/// goes on as one that has had packets of this size from the start.
#[test]
fn a_flow_whose_packets_change_their_size_goes_on_as_one_that_had_them() {
    const WINDOW: u64 = 9_000 * 900;
    for rules in RULES {
        for (from, to) in [(9_000, 1_200), (1_200, 9_000), (1_452, 1_200), (1_200, 1_452)] {
            for at_round in [2, 40] {
                let mut changed = Rounds::after_a_loss(rules, from, WINDOW, MS.times(50));
                let mut steady = Rounds::after_a_loss(rules, to, WINDOW, MS.times(50));
                for round in 0..60 {
                    if round == at_round {
                        changed.change_size(to);
                    }
                    changed.go(false);
                    steady.go(false);
                    let (a, b) = (changed.cc.cwnd(), steady.cc.cwnd());
                    assert!(
                        a.abs_diff(b) <= b / 10,
                        "{rules:?}, {from} to {to} in round {at_round}: {a} and {b} in {round}"
                    );
                }
            }
        }
    }
}

/// A loss that turns out to be none brings back the window of before, and no stage that counts in
/// packets of another size.
#[test]
fn an_undo_after_a_change_of_the_packet_size_brings_no_old_stage_back() {
    for rules in RULES {
        for (from, to) in [(1_200, 9_000), (9_000, 1_200)] {
            let mut rounds = Rounds::after_a_loss(rules, from, 9_000 * 900, MS.times(50));
            (0..40).for_each(|_| _ = rounds.go(false));
            let before = rounds.cc.cwnd();
            rounds.go(true);
            rounds.change_size(to);
            rounds.cc.on_spurious_loss(rounds.now);
            assert!(rounds.cc.cwnd() >= before, "{rules:?}");
            rounds.go(false);
            let after = rounds.cc.cwnd();
            assert!(after <= before + before / 20, "{rules:?}, {from} to {to}: {before}, {after}");
        }
    }
}

/// RFC 5681 section 4.1: what is trusted of the window after idleness grows as any window. In slow
/// start an ACK adds what it acknowledged, and in congestion avoidance half of that.
#[test]
fn an_ack_after_idleness_adds_no_more_than_it_acknowledged() {
    for rules in RULES {
        for trusted in [2, 10, 60, 95, 110] {
            let mut rounds = Rounds::after_a_loss(rules, 1_200, 140 * 1_200, MS.times(10));
            (0..40).for_each(|_| _ = rounds.go(false));
            let before = rounds.cc.cwnd();
            rounds.cc.on_app_limited();
            rounds.now += Duration::from_secs(2);
            rounds.cc.on_idle(rounds.now, trusted * 1_200);
            for round in 0..20 {
                let most = rounds.go(false);
                assert!(
                    most <= 1_200,
                    "{rules:?}, {trusted} of {before} trusted: {most} bytes in round {round}"
                );
            }
        }
    }
}
