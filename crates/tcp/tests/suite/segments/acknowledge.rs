//! The claims of an ACK, and their bounds.

use fullpipe_cc::{Algorithm, Rate};
use fullpipe_tcp::wire::{Control, Header, Timestamp};
use fullpipe_tcp::{Config, State};

use super::lab::{CLOCK, Lab, MSS, config};

fn reno() -> Config {
    Config { algorithm: Algorithm::RENO, ..config() }
}

/// Segments leave as soon as they are written.
fn fast() -> Config {
    let algorithm = Algorithm::Fixed(Rate::from_bits_per_sec(1_000_000_000));
    Config { algorithm, ..config() }
}

/// Ten segments are under way, a round trip after they left, to a peer without SACK.
fn without_sack(config: &Config) -> Lab {
    let syn = Header { sack_permitted: false, ..Lab::syn() };
    let mut lab = Lab::established_with(config, syn);
    lab.fly(10);
    lab.after(40);
    lab
}

fn with_timestamps(config: &Config) -> Lab {
    let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
    Lab::established_with(
        &Config { timestamps: true, ..*config },
        Header { timestamp, ..Lab::syn() },
    )
}

/// RFC 5681 section 2: a duplicate has no data, no FIN and no other window, and acknowledges what
/// the last one did. Three of anything else are no loss.
#[test]
fn only_a_pure_ack_is_a_duplicate() {
    type Send = fn(&mut Lab, u32);
    let with_data: Send = |lab, i| lab.send(lab.header(100 * i, 0), &[7; 100]);
    let with_window: Send = |lab, i| {
        lab.window = 60_000 - i as u16;
        lab.ack(0, 0);
    };
    // The window's edge stays where it is.
    let that_advances: Send = |lab, i| {
        lab.window -= 1000;
        lab.ack(0, (i + 1) * 1000);
    };
    let keep_alive: Send = |lab, _| lab.ack(u32::MAX, 0);
    let cases = [with_data, with_window, that_advances, keep_alive];
    for (case, send) in cases.into_iter().enumerate() {
        let mut lab = without_sack(&reno());
        for i in 0..3 {
            send(&mut lab, i);
        }
        let info = lab.tcp.info();
        assert_eq!((info.lost_bytes, info.total_retrans), (0, 0), "case {case}");
    }
}

/// RFC 6298 section 5.3: the timer starts anew when new data is acknowledged, not at a duplicate.
#[test]
fn a_duplicate_leaves_the_timer_alone() {
    let mut lab = without_sack(&reno());
    let timer = lab.timer();
    lab.ack(0, 0);
    assert_eq!(lab.timer(), timer);
}

/// RFC 6298 section 3: what a SACK block tells of is measured as well, and without Karn's ambiguity
/// what was sent once alone.
#[test]
fn a_block_measures_what_was_sent_once() {
    let mut lab = with_timestamps(&fast());
    let mss = lab.tcp.info().snd_mss;
    lab.tcp.write(lab.now, &vec![1; 10 * mss as usize]).expect("room");
    lab.after(100);
    let before = lab.tcp.info().rtt_samples;
    // The first two are lost.
    lab.sack(0, &[(2 * mss, 5 * mss)]);
    assert_eq!(lab.tcp.info().rtt_samples, before + 1);
    let out = lab.after(150);
    assert_eq!([out[0].range(&lab).0, out[1].range(&lab).0], [0, mss]);
    let before = lab.tcp.info();
    // The copy of the second arrives first; the echo is that of an older segment (RFC 7323 section
    // 4.3).
    lab.sack(0, &[(mss, 5 * mss)]);
    let after = lab.tcp.info();
    assert_eq!((after.sacked, after.rtt_samples), (4, before.rtt_samples));
}

/// RFC 8985 section 7.4.2: a pure duplicate for the end of a probe shows that the original had
/// arrived, where the peer has no DSACK.
#[test]
fn a_pure_duplicate_shows_that_a_probe_was_not_needed() {
    for (duplicates, reduces) in [(0, true), (1, false)] {
        let mut lab = Lab::established(&reno());
        lab.fly(10);
        lab.after(40);
        lab.ack(0, 8000);
        let before = lab.tcp.info().snd_cwnd;
        let out = lab.after(250);
        assert_eq!(lab.ranges(&out), [(9000, 1000)], "a probe");
        lab.ack(0, 10_000);
        lab.write(1);
        lab.all();
        for _ in 0..duplicates {
            lab.ack(0, 10_000);
        }
        lab.ack(0, 11_000);
        let after = lab.tcp.info().snd_cwnd;
        assert_eq!(after < before, reduces, "{duplicates} duplicates: {after} of {before}");
    }
}

