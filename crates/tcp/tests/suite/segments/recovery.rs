//! Losses: RACK-TLP, the timeout, and what was none.

use fullpipe_cc::{Algorithm, State};
use fullpipe_tcp::Config;
use fullpipe_tcp::wire::{Header, Timestamp};

use super::lab::{CLOCK, Lab, config};

/// A connection with ten segments under way, 60 ms after the first left. The round trip is 100 ms.
fn flight(config: &Config) -> Lab {
    let mut lab = Lab::established(config);
    lab.fly(10);
    lab
}

fn reno() -> Config {
    Config { algorithm: Algorithm::RENO, ..config() }
}

/// RFC 8985 section 6.2, step 4: three segments SACKed, and the first is lost at once.
#[test]
fn three_segments_after_a_hole_are_enough() {
    let mut lab = flight(&config());
    lab.after(40);
    lab.sack(0, &[(1000, 2000)]);
    assert_eq!(lab.tcp.info().lost_bytes, 0);
    lab.sack(0, &[(1000, 3000)]);
    assert_eq!(lab.tcp.info().lost_bytes, 0);
    lab.sack(0, &[(1000, 4000)]);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
}

/// RFC 8985 section 6.2, step 5: one segment after a hole, and a quarter of the round trip.
#[test]
fn a_single_segment_after_a_hole_is_enough_after_a_while() {
    let mut lab = flight(&config());
    lab.after(40);
    lab.sack(0, &[(1000, 2000)]);
    lab.quiet();
    let out = lab.after(10);
    assert_eq!(out, [], "{:?}", lab.ranges(&out));
    let out = lab.after(20);
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
}

/// RFC 8985 section 3.1: what is merely late is not sent again.
#[test]
fn reordering_within_a_quarter_is_no_loss() {
    let mut lab = flight(&config());
    lab.after(40);
    lab.sack(0, &[(1000, 2000)]);
    assert_eq!(lab.after(10), []);
    lab.ack(0, 2000);
    assert_eq!(lab.after(50), []);
    assert_eq!(lab.tcp.info().total_retrans, 0);
}

/// RFC 8985 section 6.2, step 4: after reordering was seen, three SACKs are not enough.
#[test]
fn after_reordering_time_alone_counts() {
    let mut lab = flight(&config());
    lab.after(40);
    lab.sack(0, &[(1000, 2000)]);
    lab.after(5);
    lab.ack(0, 2000);
    lab.sack(2000, &[(3000, 6000)]);
    lab.quiet();
    let out = lab.after(40);
    assert_eq!(lab.ranges(&out), [(2000, 1000)]);
}

/// RFC 8985 section 6.2: a lost retransmission is found by what was sent after it.
#[test]
fn a_lost_retransmission_is_found() {
    let mut lab = flight(&config());
    lab.after(40);
    lab.sack(0, &[(1000, 10_000)]);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    lab.after(1);
    lab.write(3);
    let sent = lab.after(99);
    assert_eq!(sent.len(), 3);
    lab.sack(0, &[(1000, 13_000)]);
    let out = lab.after(30);
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    assert_eq!(lab.tcp.info().timeouts, 0);
}

/// RFC 8985 sections 7.2 and 7.3: two round trips after the last segment, the last one again.
#[test]
fn a_lost_tail_is_probed() {
    let mut lab = flight(&config());
    let sent = lab.tcp.poll_at().expect("a timer").since(lab.now).as_nanos() / 1_000_000;
    assert!((140..=200).contains(&sent), "{sent} ms: two round trips after the last departure");
    let out = lab.after(200);
    assert_eq!(lab.ranges(&out), [(9000, 1000)]);
    lab.after(90);
    lab.sack(0, &[(9000, 10_000)]);
    let out = lab.after(60);
    assert_eq!(lab.ranges(&out).first(), Some(&(0, 1000)), "RACK does the rest");
    assert_eq!(out.len(), 9);
}

/// RFC 8985 section 7.2: a single segment allows for a delayed ACK, but not longer than the
/// timeout.
#[test]
fn a_single_segment_waits_for_a_delayed_ack() {
    let mut lab = Lab::established(&config());
    lab.write(1);
    lab.all();
    // SRTT 100 ms, RTTVAR 50 ms: a timeout of 300 ms comes first.
    assert_eq!(lab.timer(), Some(300));
}

