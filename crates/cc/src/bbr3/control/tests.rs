//! Control parameters that are kept while their basis stays are those that would be made anew.

use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::algo::CongestionControl;
use crate::bbr3::flavour_tests::{BDP, cruising, sample};
use crate::bbr3::{Draft, DraftAmended, Linux, LinuxAmended};
use crate::config::{AckFrequency, Config};
use crate::options::Bbr3Options;
use crate::test_link::{MS, SMSS};
use crate::units::Instant;

/// An event of a flow, in which few of the values that count change.
#[derive(Clone, Debug)]
enum Event {
    /// An ACK: percent of the bandwidth, percent of the round trip, packets, a new round, lost
    /// packets.
    Ack(u64, u64, u64, bool, u64),
    /// Milliseconds without an ACK.
    Pause(u64),
    RestartFromIdle,
    Rto,
    SpuriousLoss,
    SafeRetreat,
    Mtu(u64),
    AckFrequency(Option<u32>),
    /// Another one sets the pacing rate or the quantum, to so many percent.
    PacingRate(u64),
    Quantum(u64),
    /// The next state is entered by hand.
    Enter(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let rate = prop_oneof![6 => Just(100), 1 => 10..200u64];
    let rtt = prop_oneof![6 => Just(100), 1 => 50..300u64];
    let lost = prop_oneof![9 => Just(0), 1 => 1..20u64];
    prop_oneof![
        60 => (rate, rtt, 1..40u64, prop::bool::weighted(0.2), lost)
            .prop_map(|(a, b, c, d, e)| Event::Ack(a, b, c, d, e)),
        3 => (1..6_000u64).prop_map(Event::Pause),
        1 => Just(Event::RestartFromIdle),
        1 => Just(Event::Rto),
        1 => Just(Event::SpuriousLoss),
        1 => Just(Event::SafeRetreat),
        1 => (500..9_000u64).prop_map(Event::Mtu),
        1 => prop::option::of(2..100u32).prop_map(Event::AckFrequency),
        1 => (50..150u64).prop_map(Event::PacingRate),
        1 => (50..150u64).prop_map(Event::Quantum),
        1 => (0..STATES.len()).prop_map(Event::Enter),
    ]
}

const STATES: [State; 7] = [
    State::Startup,
    State::Drain,
    State::ProbeBwDown,
    State::ProbeBwCruise,
    State::ProbeBwRefill,
    State::ProbeBwUp,
    State::ProbeRtt,
];

/// A flow, and the time.
#[derive(Clone)]
struct Flow<R: Rules> {
    bbr: Bbr3<R>,
    conn: Conn,
    now: Instant,
}

impl<R: Rules> Flow<R> {
    fn new(is_new: bool) -> Self {
        let config = Config::new(5);
        let now = Instant::default();
        let (bbr, conn) = if is_new {
            let mut conn = Conn::new(&config, now);
            (Bbr3::new(&mut conn, now, &config, Bbr3Options::new()), conn)
        } else {
            cruising(&config)
        };
        Self { bbr, conn, now }
    }

    fn ack(&mut self, rate: u64, rtt: u64, packets: u64, starts_round: bool, lost: u64) {
        let (bbr, conn) = (&mut self.bbr, &mut self.conn);
        let acked = packets * SMSS;
        self.now += MS;
        conn.sampler.count_delivered(acked);
        let next = bbr.round.next_delivered;
        let rs = RateSample {
            now: self.now,
            rtt: Duration::from_micros(400 * rtt),
            delivery_rate: Rate::from_bytes_per_sec(30_000 * rate),
            newly_acked: acked,
            prior_delivered: if starts_round { next } else { next.saturating_sub(1) },
            lost: lost * SMSS,
            ..sample(Rate::ZERO)
        };
        // In the tests' flow, rounds begin at the end of all.
        if starts_round && next == u64::MAX {
            bbr.round.next_delivered = conn.sampler.delivered;
        }
        bbr.on_ack(conn, &rs);
    }

