//! What a transport says has the effect that its documentation names, and no other.

use fullpipe_cc::{
    AckFrequency, Algorithm, Amendment, Amendments, Config, Controller, Duration, Instant,
    PacketState, Rate, ResumePhase, SavedParameters, SendDecision, State,
};

use crate::test_link::{Link, MS, SMSS};

const START: Instant = Instant::from_nanos(7);

fn send(cc: &mut Controller, now: Instant, packets: u64) -> Vec<PacketState> {
    (0..packets).map(|_| cc.on_sent(now, SMSS as u32)).collect()
}

/// Each quantum fits into the window, but that a full packet may leave in any case.
#[test]
fn a_quantum_is_no_more_than_the_room_in_the_window() {
    let mut full = 0;
    for algorithm in crate::events::algorithms() {
        let mut cc = Controller::new(algorithm, Config::new(1), START);
        let mut is_full = false;
        while let SendDecision::Now { quantum } = cc.can_send(START)
            && cc.inflight() < 100 * SMSS
        {
            let room = cc.cwnd() - cc.inflight();
            assert!(quantum <= room, "{algorithm}: {quantum} bytes into {room}");
            is_full = room < cc.send_quantum();
            send(&mut cc, START, 1);
        }
        // The pacer may be the limit before the window is.
        full += u32::from(is_full);
    }
    assert!(full > 5, "{full} algorithms had no room for a quantum at last");
}

/// A window-based algorithm hands at least two packets to the network as one, however slow it is and
/// however large they are; without pacing no less than one offload takes.
#[test]
fn a_quantum_is_at_least_two_packets() {
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        for (smss, paced) in [(1_200, true), (9_000, true), (9_000, false), (40_000, false)] {
            let config = Config { smss, paced, ..Config::new(1) };
            let mut cc = Controller::new(algorithm, config, START);
            let packet = cc.on_sent(START, smss);
            let mut batch = cc.ack(START + Duration::from_secs(10));
            batch.acked(&packet);
            batch.finish();
            let least = if paced { 0 } else { 65_536 };
            assert_eq!(cc.send_quantum(), least.max(2 * u64::from(smss)), "{algorithm}, {smss}");
        }
    }
}

/// CheckIfApplicationLimited(): a full window is the limit, whether the application has data or
/// not.
#[test]
fn an_application_with_nothing_to_send_is_no_limit_while_the_window_is_full() {
    for (packets, is_limited) in [(9, true), (10, false)] {
        let mut cc = Controller::new(Algorithm::BBR3, Config::new(1), START);
        send(&mut cc, START, packets);
        cc.on_app_limited();
        assert_eq!(cc.on_sent(START, 1).is_app_limited(), is_limited, "{packets} packets of 10");
    }
}

#[test]
fn a_transport_that_tests_the_window_itself_can_say_that_it_was_full() {
    let mut cc = Controller::new(Algorithm::CUBIC, Config::new(1), START);
    assert!(!cc.snapshot().is_cwnd_limited);
    cc.on_cwnd_limited();
    assert!(cc.snapshot().is_cwnd_limited);
}

/// A timer that the transport keeps itself gives the same credit as one that the pacer was asked
/// for.
#[test]
fn a_late_timer_gives_credit_whoever_keeps_it() {
    let rate = Rate::from_bits_per_sec(100_000_000);
    let new = || Controller::new(Algorithm::Fixed(rate), Config::new(1), START);
    let (late, mut told, mut seen) = (MS.times(10), new(), new());
    told.on_pacing_timer(START + late, START);
    let due = loop {
        match seen.can_send(START) {
            SendDecision::Now { .. } => send(&mut seen, START, 1),
            SendDecision::At(at) => break at,
            SendDecision::CwndLimited => panic!("a rate without a window"),
        };
    };
    seen.can_send(due + late);
    assert_eq!(told.burst_bound(), rate.bytes_in(late));
    assert_eq!(seen.burst_bound(), told.burst_bound());
    assert!(new().burst_bound() < told.burst_bound());
}

/// RFC 9959 section 4.1: half of a window of slow start has crossed the path, and a pause that
/// shrinks the window leaves half of what is left.
#[test]
fn of_slow_start_half_a_window_is_saved() {
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        let mut link = Link::new(algorithm, 1_000, MS.times(40));
        while link.cc.cwnd() < 400 * SMSS {
            link.step(&mut || false);
        }
        link.cc.on_idle(link.now, 100 * SMSS);
        let saved = link.cc.saved_parameters().expect("five initial windows");
        assert_eq!(saved.cwnd, 50 * SMSS, "{algorithm}");
    }
}