/// RFC 8985 section 7.3: new data, if there is any, is a better probe.
#[test]
fn new_data_is_a_probe() {
    let mut lab = Lab::established_with(&config(), Header { window: 2000, ..Lab::syn() });
    lab.write(4);
    assert_eq!(lab.after(50).len(), 2);
    // The window opens without an ACK of data, and for a probe alone the congestion window would
    // not matter.
    let out = lab.after(160);
    assert_eq!(lab.ranges(&out), [(1000, 1000)], "there was no room for more");
}

/// RFC 8985 section 7.4: a probe that repaired a loss is congestion.
#[test]
fn a_loss_that_a_probe_repaired_is_congestion() {
    let mut lab = flight(&reno());
    lab.after(40);
    lab.ack(0, 8000);
    let before = lab.tcp.info().snd_cwnd;
    let out = lab.after(250);
    assert_eq!(lab.ranges(&out), [(9000, 1000)]);
    lab.write(1);
    lab.all();
    lab.after(100);
    lab.ack(0, 11_000);
    assert!(lab.tcp.info().snd_cwnd < before, "{} of {before}", lab.tcp.info().snd_cwnd);
}

/// RFC 8985 section 7.4.2: with a DSACK the probe was unnecessary.
#[test]
fn an_unnecessary_probe_is_no_congestion() {
    let mut lab = flight(&reno());
    lab.after(40);
    lab.ack(0, 8000);
    let before = lab.tcp.info().snd_cwnd;
    assert_eq!(lab.after(250).len(), 1);
    lab.sack(10_000, &[(9000, 10_000)]);
    lab.write(1);
    lab.all();
    lab.ack(0, 11_000);
    assert!(lab.tcp.info().snd_cwnd >= before);
}

/// RFC 6298 sections 5.4 to 5.6: the first segment again, and twice as long, until there is a
/// sample.
#[test]
fn the_timeout_doubles() {
    let mut lab = Lab::established(&Config { sack: false, ..config() });
    lab.write(1);
    lab.all();
    for ms in [300, 600, 1200, 2400] {
        assert_eq!(lab.timer(), Some(ms));
        let out = lab.after(ms);
        assert_eq!(lab.ranges(&out), [(0, 1000)]);
    }
    assert_eq!(lab.tcp.info().timeouts, 4);
    lab.ack(0, 1000);
    assert_eq!((lab.tcp.info().backoff, lab.timer()), (4, None));
    lab.write(1);
    lab.all();
    lab.ack(0, 2000);
    assert_eq!((lab.tcp.info().backoff, lab.timer()), (0, None));
}

/// RFC 6298 section 3 (Karn): the ACK of a repeated segment measures nothing without timestamps.
#[test]
fn a_repeated_segment_measures_nothing() {
    let mut lab = Lab::established(&Config { sack: false, ..config() });
    let before = lab.tcp.info().rtt;
    lab.write(1);
    lab.after(350);
    lab.ack(0, 1000);
    assert_eq!(lab.tcp.info().rtt, before);
}

/// RFC 6298 section 5.3: an ACK of new data starts the timer anew.
#[test]
fn an_ack_starts_the_timer_anew() {
    let mut lab = flight(&Config { sack: false, ..config() });
    lab.after(40);
    lab.ack(0, 1000);
    let rto = lab.tcp.info().rto.as_nanos() / 1_000_000;
    assert!(lab.timer().expect("a timer").abs_diff(rto) <= 1, "{:?} of {rto}", lab.timer());
}