/// RFC 5682 section 3.1, step 3: an ACK that comes with data tells as much as one without. One with
/// no news, such as of the window, decides nothing.
#[test]
fn an_ack_with_data_ends_the_examination_of_a_timeout() {
    let examined = || {
        let mut lab = Lab::established(&reno());
        lab.write(8);
        lab.after(60);
        lab.after(700);
        assert_eq!(lab.tcp.info().timeouts, 1);
        lab.write(4);
        lab.ack(0, 1000);
        let out = lab.after(100);
        assert_eq!(lab.ranges(&out), [(8000, 1000), (9000, 1000)]);
        lab
    };
    // 3 a: of the new segments alone.
    let mut lab = examined();
    let mut header = lab.header(0, 1000);
    header.sack[0] = Some((lab.our(8000), lab.our(9000)));
    lab.send(header, b"x");
    let out = lab.after(20);
    assert_eq!(lab.ranges(&out).first(), Some(&(1000, 1000)));
    // Neither: data alone, and another window. Then 3 b.
    let mut lab = examined();
    lab.send(lab.header(0, 1000), b"x");
    lab.window -= 100;
    lab.ack(1, 1000);
    lab.ack(1, 2000);
    assert_eq!(lab.tcp.info().lost_bytes, 0, "it was spurious");
}

/// RFC 5682 section 3.1, step 2 a: an ACK that does not advance means repair, and what advances
/// after it is not examined any more.
#[test]
fn the_first_ack_after_a_timeout_decides() {
    let mut lab = Lab::established(&reno());
    lab.write(8);
    lab.after(760);
    assert_eq!(lab.tcp.info().timeouts, 1);
    lab.write(4);
    lab.sack(0, &[(3000, 4000)]);
    lab.ack(0, 1000);
    let out = lab.after(50);
    let again = lab.ranges(&out);
    assert!(!again.is_empty() && again.iter().all(|range| range.0 < 8000), "{again:?}");
}

/// RFC 5682 section 3.1, step 2 b: two new segments, however large the window is.
#[test]
fn an_examination_sends_two_segments() {
    let mut lab = Lab::established(&fast());
    lab.write(8);
    lab.after(760);
    assert_eq!(lab.tcp.info().timeouts, 1);
    lab.write(6);
    lab.ack(0, 1000);
    let out = lab.after(50);
    assert_eq!(lab.ranges(&out), [(8000, 1000), (9000, 1000)]);
}

/// RFC 5682 section 3.1 is for SACK without timestamps: these decide by the first ACK (RFC 3522),
/// and without SACK the second may be a mere duplicate.
#[test]
fn a_timeout_is_repaired_at_once_with_timestamps_and_without_sack() {
    for (sack, timestamps) in [(false, false), (true, true)] {
        let timestamp = timestamps.then_some(Timestamp { value: 500, echo: CLOCK });
        let syn = Header { sack_permitted: sack, timestamp, ..Lab::syn() };
        let mut lab = Lab::established_with(&Config { sack, timestamps, ..reno() }, syn);
        let mss = lab.tcp.info().snd_mss;
        lab.tcp.write(lab.now, &vec![1; 8 * mss as usize]).expect("room");
        lab.after(760);
        assert_eq!(lab.tcp.info().timeouts, 1);
        lab.tcp.write(lab.now, &vec![1; 4 * mss as usize]).expect("room");
        lab.ack(0, mss);
        let out = lab.after(50);
        assert_eq!(lab.ranges(&out)[0].0, mss, "SACK {sack}, timestamps {timestamps}");
    }
}

/// RFC 6582 section 3.2, step 3: a full acknowledgment ends the recovery and loses nothing more.
#[test]
fn a_full_acknowledgment_repairs_nothing() {
    let mut lab = without_sack(&fast());
    for _ in 0..3 {
        lab.ack(0, 0);
    }
    lab.write(4);
    let out = lab.after(100);
    assert!(lab.ranges(&out).contains(&(0, 1000)) && out.len() > 1, "{:?}", lab.ranges(&out));
    lab.ack(0, 10_000);
    let info = lab.tcp.info();
    assert_eq!((info.lost_bytes, info.total_retrans), (0, 1));
}