const RTT: Duration = Duration::from_millis(200);
const SAVED: SavedParameters = SavedParameters { cwnd: 1_000 * SMSS, rtt: RTT };

/// A flow whose jump has left.
fn jumping(algorithm: Algorithm) -> Link {
    let config = Config { resume: Some(SAVED), ..Config::new(1) };
    let mut link = Link::with(algorithm, 200, RTT, config);
    while link.cc.resume_phase() != Some(ResumePhase::Validating) {
        assert!(link.now < START + RTT.times(20), "{:?}", link.cc);
        link.step(&mut || false);
    }
    link
}

/// RFC 9959 section 3.5: congestion of the jump is a loss, a mark, or a loss that a probe repaired.
#[test]
fn each_kind_of_congestion_of_a_jump_is_answered() {
    for algorithm in [Algorithm::BBR3, Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        for kind in 0..4 {
            let mut link = jumping(algorithm);
            let (now, first) = (link.now, link.flight.pop_front().expect("a jump"));
            let next = link.flight.pop_front().expect("a jump");
            let mut batch = link.cc.ack(now);
            batch.acked(&next.packet);
            match kind {
                0 => batch.acked(&first.packet),
                1 => batch.lost(&first.packet),
                2 => batch.ce(1),
                _ => batch.repaired_loss(),
            }
            batch.finish();
            let phase = match kind {
                0 => ResumePhase::Validating,
                _ => ResumePhase::SafeRetreat,
            };
            assert_eq!(link.cc.resume_phase(), Some(phase), "{algorithm}, {kind}");
        }
    }
}

/// RFC 9959, appendix on BBR: what is delivered in Safe Retreat raises no estimate, however fast.
#[test]
fn no_rate_of_safe_retreat_counts() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX, Algorithm::BBR1] {
        let mut link = jumping(algorithm);
        let lost = link.flight.pop_front().expect("a jump");
        let mut batch = link.cc.ack(link.now);
        batch.lost(&lost.packet);
        batch.finish();
        let max_bw = link.bbr().max_bw;
        // All that is left of the jump arrives at once.
        let now = link.now + MS;
        while let Some(flight) = link.flight.pop_front() {
            assert_eq!(link.cc.resume_phase(), Some(ResumePhase::SafeRetreat), "{algorithm}");
            let mut batch = link.cc.ack(now);
            batch.acked(&flight.packet);
            batch.finish();
            assert_eq!(link.bbr().max_bw, max_bw, "{algorithm}");
            if link.cc.inflight() < 20 * SMSS {
                break;
            }
        }
    }
}

/// The response to losses of a jump stands: nothing is kept that an undo would give back.
#[test]
fn a_safe_retreat_has_no_undo() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX] {
        let mut link = jumping(algorithm);
        let lost = link.flight.pop_front().expect("a jump");
        let mut batch = link.cc.ack(link.now);
        batch.lost(&lost.packet);
        batch.finish();
        let kept = link.bbr();
        assert_eq!(kept.undo_state, None, "{algorithm}");
        assert_eq!(kept.undo_bw_shortterm, Some(Rate::ZERO), "{algorithm}");
        let volumes = (kept.undo_inflight_shortterm, kept.undo_inflight_longterm);
        assert_eq!(volumes, (Some(0), Some(0)), "{algorithm}");
    }
}

/// A packet out of sight leaves the flight, and says nothing else.
#[test]
fn a_discarded_packet_leaves_the_flight_alone() {
    for algorithm in crate::events::algorithms() {
        let mut cc = Controller::new(algorithm, Config::new(1), START);
        let flight = send(&mut cc, START, 3);
        let before = cc.snapshot();
        let mut batch = cc.ack(START);
        batch.discarded(&flight[1]);
        batch.finish();
        let mut after = cc.snapshot();
        assert_eq!(core::mem::replace(&mut after.inflight, 3 * SMSS), 2 * SMSS, "{algorithm}");
        assert_eq!(after, before, "{algorithm}");
    }
}

/// The window of a jump is in force whatever the transport says of its packets' size.
#[test]
fn a_change_of_the_packet_size_leaves_a_jump() {
    for algorithm in [Algorithm::BBR3, Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE] {
        let mut link = jumping(algorithm);
        let before = link.cc.cwnd();
        link.cc.on_mtu_update(link.now, 1_201, None);
        assert_eq!(link.cc.cwnd(), before, "{algorithm}");
        assert_eq!(link.cc.resume_phase(), Some(ResumePhase::Validating), "{algorithm}");
    }
}