/// RFC 2018 section 8: after a timeout, what was SACKed and thrown away is sent again.
#[test]
fn a_receiver_may_change_its_mind() {
    let mut lab = flight(&config());
    lab.after(40);
    lab.sack(0, &[(1000, 10_000)]);
    assert_eq!(lab.all().len(), 1);
    // The first arrives, and nothing of the rest is there any more.
    lab.after(100);
    lab.ack(0, 1000);
    let out = lab.after(5000);
    let mut starts: Vec<u32> = lab.ranges(&out).iter().map(|range| range.0).collect();
    starts.dedup();
    assert_eq!(starts.first(), Some(&1000), "{starts:?}");
    let mut acked = 1000;
    while acked < 10_000 {
        acked += 1000;
        lab.ack(0, acked);
        lab.after(1000);
    }
    assert_eq!(lab.tcp.info().bytes_acked, 10_000);
    assert_eq!((lab.tcp.info().unacked, lab.tcp.info().sacked), (0, 0));
}

/// RFC 2018 section 8: the congestion control hears of each arrival once, also when the peer had
/// only seemed to throw away what it acknowledges later.
#[test]
fn what_was_sacked_is_delivered_once() {
    let mut lab = flight(&reno());
    lab.after(40);
    lab.sack(0, &[(1000, 10_000)]);
    assert_eq!(lab.all().len(), 1);
    lab.after(100);
    lab.ack(0, 1000);
    assert_eq!(lab.tcp.congestion().delivered, 10_000);
    // The peer is silent: the timeout takes everything for thrown away, and sends the second again.
    let out = lab.after(1000);
    assert!(out.iter().all(|out| out.range(&lab) == (1000, 1000)), "{:?}", lab.ranges(&out));
    lab.ack(0, 10_000);
    assert_eq!(lab.tcp.congestion().delivered, 11_000, "the second has arrived twice");
    assert_eq!((lab.tcp.info().lost_bytes, lab.tcp.congestion().inflight), (0, 0));
}

/// RFC 9293 section 3.4: an ACK may end within a segment; the rest is sent again.
#[test]
fn an_ack_within_a_segment() {
    let mut lab = flight(&config());
    lab.after(40);
    lab.ack(0, 2300);
    let out = lab.after(5000);
    let repeated = lab.ranges(&out);
    assert!(repeated.contains(&(2300, 700)), "{repeated:?}");
    assert!(out.iter().all(|out| out.range(&lab).0 >= 2300), "{repeated:?}");
}

/// RFC 6582 section 3.2: without SACK, three duplicates and then each partial ACK.
#[test]
fn without_sack_three_duplicates_count() {
    let syn = Header { sack_permitted: false, ..Lab::syn() };
    let mut lab = Lab::established_with(&reno(), syn);
    lab.fly(10);
    lab.after(40);
    for _ in 0..2 {
        lab.ack(0, 0);
        lab.quiet();
    }
    lab.ack(0, 0);
    assert_eq!(lab.tcp.info().lost_bytes, 1000);
    let out = lab.after(99);
    assert_eq!(lab.ranges(&out), [(0, 1000)], "{:?}", lab.tcp.info());
    lab.ack(0, 4000);
    let out = lab.after(50);
    assert_eq!(lab.ranges(&out), [(4000, 1000)]);
    lab.ack(0, 10_000);
    assert_eq!(lab.tcp.info().total_retrans, 2);
}

/// RFC 3522 section 3.2 and RFC 4015: the echo of an ACK after a timeout is older than the
/// retransmission: the timer was wrong, and the rest is not sent again.
#[test]
fn a_spurious_timeout_is_undone() {
    let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
    let config = Config { timestamps: true, ..reno() };
    let mut lab = Lab::established_with(&config, Header { timestamp, ..Lab::syn() });
    lab.write(8);
    let sent = lab.after(60);
    let echo = sent[0].header.timestamp.expect("a timestamp").value;
    let before = lab.tcp.info().snd_cwnd;
    let repeated = lab.after(700);
    assert!(lab.tcp.info().timeouts >= 1 && !repeated.is_empty());
    assert!(lab.tcp.info().snd_cwnd < before);
    // The ACK of the original.
    let header = Header { timestamp: Some(Timestamp { value: 600, echo }), ..lab.header(0, 988) };
    lab.send(header, &[]);
    assert!(lab.tcp.info().snd_cwnd >= before, "{} of {before}", lab.tcp.info().snd_cwnd);
    assert_eq!(lab.tcp.info().lost_bytes, 0);
    assert_eq!(lab.after(50), []);
}