/// RFC 3708 section 3: a reduction is undone when each of its copies was a duplicate, and not
/// before; the recovery need not be over.
#[test]
fn all_copies_have_to_be_duplicates() {
    let mut lab = Lab::established(&reno());
    lab.fly(10);
    lab.after(40);
    let before = lab.tcp.info().snd_cwnd;
    lab.sack(0, &[(2000, 9000)]);
    let out = lab.after(90);
    assert!(lab.ranges(&out).starts_with(&[(0, 1000), (1000, 1000)]), "{:?}", lab.ranges(&out));
    lab.ack(0, 9000);
    lab.sack(9000, &[(0, 1000)]);
    assert!(lab.tcp.info().snd_cwnd < before, "the second copy may have been needed");
    lab.sack(9000, &[(1000, 2000)]);
    let info = lab.tcp.info();
    assert!(info.unacked > 0 && info.snd_cwnd >= before, "{info:?}");
}

/// RFC 2883 section 4: a DSACK is the first block, if it is below the ACK or inside of the second.
#[test]
fn a_dsack_is_the_first_block() {
    for (acked, blocks, counts) in [
        (4000, &[(1000, 2000)][..], true),
        (4000, &[(3000, 4000), (5000, 6000)], true),
        (0, &[(3000, 4000), (1000, 6000)], true),
        (0, &[(1000, 6000), (1000, 6000)], true),
        (0, &[(1000, 2000), (3000, 6000)], false),
        (0, &[(5000, 6000), (1000, 3000)], false),
        (0, &[(500, 4000), (1000, 6000)], false),
        (0, &[(1000, 7000), (1000, 6000)], false),
        (0, &[(8000, 9000), (5000, 6000), (7000, 9000)], false),
        (0, &[(5000, 6000), (1000, 2000), (4000, 9000)], false),
        // Before the first byte, and beyond the last.
        (4000, &[(u32::MAX, 1000)], false),
        (0, &[(9000, 10_500), (8000, 11_000)], false),
    ] {
        let mut lab = Lab::established(&reno());
        lab.fly(10);
        lab.after(40);
        lab.sack(acked, blocks);
        assert_eq!(lab.tcp.info().dsack_dups, u64::from(counts), "{acked}, {blocks:?}");
    }
}

/// RFC 2018 section 3: blocks are of what was sent.
#[test]
fn a_block_beyond_what_was_sent_is_none() {
    let mut lab = Lab::established(&reno());
    lab.fly(10);
    lab.sack(0, &[(8000, 10_500)]);
    assert_eq!(lab.tcp.info().sacked, 0);
    lab.sack(0, &[(8000, 10_000)]);
    assert_eq!(lab.tcp.info().sacked, 2);
}

/// RFC 9293 section 3.8.6.1: the byte of a probe of a closed window may be the FIN, and the peer
/// may take it.
#[test]
fn the_byte_of_a_probe_may_be_the_fin() {
    for waiting in [0, 1] {
        let mut lab = Lab::established_with(&config(), Header { window: 1000, ..Lab::syn() });
        lab.write(1);
        lab.all();
        lab.window = 0;
        lab.ack(0, 1000);
        assert_eq!(lab.tcp.write(lab.now, &vec![1; waiting]).unwrap_or(0), waiting);
        lab.tcp.close(lab.now);
        let out = lab.after(5000);
        let probe = out.last().expect("a probe");
        assert_eq!(probe.header.control == Control::Fin, waiting == 0);
        assert_eq!(probe.payload.len(), waiting);
        lab.ack(0, 1001);
        let state = lab.tcp.state();
        assert_eq!(state == State::FinWait2, waiting == 0, "{state:?}");
        assert_eq!(lab.tcp.info().bytes_acked, 1000 + waiting as u64);
        lab.window = 1000;
        lab.ack(0, 1001);
        let out = lab.after(10);
        assert_eq!(out.iter().any(|out| out.header.control == Control::Fin), waiting == 1);
    }
}

/// RFC 9293 section 3.8.6.1: the intervals of probes grow; an open window ends that, and what
/// follows has a timeout as any other.
#[test]
fn an_open_window_ends_the_backoff_of_probes() {
    let mut lab = Lab::established_with(&config(), Header { window: 1000, ..Lab::syn() });
    lab.write(3);
    lab.all();
    lab.window = 0;
    lab.ack(0, 1000);
    lab.after(5000);
    assert!(lab.tcp.info().backoff > 1);
    lab.ack(0, 1000);
    assert!(lab.tcp.info().backoff > 1, "it is closed");
    lab.window = 5000;
    lab.ack(0, 1000);
    assert_eq!(lab.tcp.info().backoff, 0);
}

