//! Recovery episodes: their start, their end, and the events that count within one.

use super::{
    Algorithm, Config, Controller, Duration, Instant, MS, PacketState, START, State, Transport,
    acknowledge, bbr, lose, send, time_out,
};

const LOSS_BASED: [Algorithm; 2] = [Algorithm::RENO, Algorithm::CUBIC];

fn with_window(algorithm: Algorithm, packets: u64) -> Controller {
    let config = Config { initial_cwnd: Some(packets * 1_200), ..Config::new(1) };
    Controller::new(algorithm, config, START)
}

/// One ACK of `acked` that reports `lost` as well, and `ce` marks.
fn ack_with(
    cc: &mut Controller,
    now: Instant,
    acked: &[PacketState],
    lost: &[PacketState],
    ce: u64,
) {
    let mut batch = cc.ack(now);
    lost.iter().for_each(|p| batch.lost(p));
    acked.iter().for_each(|p| batch.acked(p));
    batch.ce(ce);
    batch.finish();
}

/// A transport repairs a loss in the instant in which it detects it. The acknowledgement of that
/// repair ends the episode: what counts is the order of sending, not the time.
#[test]
fn a_repair_sent_in_the_instant_of_the_loss_ends_the_recovery() {
    for algorithm in LOSS_BASED {
        let mut cc = with_window(algorithm, 20);
        let packets = send(&mut cc, START, 10);
        let now = START + MS.times(40);
        ack_with(&mut cc, now, &packets[1..], &packets[..1], 0);
        assert_eq!(cc.snapshot().state, State::Recovery);
        let repair = send(&mut cc, now, 1);
        acknowledge(&mut cc, now + MS.times(40), &repair);
        assert_ne!(cc.snapshot().state, State::Recovery, "{algorithm}");
    }
}

/// The same order the other way round: what left before the loss in the same instant belongs to it.
#[test]
fn what_left_just_before_the_loss_does_not_end_the_recovery() {
    let mut cc = with_window(Algorithm::RENO, 20);
    let packets = send(&mut cc, START, 10);
    let now = START + MS.times(40);
    let just_before = send(&mut cc, now, 1);
    ack_with(&mut cc, now, &packets[1..], &packets[..1], 0);
    acknowledge(&mut cc, now + MS.times(40), &just_before);
    assert_eq!(cc.snapshot().state, State::Recovery);
}

/// RFC 5681 section 3.1: a segment that times out once more leaves ssthresh as it is, and the
/// window grows by all that the ACK after it covers.
#[test]
fn a_second_timeout_of_the_same_segment_keeps_the_threshold() {
    for algorithm in LOSS_BASED {
        let config =
            Config { initial_cwnd: Some(40 * 1_200), transport: Transport::Tcp, ..Config::new(1) };
        let mut cc = Controller::new(algorithm, config, START);
        let packets = send(&mut cc, START, 40);
        let mut now = START + MS.times(300);
        time_out(&mut cc, now, &packets);
        let ssthresh = cc.snapshot().ssthresh;
        assert!(ssthresh.is_some_and(|bytes| bytes >= 20 * 1_200), "{algorithm}: {ssthresh:?}");
        for _ in 0..3 {
            assert_eq!(cc.snapshot().cwnd, 1_200, "{algorithm}");
            let again = send(&mut cc, now, 1);
            now += MS.times(600);
            time_out(&mut cc, now, &again);
            assert_eq!(cc.snapshot().ssthresh, ssthresh, "{algorithm}");
        }
        let again = send(&mut cc, now, 1);
        let mut batch = cc.ack(now + MS.times(40));
        packets.iter().for_each(|p| batch.acked_after_loss(p));
        batch.acked(&again[0]);
        batch.finish();
        assert_ne!(cc.snapshot().state, State::Recovery, "{algorithm}");
        let cwnd = cc.snapshot().cwnd;
        assert!(cwnd >= 9 * 1_200, "{algorithm}: {cwnd}, what the first ACK covers counts");
        // Another segment is another episode.
        let other = send(&mut cc, now + MS.times(40), 1);
        time_out(&mut cc, now + MS.times(900), &other);
        assert_ne!(cc.snapshot().ssthresh, ssthresh, "{algorithm}");
    }
}