    fn follow(&mut self, event: &Event) {
        let (bbr, conn) = (&mut self.bbr, &mut self.conn);
        match *event {
            Event::Ack(rate, rtt, packets, starts_round, lost) => {
                self.ack(rate, rtt, packets, starts_round, lost);
            }
            Event::Pause(ms) => self.now += MS.times(ms),
            Event::RestartFromIdle => bbr.on_restart_from_idle(conn, self.now),
            Event::Rto => bbr.on_rto(conn),
            Event::SpuriousLoss => bbr.on_spurious_loss(conn),
            Event::SafeRetreat => bbr.on_safe_retreat(conn),
            Event::Mtu(smss) => {
                conn.smss = smss;
                bbr.on_mtu_update(conn);
            }
            Event::AckFrequency(packets) => {
                conn.set_ack_frequency(packets.map(|threshold_packets| AckFrequency {
                    threshold_packets,
                    max_delay: MS.times(25),
                }));
            }
            Event::PacingRate(percent) => {
                let rate = conn.pacing_rate.as_bytes_per_sec().min(BDP * 1_000);
                conn.set_pacing_rate(Rate::from_bytes_per_sec(rate * percent / 100));
            }
            Event::Quantum(percent) => conn.set_send_quantum(conn.send_quantum * percent / 100),
            Event::Enter(state) => bbr.enter(STATES[state]),
        }
    }

    fn outputs(&self) -> [u64; 5] {
        let (conn, control) = (&self.conn, &self.bbr.control);
        let rate = conn.pacing_rate.as_bytes_per_sec();
        [rate, conn.send_quantum, conn.cwnd, control.max_inflight, control.bdp]
    }
}

fn keeps_what_it_would_make<R: Rules>(is_new: bool, events: &[Event]) -> Result<(), TestCaseError> {
    let mut keeping = Flow::<R>::new(is_new);
    let mut making = keeping.clone();
    for event in events {
        keeping.follow(event);
        making.bbr.control.forget_basis();
        making.follow(event);
        prop_assert_eq!(keeping.outputs(), making.outputs(), "{} after {:?}", R::NAME, event);
    }
    Ok(())
}

/// BBR.bdp is the product of what the model believes, whatever happens.
fn bdp_is_that_of_the_model<R: Rules>(is_new: bool, events: &[Event]) -> Result<(), TestCaseError> {
    let mut flow = Flow::<R>::new(is_new);
    for event in events {
        flow.follow(event);
        let bdp = flow.bbr.bdp_multiple(&flow.conn, flow.bbr.bandwidth.bw, Gain::ONE);
        prop_assert_eq!(flow.bbr.control.bdp, bdp, "{} after {:?}", R::NAME, event);
    }
    Ok(())
}

/// Until the pipe was full once, a rate above that of the model stays; then it comes down.
#[test]
fn a_rate_from_before_the_pipe_was_full_does_not_outlive_that() {
    let mut flow = Flow::<Draft>::new(false);
    flow.bbr.full_pipe.reached = false;
    let rate = flow.bbr.bandwidth.bw.as_bytes_per_sec();
    flow.conn.set_pacing_rate(Rate::from_bytes_per_sec(2 * rate));
    (0..3).for_each(|_| flow.ack(100, 100, 1, false, 0));
    assert_eq!(flow.conn.pacing_rate.as_bytes_per_sec(), 2 * rate);
    flow.bbr.full_pipe.fill();
    flow.ack(100, 100, 1, false, 0);
    assert!(flow.conn.pacing_rate.as_bytes_per_sec() < rate);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn control_parameters_are_those_that_would_be_made_anew(
        is_new: bool,
        events in prop::collection::vec(event(), 1..300),
    ) {
        keeps_what_it_would_make::<Draft>(is_new, &events)?;
        keeps_what_it_would_make::<DraftAmended>(is_new, &events)?;
        keeps_what_it_would_make::<Linux>(is_new, &events)?;
        keeps_what_it_would_make::<LinuxAmended>(is_new, &events)?;
    }

    #[test]
    fn the_kept_bdp_is_that_of_the_model(
        is_new: bool,
        events in prop::collection::vec(event(), 1..300),
    ) {
        bdp_is_that_of_the_model::<Draft>(is_new, &events)?;
        bdp_is_that_of_the_model::<DraftAmended>(is_new, &events)?;
        bdp_is_that_of_the_model::<Linux>(is_new, &events)?;
        bdp_is_that_of_the_model::<LinuxAmended>(is_new, &events)?;
    }
}
