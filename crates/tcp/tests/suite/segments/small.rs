//! Segments of a byte: what they may cost the path and the memory.

use fullpipe_cc::{Algorithm, Rate};
use fullpipe_tcp::Config;
use fullpipe_tcp::wire::Header;

use super::lab::{Lab, config};

/// RFC 9293 section 3.8.2 and Linux count the window in packets: a sender of single bytes sends no
/// more of them than full segments.
#[test]
fn the_window_counts_packets() {
    for algorithm in [Algorithm::RENO, Algorithm::CUBIC, Algorithm::BBR3] {
        let mut lab = Lab::established(&Config { algorithm, ..config() });
        let mut packets = 0;
        for _ in 0..100 {
            // 500 writes a millisecond, and the driver runs after each.
            for _ in 0..500 {
                if lab.tcp.write(lab.now, b"x").is_ok() {
                    packets += lab.all().len();
                }
            }
            packets += lab.after(1).len();
        }
        let window = lab.tcp.info().snd_cwnd / 1000;
        assert!(packets as u64 <= window, "{algorithm}: {packets} in a window of {window}");
    }
}

/// A peer that asks for tiny segments, or an application that writes bytes, gets no more memory
/// than three send buffers.
#[test]
fn tiny_segments_take_no_more_memory_than_the_buffer() {
    let algorithm = Algorithm::Fixed(Rate::from_bits_per_sec(10_000_000_000));
    let send_buffer = 1 << 20;
    let config = Config { mtu: 1500, algorithm, send_buffer, ..config() };
    let syn = Header { mss: Some(48), window_scale: Some(10), ..Lab::syn() };
    let mut lab = Lab::established_with(&config, syn);
    let data = vec![1; send_buffer];
    lab.tcp.write(lab.now, &data).expect("room");
    lab.after(1000);
    assert!(lab.tcp.memory() < 3 * send_buffer, "{}", lab.tcp.memory());
    let syn = Header { window_scale: Some(10), ..Lab::syn() };
    let mut lab = Lab::established_with(&config, syn);
    for _ in 0..100_000 {
        let _ = lab.tcp.write(lab.now, b"x");
        lab.all();
        lab.after(0);
    }
    lab.after(10);
    assert!(lab.tcp.memory() < 3 * send_buffer, "{}", lab.tcp.memory());
}

/// A byte at the edge of the window takes up a byte, not the window.
#[test]
fn a_byte_at_the_edge_of_the_window_is_small() {
    let mut lab = Lab::established(&config());
    let before = lab.tcp.memory();
    let edge = lab.tcp.info().rcv_wnd as u32;
    lab.data(edge - 1, b"x");
    let after = lab.tcp.memory();
    assert!(after < before + 1000, "{before} -> {after}");
    let rest: Vec<u8> = (0..edge - 1).map(|i| i as u8).collect();
    for (i, part) in rest.chunks(1000).enumerate() {
        lab.data(i as u32 * 1000, part);
    }
    let read = lab.read().expect("all of it");
    assert_eq!((read.len(), read.last()), (edge as usize, Some(&b'x')));
    assert_eq!(read[..rest.len()], rest);
}

/// Linux's TCP_CORK: what is not a full segment waits until there is more, the cork is out, 200 ms
/// have passed or the stream ends.
#[test]
fn a_cork_holds_the_last_segment() {
    let write =
        |lab: &mut Lab, bytes| assert_eq!(lab.tcp.write(lab.now, &vec![1; bytes]), Ok(bytes));
    let mut lab = Lab::established(&config());
    lab.tcp.set_cork(lab.now, true);
    write(&mut lab, 300);
    lab.quiet();
    write(&mut lab, 800);
    assert_eq!(lab.out().range(&lab), (0, 1000), "a full one leaves");
    lab.quiet();
    lab.tcp.set_cork(lab.now, false);
    assert_eq!(lab.out().range(&lab), (1000, 100));
    lab.ack(0, 1100);

    lab.tcp.set_cork(lab.now, true);
    write(&mut lab, 10);
    assert_eq!(lab.timer(), Some(200));
    assert_eq!(lab.after(199), []);
    let out = lab.after(1);
    assert_eq!(lab.ranges(&out), [(1100, 10)]);
    lab.ack(0, 1110);

    write(&mut lab, 20);
    lab.quiet();
    lab.tcp.close(lab.now);
    assert_eq!(lab.out().range(&lab), (1110, 20), "the end does not wait");
}

/// Data that waits already when the cork is put in is held as well, for 200 ms from then on.
#[test]
fn a_cork_holds_what_waits_already() {
    let mut lab = Lab::established(&config());
    lab.window = 1500;
    lab.ack(0, 0);
    assert_eq!(lab.tcp.write(lab.now, &[1; 2500]), Ok(2500));
    // The peer's window is too small for the second one.
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    lab.tcp.set_cork(lab.now, true);
    lab.after(50);
    lab.window = 10_000;
    lab.ack(0, 1000);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(1000, 1000)], "the last half waits");
    lab.ack(0, 2000);
    assert_eq!(lab.after(149), []);
    let out = lab.after(1);
    assert_eq!(lab.ranges(&out), [(2000, 500)]);
}

/// The 200 ms are those of the segment that waits, and not of one before it that was filled.
#[test]
fn a_cork_counts_from_the_segment_that_waits() {
    let mut lab = Lab::established(&config());
    lab.tcp.set_cork(lab.now, true);
    assert_eq!(lab.tcp.write(lab.now, &[1; 900]), Ok(900));
    assert_eq!(lab.after(150), []);
    // The same segment goes on waiting.
    assert_eq!(lab.tcp.write(lab.now, &[1; 50]), Ok(50));
    assert_eq!(lab.timer(), Some(50));
    assert_eq!(lab.tcp.write(lab.now, &[1; 250]), Ok(250));
    assert_eq!(lab.out().range(&lab), (0, 1000));
    lab.ack(0, 1000);
    assert_eq!(lab.after(199), []);
    let out = lab.after(1);
    assert_eq!(lab.ranges(&out), [(1000, 200)]);
}