/// Acceptable bytes that came are counted; SYN and FIN are none.
#[test]
fn what_came_is_counted() {
    let mut lab = Lab::established(&config());
    assert_eq!(lab.tcp.info().segs_in, 1);
    for offset in [0, 100, 300] {
        lab.data(offset, &[7; 100]);
    }
    let info = lab.tcp.info();
    assert_eq!((info.segs_in, info.bytes_received), (4, 200));
    lab.send(Header { control: Control::Fin, ..lab.header(400, 0) }, &[]);
    assert_eq!(lab.tcp.info().bytes_received, 200);
    lab.data(200, &[7; 100]);
    let info = lab.tcp.info();
    assert_eq!((info.segs_in, info.bytes_received), (6, 400));
    // The FIN and data in one.
    let mut lab = Lab::established(&config());
    lab.send(Header { control: Control::Fin, ..lab.header(0, 0) }, &[7; 100]);
    let info = lab.tcp.info();
    assert_eq!((info.bytes_received, info.state), (100, State::CloseWait));
}

/// RFC 9293 section 3.8.6.3 and RFC 5681 section 4.2: a FIN and what was there before are
/// acknowledged at once, data in order is not. RFC 2883 section 4: data in order that follows does
/// not make the ACK forget the duplicate.
#[test]
fn a_fin_and_a_duplicate_are_acknowledged_at_once() {
    let config = Config { quick_acks: 0, ..config() };
    let mut lab = Lab::established(&config);
    lab.data(0, &[7; 100]);
    lab.quiet();
    lab.data(0, &[7; 100]);
    lab.data(100, &[7; 100]);
    let ack = lab.out().header;
    assert_eq!(ack.ack, Some(lab.their(200)));
    assert_eq!(ack.sack[0], Some((lab.their(0), lab.their(100))));
    lab.data(200, &[7; 100]);
    lab.quiet();
    lab.fin(300, 0);
    assert_eq!(lab.out().header.ack, Some(lab.their(301)));
}

/// RFC 7323 section 2.3: the window of the ACK that ends a handshake is scaled.
#[test]
fn the_last_segment_of_a_handshake_has_a_scaled_window() {
    let syn = Header { window_scale: Some(3), ..Lab::syn() };
    let mut lab = Lab::passive(&config(), syn);
    lab.out();
    lab.window = 1000;
    lab.ack(0, 0);
    assert_eq!((lab.tcp.state(), lab.tcp.info().snd_wnd), (State::Established, 8000));
}

/// RFC 9293 section 3.10.7.4, second: where both ends have closed, a reset is no error.
#[test]
fn a_reset_after_both_have_closed_is_no_error() {
    for closes_first in [true, false] {
        let mut lab = Lab::established(&config());
        if closes_first {
            lab.tcp.close(lab.now);
            lab.out();
            lab.fin(0, 0);
        } else {
            lab.fin(0, 0);
            lab.tcp.close(lab.now);
        }
        lab.all();
        assert!(matches!(lab.tcp.state(), State::Closing | State::LastAck));
        lab.send(Header { control: Control::Rst, ..lab.header(1, 0) }, &[]);
        assert_eq!((lab.tcp.state(), lab.tcp.error()), (State::Closed, None));
    }
}

/// Bytes that left are counted, each time that they did; SYN and FIN are none.
#[test]
fn what_leaves_is_counted() {
    for segments in [0, 1, 2] {
        let mut lab = Lab::established(&config());
        if segments > 0 {
            lab.write(segments);
        }
        lab.tcp.close(lab.now);
        let mut left = lab.all();
        left.extend(lab.after(3000));
        let fins = left.iter().filter(|out| out.header.control == Control::Fin).count();
        assert!(fins > 1, "it is repeated");
        let with_data = left.iter().filter(|out| !out.payload.is_empty());
        let bytes = with_data.clone().map(|out| out.payload.len() as u64).sum::<u64>();
        let info = lab.tcp.info();
        let counted = (info.data_segs_out, info.bytes_sent, info.notsent_bytes);
        assert_eq!(counted, (with_data.count() as u64, bytes, 0), "{segments} segments");
    }
}

/// RFC 6691 section 3 (RFC 9293 section 3.7.1): the options of a segment take room from its data:
/// it is as large as without them, and no larger.
#[test]
fn options_take_room_from_the_data() {
    for timestamps in [false, true] {
        let timestamp = timestamps.then_some(Timestamp { value: 500, echo: CLOCK });
        let config = Config { timestamps, ..fast() };
        let mut lab = Lab::established_with(&config, Header { timestamp, ..Lab::syn() });
        for pieces in 0..=3 {
            if pieces > 0 {
                lab.data(200 * pieces, &[7; 100]);
            }
            lab.write(3);
            let out = lab.out();
            let blocks = out.header.sack.iter().flatten().count();
            assert_eq!(blocks, pieces as usize, "{:?}", out.header);
            assert_eq!(out.header.bytes() + out.payload.len(), MSS + 20, "{pieces} pieces");
            lab.all();
        }
    }
}