/// To Prague marks are no losses: those of an ACK do not make a late loss of an episode that is
/// over a new one.
#[test]
fn marks_apart_do_not_renew_an_episode_of_losses() {
    let config = Config { ecn: true, ..Config::new(1) };
    let after = |has_late_loss: bool| {
        let mut cc = Controller::new(Algorithm::PRAGUE, config, START);
        let flight = send(&mut cc, START, 10);
        let now = START + MS.times(40);
        let mut batch = cc.ack(now);
        batch.acked(&flight[5]);
        batch.lost(&flight[0]);
        batch.finish();
        assert!(cc.cwnd() < 10 * SMSS);
        let later = send(&mut cc, now + MS, 2);
        let mut batch = cc.ack(now + MS.times(41));
        batch.acked(&later[0]);
        batch.finish();
        let mut batch = cc.ack(now + MS.times(42));
        batch.acked(&later[1]);
        batch.ce(1);
        if has_late_loss {
            batch.lost(&flight[1]);
        }
        batch.finish();
        cc.on_spurious_loss(now + MS.times(43));
        cc.cwnd()
    };
    assert_eq!(after(true), after(false));
}

/// RFC 8985 section 7.4.2: a loss that a probe repaired is congestion as a mark is, where marks are
/// losses, and no error that can be undone.
#[test]
fn a_repaired_loss_is_a_mark_where_marks_are_losses() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR1, Algorithm::CUBIC, Algorithm::RENO] {
        let after = |is_repaired: bool| {
            let mut cc = Controller::new(algorithm, Config::new(1), START);
            let flight = send(&mut cc, START, 10);
            let now = START + MS.times(40);
            let mut batch = cc.ack(now);
            batch.acked(&flight[0]);
            if is_repaired {
                batch.repaired_loss();
            } else {
                batch.ce(1);
            }
            batch.finish();
            let answered = cc.snapshot();
            cc.on_spurious_loss(now);
            (answered, cc.snapshot())
        };
        assert_eq!(after(true), after(false), "{algorithm}");
    }
}

/// Where marks are none, repaired losses are losses all the same: a Startup that has many of them
/// ends.
#[test]
fn repaired_losses_end_startup_where_marks_do_not() {
    let config = Config { ecn: true, ..Config::new(1) };
    let state = |is_repaired: bool| {
        let mut cc = Controller::new(Algorithm::BBR3_LINUX, config, START);
        let mut now = START;
        for packets in [20, 40, 80] {
            let flight = send(&mut cc, now, packets);
            now += MS.times(40);
            for packet in &flight {
                let mut batch = cc.ack(now);
                batch.acked(packet);
                if is_repaired {
                    batch.repaired_loss();
                }
                batch.finish();
            }
        }
        cc.snapshot().state
    };
    assert_eq!(state(false), State::Startup);
    assert_ne!(state(true), State::Startup);
}

/// draft-ietf-ccwg-bbr, "BBR.offload_budget": what the receiver may leave unacknowledged has room in
/// the window from the next ACK on.
#[test]
fn a_receiver_that_acknowledges_seldom_has_room_at_once() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR3_LINUX] {
        let mut link = Link::new(algorithm, 20, MS.times(40));
        link.run_to(State::ProbeBwCruise);
        let seldom = AckFrequency { threshold_packets: 10_000, max_delay: MS.times(200) };
        let room = link.bbr().max_bw.bytes_in(seldom.max_delay);
        assert!(link.bbr().max_inflight < room, "{algorithm}");
        link.cc.on_ack_frequency(Some(seldom));
        let delivered = link.delivered;
        while link.delivered == delivered {
            link.step(&mut || false);
        }
        assert!(link.bbr().max_inflight >= room, "{algorithm}");
    }
}

/// An amendment is in a set once, however often it is put in.
#[test]
fn a_set_has_each_amendment_once() {
    for amendment in Amendment::ALL {
        let set = Amendments::NONE.with(amendment);
        assert_eq!(set.with(amendment), set);
        assert!(Amendment::ALL.iter().all(|other| set.contains(*other) == (*other == amendment)));
    }
}

/// RFC 9002 section 7.2: ten packets, but no more than 14720 bytes, or two packets if that is more.
#[test]
fn the_first_window_is_ten_packets_within_bounds() {
    let windows =
        [(1_200, 12_000), (1_472, 14_720), (1_500, 14_720), (9_000, 18_000), (16_000, 32_000)];
    for (smss, expected) in windows {
        let cc = Controller::new(Algorithm::RENO, Config { smss, ..Config::new(1) }, START);
        assert_eq!((cc.initial_cwnd(), cc.cwnd()), (expected, expected), "{smss}");
    }
}