/// Data in flight at a change of the algorithm does not count in the new one's flight, also after a
/// spurious timeout.
#[test]
fn an_undone_timeout_counts_no_flight_of_an_earlier_algorithm() {
    let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
    let config = Config { timestamps: true, ..reno() };
    let mut lab = Lab::established_with(&config, Header { timestamp, ..Lab::syn() });
    lab.write(8);
    let sent = lab.after(60);
    let echo = sent[0].header.timestamp.expect("a timestamp").value;
    lab.tcp.set_congestion(lab.now, Algorithm::BBR3);
    lab.after(700);
    assert!(lab.tcp.info().timeouts >= 1);
    let original = Some(Timestamp { value: 600, echo });
    lab.send(Header { timestamp: original, ..lab.header(0, 988) }, &[]);
    assert_eq!(lab.tcp.info().lost_bytes, 0);
    lab.send(Header { timestamp: original, ..lab.header(0, 8000) }, &[]);
    assert_eq!((lab.tcp.info().unacked, lab.tcp.congestion().inflight), (0, 0));
}

/// A timeout with eight segments under way, after which the first was sent again; `unsent` more
/// segments wait.
fn timed_out(unsent: usize) -> (Lab, u64) {
    let mut lab = Lab::established(&reno());
    lab.write(8);
    assert_eq!(lab.after(60).len(), 8);
    let before = lab.tcp.info().snd_cwnd;
    // The tail loss probe, and the timeout.
    let repeated = lab.after(700);
    assert_eq!(lab.ranges(&repeated), [(7000, 1000), (0, 1000)]);
    assert_eq!(lab.tcp.info().timeouts, 1);
    if unsent > 0 {
        lab.write(unsent);
    }
    assert!(lab.tcp.info().snd_cwnd < before);
    (lab, before)
}

/// RFC 5682 section 3.1, steps 2 b and 3 b: two new segments, and then an original arrives: the
/// rest is not sent again.
#[test]
fn a_spurious_timeout_is_seen_without_timestamps() {
    let (mut lab, before) = timed_out(4);
    lab.ack(0, 1000);
    let out = lab.after(100);
    assert_eq!(lab.ranges(&out), [(8000, 1000), (9000, 1000)], "new data, and no more than two");
    lab.ack(0, 2000);
    assert!(lab.tcp.info().snd_cwnd >= before, "{} of {before}", lab.tcp.info().snd_cwnd);
    assert_eq!(lab.tcp.info().lost_bytes, 0);
    lab.ack(0, 8000);
    let out = lab.after(100);
    assert_eq!(lab.ranges(&out), [(10_000, 1000), (11_000, 1000)]);
    assert_eq!(lab.tcp.info().total_retrans, 2);
}

/// RFC 5682 section 3.1, step 3 a: only the new segments arrive: the loss was real.
#[test]
fn a_real_timeout_is_repaired_after_the_two_new_segments() {
    let (mut lab, before) = timed_out(4);
    lab.ack(0, 1000);
    assert_eq!(lab.after(100).len(), 2);
    lab.sack(1000, &[(8000, 9000)]);
    assert!(lab.tcp.info().snd_cwnd < before);
    let out = lab.after(20);
    assert_eq!(lab.ranges(&out).first(), Some(&(1000, 1000)));
}

/// RFC 5682 section 3.1, steps 2 a and 2 b: an ACK that does not advance, and nothing new to send,
/// mean repair at once.
#[test]
fn a_timeout_is_repaired_at_once_when_nothing_can_be_learnt() {
    let (mut lab, _) = timed_out(4);
    lab.sack(0, &[(3000, 4000)]);
    let out = lab.after(50);
    assert!(lab.ranges(&out).iter().all(|&(start, _)| start < 8000), "{:?}", lab.ranges(&out));

    let (mut lab, _) = timed_out(0);
    lab.ack(0, 1000);
    let out = lab.after(50);
    assert_eq!(lab.ranges(&out).first(), Some(&(1000, 1000)));
}