/// A packet of a fast recovery that is acknowledged after a timeout does not end the episode of the
/// timeout: the repair that was lost may time out once more.
#[test]
fn a_timeout_within_a_fast_recovery_lasts_until_what_left_after_it() {
    for algorithm in LOSS_BASED {
        let config =
            Config { initial_cwnd: Some(40 * 1_200), transport: Transport::Tcp, ..Config::new(1) };
        let mut cc = Controller::new(algorithm, config, START);
        let packets = send(&mut cc, START, 40);
        let mut now = START + MS.times(40);
        ack_with(&mut cc, now, &packets[1..20], &packets[..1], 0);
        let in_recovery = send(&mut cc, now, 2);
        now += MS.times(300);
        time_out(&mut cc, now, &in_recovery[..1]);
        let again = send(&mut cc, now, 1);
        acknowledge(&mut cc, now + MS, &in_recovery[1..]);
        let ssthresh = cc.snapshot().ssthresh;
        now += MS.times(600);
        time_out(&mut cc, now, &again);
        assert_eq!(cc.snapshot().ssthresh, ssthresh, "{algorithm}");
    }
}

/// A flow that repaired its loss at once and then was silent for 20 s restarts from idle: it
/// neither enters ProbeRTT nor takes the silence for a slow path.
#[test]
fn a_restart_from_idle_is_seen_after_a_repaired_loss() {
    let mut cc = with_window(Algorithm::BBR3, 20);
    let packets = send(&mut cc, START, 10);
    let now = START + MS.times(40);
    ack_with(&mut cc, now, &packets[1..], &packets[..1], 0);
    let repair = send(&mut cc, now, 1);
    cc.on_app_limited();
    acknowledge(&mut cc, now + MS.times(40), &repair);
    cc.on_app_limited();
    let later = now + Duration::from_secs(20);
    let _first = send(&mut cc, later, 1);
    assert!(bbr(&cc).idle_restart);
}

/// Data that is lost and never sent again (a datagram, a reset stream) leaves the connection idle:
/// the transport says that it has nothing to send, and nothing is in flight.
#[test]
fn a_restart_from_idle_is_seen_after_a_loss_that_is_never_repaired() {
    let mut cc = with_window(Algorithm::BBR3, 20);
    let packets = send(&mut cc, START, 10);
    let now = START + MS.times(40);
    ack_with(&mut cc, now, &packets[..9], &packets[9..], 0);
    cc.on_app_limited();
    let _first = send(&mut cc, now + Duration::from_secs(20), 1);
    assert!(bbr(&cc).idle_restart);
}

/// While lost data waits to be sent again, an empty flight is no idleness.
#[test]
fn a_flight_that_is_lost_as_a_whole_is_not_idle() {
    let mut cc = with_window(Algorithm::BBR3, 20);
    let packets = send(&mut cc, START, 10);
    cc.on_app_limited();
    lose(&mut cc, START + MS.times(400), &packets);
    let _repair = send(&mut cc, START + MS.times(400), 1);
    assert!(!bbr(&cc).idle_restart);
}

/// The ACK that ends an episode may bring losses too. Their repair is no restart from idle.
#[test]
fn what_the_last_ack_of_an_episode_lost_still_waits_for_its_repair() {
    for loses_before in [false, true] {
        let mut cc = with_window(Algorithm::BBR3, 20);
        let packets = send(&mut cc, START, 10);
        let mut now = START + MS.times(40);
        let (lost, acked) = packets.split_at(usize::from(loses_before));
        ack_with(&mut cc, now, acked, lost, 0);
        let packets = send(&mut cc, now, 4);
        cc.on_app_limited();
        now += MS.times(40);
        ack_with(&mut cc, now, &packets[3..], &packets[..3], 0);
        assert_eq!(cc.inflight(), 0);
        let _repair = send(&mut cc, now + MS.times(100), 1);
        assert!(!bbr(&cc).idle_restart, "an episode before: {loses_before}");
    }
}

