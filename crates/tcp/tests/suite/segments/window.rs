//! The window: small ones, closed ones, shrinking ones.

use fullpipe_tcp::wire::Header;
use fullpipe_tcp::{Config, Error, State};

use super::lab::{Lab, MSS, config};

fn with_window(window: u16) -> Lab {
    Lab::established_with(&config(), Header { window, ..Lab::syn() })
}

/// RFC 9293 section 3.8.6: nothing leaves beyond the window.
#[test]
fn the_window_is_kept() {
    let mut lab = with_window(2500);
    lab.write(5);
    let out = lab.after(50);
    assert_eq!(lab.ranges(&out), [(0, 1000), (1000, 1000)], "the rest would be a small segment");
    lab.ack(0, 1000);
    assert_eq!(lab.after(20).len(), 1);
}

/// RFC 9293 section 3.8.6.2.1: a sender does not answer small openings with small segments.
#[test]
fn no_silly_windows_from_the_sender() {
    let mut lab = with_window(10_000);
    lab.write(20);
    assert_eq!(lab.after(60).len(), 10);
    // 300 bytes of room while data is under way.
    lab.window = 300;
    lab.ack(0, 9_000 + 1_000 - 1_000);
    lab.window = 1300;
    lab.ack(0, 9000);
    assert_eq!(lab.after(10), []);
    lab.window = 2000;
    lab.ack(0, 9000);
    let out = lab.after(10);
    assert_eq!(lab.ranges(&out), [(10_000, 1000)]);
}

/// RFC 9293 section 3.8.6.2.2: a receiver opens its window in large steps, and tells of them.
#[test]
fn no_silly_windows_from_the_receiver() {
    let mut lab = Lab::established(&Config { receive_buffer: 4000, ..config() });
    for i in 0..4 {
        lab.data(i * 1000, &[1; 1000]);
    }
    assert_eq!(lab.out().header.window, 0);
    lab.tcp.read(&mut [0; 900]).expect("data");
    lab.quiet();
    lab.tcp.read(&mut [0; 100]).expect("data");
    assert_eq!(lab.out().header.window, 1000);
}

/// Both ends may have lost a whole window: then the ACKs of each begin at the other's edge, and
/// count.
#[test]
fn an_ack_at_the_edge_of_the_window_counts() {
    let mut lab = Lab::established(&Config { receive_buffer: 4000, ..config() });
    lab.fly(2);
    lab.ack(4000, 1000);
    assert_eq!(lab.tcp.info().bytes_acked, 1000);
    lab.ack(4001, 2000);
    assert_eq!(lab.tcp.info().bytes_acked, 1000, "beyond it");
}

/// RFC 9293 section 3.8.6.1: a closed window is probed with a byte, at longer and longer intervals.
#[test]
fn a_closed_window_is_probed() {
    let mut lab = with_window(1000);
    lab.write(3);
    lab.all();
    lab.window = 0;
    lab.ack(0, 1000);
    let rto = lab.timer().expect("a timer");
    for doubled in [rto, 2 * rto, 4 * rto] {
        // Rounded to a millisecond.
        assert!(lab.timer().is_some_and(|ms| ms.abs_diff(doubled) < 4), "{:?}", lab.timer());
        let out = lab.after(doubled);
        assert_eq!(lab.ranges(&out), [(1000, 1)]);
        lab.ack(0, 1000);
    }
    lab.window = 5000;
    lab.ack(0, 1000);
    let out = lab.after(20);
    assert_eq!(lab.ranges(&out), [(1000, 1000), (2000, 1000)]);
}

/// RFC 9293 section 3.8.6.1: the peer may take the byte of the probe.
#[test]
fn the_byte_of_a_probe_counts() {
    let mut lab = with_window(1000);
    lab.write(3);
    lab.all();
    lab.window = 0;
    lab.ack(0, 1000);
    assert_eq!(lab.after(10_000).last().map(|out| out.payload.len()), Some(1));
    lab.window = 5000;
    lab.ack(0, 1001);
    let out = lab.after(20);
    assert_eq!(lab.ranges(&out), [(1001, 1000), (2001, 999)]);
    assert_eq!((out[0].payload[998], out[0].payload[999]), (1, 2));
}

/// RFC 9293 section 3.8.6.1: as long as the peer answers its probes, a connection stays open; after
/// that it is given up.
#[test]
fn a_closed_window_is_no_reason_to_end() {
    let mut lab = with_window(1000);
    lab.write(3);
    lab.all();
    lab.window = 0;
    lab.ack(0, 1000);
    for _ in 0..40 {
        lab.after(100_000);
        lab.ack(0, 1000);
    }
    assert_eq!(lab.tcp.state(), State::Established);
    lab.after(400_000);
    assert_eq!(lab.read(), Err(Error::TimedOut));
}

