//! Data and its acknowledgement.

use fullpipe_tcp::wire::{Control, Header};
use fullpipe_tcp::{Config, Error};

use super::lab::{Lab, MSS, config};

/// A connection that has used up its quick ACKs; the peer's stream is at 16 segments.
fn slow() -> Lab {
    let mut lab = Lab::established(&config());
    for i in 0..16 {
        lab.data(i * MSS as u32, &[1; MSS]);
        assert_eq!(lab.all().len(), 1);
    }
    lab.read().expect("data");
    lab.all();
    lab
}

/// RFC 9293 section 3.8.6.3: at least every second full segment is acknowledged.
#[test]
fn every_second_full_segment_is_acknowledged() {
    let mut lab = slow();
    for i in 0..4 {
        lab.data((16 + 2 * i) * MSS as u32, &[1; MSS]);
        lab.quiet();
        lab.data((17 + 2 * i) * MSS as u32, &[1; MSS]);
        assert_eq!(lab.out().header.ack, Some(lab.their((18 + 2 * i) * MSS as u32)));
        lab.quiet();
    }
}

/// RFC 9293 section 3.8.6.3: an ACK is delayed by less than half a second; here by 40 ms.
#[test]
fn a_single_segment_is_acknowledged_after_40_ms() {
    let mut lab = slow();
    lab.data(16_000, b"x");
    lab.quiet();
    assert_eq!(lab.timer(), Some(40));
    assert_eq!(lab.after(39), []);
    assert_eq!(lab.after(1)[0].header.ack, Some(lab.their(16_001)));
}

/// RFC 9293 section 3.8.6.3: data that leaves takes the ACK along.
#[test]
fn data_takes_the_ack_along() {
    let mut lab = slow();
    lab.data(16_000, b"x");
    lab.write(1);
    assert_eq!(lab.out().header.ack, Some(lab.their(16_001)));
    assert_eq!(lab.after(50), []);
}

/// RFC 5681 section 4.2: out of order data is acknowledged at once, with a SACK block (RFC 2018
/// section 4).
#[test]
fn out_of_order_data_is_acknowledged_at_once() {
    let mut lab = slow();
    for (from, block) in [(18_000, (18_000, 19_000)), (19_000, (18_000, 20_000))] {
        lab.data(from, &[1; MSS]);
        let ack = lab.out().header;
        assert_eq!(ack.ack, Some(lab.their(16_000)));
        assert_eq!(ack.sack, [Some((lab.their(block.0), lab.their(block.1))), None, None]);
    }
    // The hole is filled: at once, too.
    lab.data(16_000, &[1; 2000]);
    let ack = lab.out().header;
    assert_eq!((ack.ack, ack.sack), (Some(lab.their(20_000)), [None; 3]));
    assert_eq!(lab.read().map(|data| data.len()), Ok(4000));
}

/// RFC 2018 section 2: without the peer's permission there are no blocks.
#[test]
fn no_blocks_without_permission() {
    let syn = Header { sack_permitted: false, ..Lab::syn() };
    let mut lab = Lab::established_with(&config(), syn);
    lab.data(1000, b"x");
    assert_eq!(lab.out().header.sack, [None; 3]);
}

/// RFC 2883 section 4.1: a duplicate is told, as the first block, once.
#[test]
fn a_duplicate_is_told_once() {
    let mut lab = slow();
    lab.data(15_000, &[1; MSS]);
    let ack = lab.out().header;
    assert_eq!(ack.sack, [Some((lab.their(15_000), lab.their(16_000))), None, None]);
    lab.data(17_000, b"x");
    assert_eq!(lab.out().header.sack, [Some((lab.their(17_000), lab.their(17_001))), None, None]);
}

/// RFC 9293 section 3.10.7.4: the part of a segment that is new is taken.
#[test]
fn what_was_there_is_cut_off() {
    let mut lab = Lab::established(&config());
    lab.data(0, b"abc");
    lab.data(1, b"bcde");
    assert_eq!(lab.read(), Ok(b"abcde".to_vec()));
}

/// RFC 9293 section 3.10.7.4: the part of a segment that is beyond the window is not.
#[test]
fn what_is_beyond_the_window_is_cut_off() {
    let mut lab = Lab::established(&Config { receive_buffer: 1500, ..config() });
    lab.data(0, &[1; 1000]);
    lab.all();
    lab.send(Header { control: Control::Fin, ..lab.header(1000, 0) }, &[2; 1000]);
    let ack = lab.out().header;
    assert_eq!((ack.ack, ack.window), (Some(lab.their(1500)), 0));
    assert_eq!(lab.read().map(|data| data.len()), Ok(1500));
    assert_eq!(lab.read(), Err(Error::WouldBlock), "the FIN was beyond");
}