/// RFC 5682 section 3.1, step 1: a second timeout in a row is repaired without an examination.
#[test]
fn a_second_timeout_is_not_examined() {
    let (mut lab, _) = timed_out(4);
    lab.after(1500);
    assert!(lab.tcp.info().timeouts >= 2);
    lab.ack(0, 1000);
    let out = lab.after(100);
    assert_eq!(lab.ranges(&out).first(), Some(&(1000, 1000)));
}

/// RFC 3708 section 2: every retransmission of an episode was a duplicate: nothing was lost.
#[test]
fn losses_that_were_none_are_undone() {
    let mut lab = flight(&reno());
    lab.after(40);
    let before = lab.tcp.info().snd_cwnd;
    lab.sack(0, &[(1000, 4000)]);
    assert!(lab.tcp.info().snd_cwnd < before);
    let out = lab.after(60);
    assert_eq!(lab.ranges(&out).first(), Some(&(0, 1000)));
    assert_eq!(out.len(), 1);
    lab.ack(0, 10_000);
    // The copy arrives as well.
    lab.sack(10_000, &[(0, 1000)]);
    assert!(lab.tcp.info().snd_cwnd >= before, "{} of {before}", lab.tcp.info().snd_cwnd);
    assert_eq!(lab.tcp.info().dsack_dups, 1);
}

/// RFC 2018 section 5: blocks outside of what was sent are nonsense.
#[test]
fn nonsense_blocks_change_nothing() {
    let mut lab = flight(&config());
    lab.after(40);
    for block in [(10_000, 11_000), (5000, 4000), (9000, 0x8000_0000), (0x7000_0000, 0x7000_1000)] {
        lab.sack(0, &[block]);
        assert_eq!((lab.tcp.info().sacked, lab.tcp.info().lost_bytes), (0, 0), "{block:?}");
    }
}

/// RFC 5681 section 3.1 and 4.1: after a long pause a window that counts ACKs begins anew.
#[test]
fn an_idle_connection_begins_anew() {
    let mut lab = flight(&reno());
    for i in 1..=10 {
        lab.after(4);
        lab.ack(0, i * 1000);
    }
    let grown = lab.tcp.info().snd_cwnd;
    lab.after(60_000);
    lab.write(1);
    assert!(lab.tcp.info().snd_cwnd < grown, "{} of {grown}", lab.tcp.info().snd_cwnd);
}

/// Linux's TCP_CONGESTION: another algorithm in the middle of a connection, with losses of both
/// times to repair.
#[test]
fn another_algorithm_takes_over() {
    let mut lab = flight(&reno());
    lab.after(40);
    lab.tcp.set_congestion(lab.now, Algorithm::BBR3);
    assert_eq!(lab.tcp.congestion().state, State::Startup);
    lab.write(4);
    assert!(!lab.after(30).is_empty(), "the new window is open");
    // The first of the old segments and the first of the new ones are lost.
    lab.sack(0, &[(1000, 10_000)]);
    lab.sack(0, &[(1000, 10_000), (11_000, 14_000)]);
    let out = lab.after(100);
    let again = lab.ranges(&out);
    assert!(again.contains(&(0, 1000)) && again.contains(&(10_000, 1000)), "{again:?}");
    lab.ack(0, 14_000);
    assert_eq!((lab.tcp.info().unacked, lab.tcp.info().lost_bytes), (0, 0));
    assert_eq!(lab.tcp.info().timeouts, 0);
}

/// RFC 9937 section 6.2: an ACK that delivers something lets as much leave, and one segment more if
/// it advances, by which the recovery makes progress (SafeACK).
#[test]
fn an_ack_that_does_not_advance_is_not_safe() {
    let recovering = || {
        let mut lab = flight(&reno());
        lab.after(40);
        // All but the last are lost, as the reordering window says; one leaves whatever arrived.
        lab.sack(0, &[(9000, 10_000)]);
        let out = lab.after(60);
        assert_eq!(lab.ranges(&out), [(0, 1000)]);
        lab
    };
    let mut lab = recovering();
    // An original was late.
    lab.sack(0, &[(5000, 6000), (9000, 10_000)]);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(1000, 1000)]);
    let mut lab = recovering();
    lab.sack(1000, &[(9000, 10_000)]);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(1000, 1000), (2000, 1000)]);
}