/// RFC 6429: a peer that takes nothing does not keep a connection that nobody has any more, however
/// well it answers.
#[test]
fn a_closed_window_ends_a_connection_that_was_released() {
    let mut lab = with_window(1000);
    lab.write(3);
    lab.all();
    lab.window = 0;
    lab.ack(0, 1000);
    lab.tcp.detach(lab.now);
    lab.after(100_000);
    lab.ack(0, 1000);
    assert_eq!(lab.tcp.state(), State::FinWait1);
    lab.after(70_000);
    lab.ack(0, 1000);
    // The last timer may have begun just before the three minutes were over.
    lab.after(130_000);
    assert_eq!(lab.tcp.state(), State::Closed);
}

/// RFC 9293 section 3.8.6: a peer that takes its window back gets no more than a probe.
#[test]
fn a_window_may_shrink() {
    let mut lab = with_window(10_000);
    lab.write(20);
    assert_eq!(lab.after(60).len(), 10);
    lab.window = 0;
    lab.ack(0, 2000);
    let out = lab.after(5000);
    assert!(out.iter().all(|out| out.range(&lab) == (2000, 1000)), "{:?}", lab.ranges(&out));
    assert!((1..=6).contains(&out.len()), "{}", out.len());
    lab.window = 10_000;
    lab.ack(0, 3000);
    let out = lab.after(3000);
    let mut starts: Vec<u32> = lab.ranges(&out).iter().map(|range| range.0).collect();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts[..7], [3000, 4000, 5000, 6000, 7000, 8000, 9000]);
}

/// RFC 9293 section 3.10.7.4, fifth: an older segment does not change the window.
#[test]
fn an_old_segment_does_not_change_the_window() {
    let mut lab = with_window(1000);
    lab.window = 5000;
    lab.data(10, b"newer");
    assert_eq!(lab.tcp.info().snd_wnd, 5000);
    lab.window = 100;
    lab.data(0, b"older");
    assert_eq!(lab.tcp.info().snd_wnd, 5000);
}

/// RFC 9293 section 3.10.7.4: with a closed window of our own the peer's ACKs count nevertheless.
#[test]
fn acks_count_with_a_closed_window() {
    let mut lab = Lab::established(&Config { receive_buffer: 1000, ..config() });
    lab.write(1);
    lab.all();
    lab.data(0, &[1; 1000]);
    assert_eq!(lab.out().header.window, 0);
    lab.ack(1000, 500);
    assert_eq!(lab.tcp.info().bytes_acked, 500);
    // A probe of the peer: its byte is refused, its ACK is not.
    lab.send(lab.header(1000, 1000), b"x");
    assert_eq!(lab.tcp.info().bytes_acked, 1000);
    assert_eq!(lab.out().header.ack, Some(lab.their(1000)));
}

/// The peer fills its window in each round trip of 100 ms, and the application reads all of it, or
/// nothing; the window in the end.
fn after_ten_round_trips(reads: bool, config: &Config) -> u64 {
    let mut lab = Lab::established(config);
    let mut offset = 0;
    for _ in 0..10 {
        let room = lab.tcp.info().rcv_wnd as u32;
        let end = offset + room - room % 1000;
        while offset < end {
            lab.data(offset, &[7; 1000]);
            offset += 1000;
            lab.all();
            if reads {
                while lab.read().is_ok_and(|data| !data.is_empty()) {}
                lab.all();
            }
        }
        lab.after(100);
    }
    lab.tcp.info().rcv_wnd
}

/// The buffer grows with what the application reads, up to its bound; of an application that does
/// not read it stays.
#[test]
fn the_window_grows_with_what_is_read() {
    let config = Config { receive_buffer: 3 << 20, ..config() };
    let grown = after_ten_round_trips(true, &config);
    assert!((3 << 20) - 2 * MSS as u64 <= grown && grown <= 3 << 20, "{grown}");
    assert!(after_ten_round_trips(false, &config) < MSS as u64);
    let fixed = Config { initial_receive_buffer: 64 << 10, receive_buffer: 64 << 10, ..config };
    let grown = after_ten_round_trips(true, &fixed);
    assert!(grown <= 64 << 10, "{grown}");
}

/// RFC 7323 section 2.2: a scaled window is told in units. A buffer that begins smaller than a unit
/// must not look closed for ever.
#[test]
fn a_tiny_buffer_that_may_grow_is_open() {
    for receive_buffer in [1 << 17, 6 << 20, 1 << 30] {
        let config = Config { receive_buffer, initial_receive_buffer: 5, ..config() };
        let mut lab = Lab::established(&config);
        lab.data(0, b"a");
        lab.after(50);
        assert_eq!(lab.read(), Ok(b"a".to_vec()));
        // Whatever the peer does, it learns of a window that is open.
        lab.data(1, b"b");
        lab.after(50);
        assert_eq!(lab.read(), Ok(b"b".to_vec()));
        lab.data(1, b"b");
        let told = lab.all().last().map(|out| out.header.window);
        assert!(told > Some(0), "{told:?} of {receive_buffer} bytes");
    }
}