/// RFC 9293 section 3.10.7.4, first: what is outside of the window is answered with an ACK.
#[test]
fn what_is_outside_of_the_window_is_answered() {
    let mut lab = Lab::established(&Config { receive_buffer: 5000, ..config() });
    for offset in [5000, 6000, 0x8000_0000, 0_u32.wrapping_sub(100)] {
        lab.data(offset, b"x");
        assert_eq!(lab.out().header.ack, Some(lab.their(0)), "{offset}");
        lab.quiet();
    }
    assert_eq!(lab.tcp.readable(), 0);
}

/// RFC 9293 section 3.4: sequence numbers wrap, in both directions.
#[test]
fn sequence_numbers_wrap() {
    let mut lab = Lab::active_from(&config(), u32::MAX - 1500);
    lab.finish_handshake(Header { seq: u32::MAX - 700, ..Lab::syn() });
    lab.write(3);
    let out = lab.after(50);
    assert_eq!(lab.ranges(&out), [(0, 1000), (1000, 1000), (2000, 1000)]);
    assert_eq!(out[2].header.seq, 2000 - 1500);
    lab.data(1000, b"second");
    lab.data(0, &[1; 1000]);
    assert_eq!(lab.read().map(|data| data.len()), Ok(1006));
    lab.ack(1006, 3000);
    assert_eq!(lab.tcp.info().bytes_acked, 3000);
}

/// RFC 9293 section 3.10.7.4, fifth: an ACK of what was never sent is answered and dropped.
#[test]
fn an_ack_of_the_future_is_dropped() {
    let mut lab = Lab::established(&config());
    lab.write(1);
    lab.all();
    lab.send(lab.header(0, 1001), b"x");
    assert_eq!(lab.out().header.ack, Some(lab.their(0)), "its data is not taken");
    assert_eq!(lab.tcp.info().bytes_acked, 0);
}

/// RFC 9293 section 3.7.4: with Nagle's algorithm a small segment waits for the ACK of what is
/// under way.
#[test]
fn a_small_segment_waits() {
    let mut lab = Lab::established(&Config { nagle: true, ..config() });
    lab.tcp.write(lab.now, b"first").expect("room");
    assert_eq!(lab.out().payload, b"first");
    lab.tcp.write(lab.now, b"second").expect("room");
    lab.quiet();
    lab.tcp.write(lab.now, b" and third").expect("room");
    lab.quiet();
    lab.ack(0, 5);
    assert_eq!(lab.out().payload, b"second and third");
}

/// RFC 9293 section 3.7.4: an application can turn that off.
#[test]
fn without_nagle_a_small_segment_leaves() {
    let mut lab = Lab::established(&config());
    for part in [b"first", b"other"] {
        lab.tcp.write(lab.now, part).expect("room");
        assert_eq!(lab.out().payload, part);
    }
}

/// RFC 9293 section 3.9.1.2: the last segment of a write is pushed.
#[test]
fn the_last_segment_is_pushed() {
    let mut lab = Lab::established(&config());
    lab.write(3);
    let out = lab.after(50);
    let pushed: Vec<_> = out.iter().map(|out| out.header.control).collect();
    assert_eq!(pushed, [Control::None, Control::None, Control::Psh]);
}

/// RFC 9293 section 3.9.1.2: a write takes what the buffer has room for.
#[test]
fn a_full_buffer_blocks() {
    let mut lab = Lab::established(&Config { send_buffer: 1500, ..config() });
    assert_eq!(lab.tcp.write(lab.now, &[0; 2000]), Ok(1500));
    assert_eq!(lab.tcp.write(lab.now, b"x"), Err(Error::WouldBlock));
    lab.after(20);
    lab.ack(0, 1000);
    assert_eq!(lab.tcp.write(lab.now, &[0; 2000]), Ok(1000));
}

/// RFC 9293 section 3.8.4: a probe of an idle connection, which the peer has to answer; and its
/// end.
#[test]
fn keep_alive() {
    let idle = fullpipe_cc::Duration::from_secs(100);
    let mut lab = Lab::established(&Config { keep_alive: Some(idle), ..config() });
    let out = lab.after(100_000);
    assert_eq!((out.len(), out[0].header.seq), (1, lab.our(0).wrapping_sub(1)));
    lab.ack(0, 0);
    assert_eq!(lab.after(99_000), []);
    assert_eq!(lab.after(10_000).len(), 1);
    // Nine without an answer.
    assert_eq!(lab.after(9 * 75_000).len(), 8);
    assert_eq!(lab.read(), Err(Error::TimedOut));
}