/// RFC 9002 appendix B.7 judges a mark by the newest acknowledged packet. A loss of an older
/// packet, reported with it, does not hide the mark: the later of the two decides.
#[test]
fn a_mark_beside_an_older_loss_is_answered() {
    for algorithm in LOSS_BASED {
        let mut cc = with_window(algorithm, 100);
        let old = send(&mut cc, START, 10);
        let now = START + MS.times(40);
        ack_with(&mut cc, now, &old[2..], &old[..1], 0);
        let reduced = cc.cwnd();
        // The next flight ends the episode; its ACK reports a mark, and the loss of an old packet.
        let next = send(&mut cc, now + MS, 10);
        acknowledge(&mut cc, now + MS.times(41), &next[..1]);
        ack_with(&mut cc, now + MS.times(42), &next[1..], &old[1..2], 1);
        assert!(cc.cwnd() < reduced * 9 / 10, "{algorithm}: {} of {reduced}", cc.cwnd());
    }
}

/// A mark is no loss, and no late arrival takes it back.
#[test]
fn losses_that_were_none_do_not_undo_the_answer_to_a_mark() {
    for algorithm in LOSS_BASED {
        for ce_first in [true, false] {
            let mut cc = with_window(algorithm, 100);
            let packets = send(&mut cc, START, 20);
            let now = START + MS.times(40);
            ack_with(&mut cc, now, &packets[1..10], &packets[..1], u64::from(ce_first));
            ack_with(&mut cc, now + MS, &packets[10..], &[], u64::from(!ce_first));
            let reduced = cc.cwnd();
            assert!(reduced < 90 * 1_200, "{algorithm}");
            let mut batch = cc.ack(now + MS);
            batch.acked_after_loss(&packets[0]);
            batch.finish();
            cc.on_spurious_loss(now + MS);
            assert_eq!(cc.cwnd(), reduced, "{algorithm}, mark first: {ce_first}");
        }
    }
}

/// RFC 9002 section 7.3.2: bytes that were sent before the episode do not grow the reduced window,
/// and this holds for the ACK that begins it.
#[test]
fn the_ack_that_begins_an_episode_does_not_grow_the_window() {
    for (algorithm, kept) in [(Algorithm::RENO, 50), (Algorithm::CUBIC, 70)] {
        let mut cc = with_window(algorithm, 100);
        let packets = send(&mut cc, START, 100);
        ack_with(&mut cc, START + MS.times(40), &packets[1..], &packets[..1], 0);
        assert_eq!(cc.cwnd(), kept * 1_200, "{algorithm}");
        let mut cc = with_window(algorithm, 100);
        let packets = send(&mut cc, START, 100);
        ack_with(&mut cc, START + MS.times(40), &packets, &[], 1);
        assert_eq!(cc.cwnd(), kept * 1_200, "{algorithm}, for a mark");
    }
}

/// RFC 9002 appendix B.8: persistent congestion forgets when the recovery began, so that every
/// acknowledged byte grows the smallest window again.
#[test]
fn after_persistent_congestion_no_byte_is_of_the_recovery_before() {
    for algorithm in LOSS_BASED {
        let mut cc = with_window(algorithm, 100);
        let packets = send(&mut cc, START, 20);
        let now = START + Duration::from_secs(2);
        time_out(&mut cc, now, &packets[..19]);
        assert_eq!((cc.cwnd(), cc.snapshot().state), (2 * 1_200, State::SlowStart), "{algorithm}");
        acknowledge(&mut cc, now + MS, &packets[19..]);
        assert_eq!(cc.cwnd(), 3 * 1_200, "{algorithm}: a byte for each that is acknowledged");
    }
}

/// C.lost is what was lost. What CE marked has arrived.
#[test]
fn a_marked_packet_is_not_in_the_volume_lost() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3_LINUX, Algorithm::BBR1, Algorithm::RENO] {
        let mut cc = with_window(algorithm, 100);
        let packets = send(&mut cc, START, 20);
        ack_with(&mut cc, START + MS.times(40), &packets[1..], &packets[..1], 7);
        assert_eq!(cc.snapshot().lost, 1_200, "{algorithm}");
        assert_eq!(cc.snapshot().delivered, 19 * 1_200, "{algorithm}");
    }
}
