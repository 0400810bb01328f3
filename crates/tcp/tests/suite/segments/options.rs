//! Options: segment size, window scale, timestamps.

use fullpipe_tcp::wire::{Control, Header, Timestamp};
use fullpipe_tcp::{Config, State};

use super::lab::{CLOCK, ISS, Lab, MS, config};

fn stamped() -> (Config, Header) {
    let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
    (Config { timestamps: true, ..config() }, Header { timestamp, ..Lab::syn() })
}

/// RFC 9293 section 3.7.1: the peer's segment size, or 536.
#[test]
fn segments_are_as_large_as_the_peer_wants() {
    for (mss, size) in [(Some(700), 700), (Some(5000), 1000), (None, 536)] {
        let mut lab = Lab::established_with(&config(), Header { mss, ..Lab::syn() });
        lab.write(3);
        assert_eq!(lab.out().payload.len(), size, "{mss:?}");
    }
}

/// RFC 9293 section 3.7.1 and Linux's TCP_MIN_SND_MSS: a peer cannot ask for segments of a byte.
#[test]
fn a_tiny_segment_size_is_not_obeyed() {
    for mss in [0, 1, 47] {
        let mut lab = Lab::established_with(&config(), Header { mss: Some(mss), ..Lab::syn() });
        lab.write(1);
        assert_eq!(lab.out().payload.len(), 48);
    }
}

/// RFC 9293 section 3.7.1, Eff.snd.MSS: options take their part of the segment size.
#[test]
fn timestamps_take_their_part_of_a_segment() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.write(3);
    assert_eq!(lab.out().payload.len(), 1000 - 12);
}

/// RFC 7323 section 2.2: scaling needs both ends, and the window of a SYN is not scaled.
#[test]
fn the_window_is_scaled_if_both_ends_want_it() {
    for (scale, window) in [(Some(3), 8 * 2000), (None, 2000)] {
        let syn = Header { window_scale: scale, window: 2000, ..Lab::syn() };
        let mut lab = Lab::established_with(&config(), syn);
        assert_eq!(lab.tcp.info().snd_wnd, 2000, "the SYN's own");
        lab.ack(0, 0);
        assert_eq!(lab.tcp.info().snd_wnd, window);
        assert_eq!(lab.tcp.info().wscale, scale.is_some());
    }
}

/// RFC 7323 section 2.3: the window that this end tells is shifted by what its SYN said.
#[test]
fn the_told_window_is_shifted() {
    for (initial, window) in [(128 << 10, 128 << 10), (usize::MAX, 6 << 20)] {
        let mut lab = Lab::active(&Config { initial_receive_buffer: initial, ..config() });
        let syn = lab.out().header;
        assert_eq!(syn.window, u16::MAX, "the window of a SYN is not shifted");
        lab.send(Header { ack: Some(ISS + 1), ..Lab::syn() }, &[]);
        let told = u64::from(lab.out().header.window) << syn.window_scale.expect("an offer");
        assert_eq!(told, window);
    }
}

/// RFC 7323 section 3.2: on every segment but a reset, with the peer's newest.
#[test]
fn every_segment_has_timestamps() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.clock = Some(510);
    lab.data(0, b"x");
    let at = CLOCK + (lab.now.as_nanos() / MS.as_nanos()) as u32;
    assert_eq!(lab.out().header.timestamp, Some(Timestamp { value: at, echo: 510 }));
    lab.tcp.abort();
    assert_eq!(lab.out().header.timestamp, None);
}

/// RFC 7323 section 3.2: a segment without them is dropped.
#[test]
fn a_segment_without_timestamps_is_dropped() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.clock = None;
    lab.data(0, b"x");
    lab.quiet();
    assert_eq!(lab.tcp.readable(), 0);
}

/// RFC 7323 section 5.3, R1: an older timestamp is that of an old duplicate; it is answered and
/// dropped.
#[test]
fn paws_drops_old_duplicates() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.clock = Some(600);
    lab.data(0, b"new");
    lab.all();
    lab.clock = Some(599);
    lab.data(3, b"old");
    assert_eq!(lab.out().header.ack, Some(lab.their(3)));
    assert_eq!(lab.read(), Ok(b"new".to_vec()));
}

/// RFC 7323 section 5.2: timestamps wrap, too.
#[test]
fn timestamps_wrap() {
    let (config, syn) = stamped();
    let timestamp = Some(Timestamp { value: u32::MAX - 1, echo: CLOCK });
    let mut lab = Lab::established_with(&config, Header { timestamp, ..syn });
    lab.clock = Some(3);
    lab.data(0, b"x");
    assert_eq!(lab.read(), Ok(b"x".to_vec()));
}

/// RFC 7323 section 5.3: a reset is not tested.
#[test]
fn an_old_timestamp_does_not_save_from_a_reset() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.clock = Some(499);
    lab.send(Header { control: Control::Rst, ..lab.header(0, 0) }, &[]);
    assert_eq!(lab.tcp.state(), State::Closed);
}

/// RFC 7323 section 5.5: after 24 days the peer's old timestamp says nothing.
#[test]
fn a_timestamp_counts_for_24_days() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.clock = Some(499);
    lab.now += MS.times(25 * 24 * 3600 * 1000);
    lab.data(0, b"x");
    assert_eq!(lab.read(), Ok(b"x".to_vec()));
}

/// RFC 7323 section 4.3: out of order data does not change what is echoed.
#[test]
fn the_echo_is_of_the_segment_that_advanced() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.clock = Some(510);
    lab.data(0, b"a");
    lab.all();
    lab.clock = Some(530);
    lab.data(2, b"c");
    assert_eq!(lab.out().header.timestamp.map(|t| t.echo), Some(510), "there is a hole");
    lab.clock = Some(540);
    lab.data(1, b"b");
    assert_eq!(lab.out().header.timestamp.map(|t| t.echo), Some(540));
}

/// RFC 7323 section 4.1: the round trip of a repeated segment, by its timestamp.
#[test]
fn a_timestamp_measures_a_retransmission() {
    let (config, syn) = stamped();
    let mut lab = Lab::established_with(&config, syn);
    lab.write(1);
    lab.all();
    // The tail loss probe repeats it.
    let probe = lab.after(3000);
    assert!(!probe.is_empty());
    let before = lab.tcp.info().rtt;
    lab.after(10);
    lab.ack(0, 988);
    lab.ack(0, 1000);
    assert_ne!(lab.tcp.info().rtt, before);
}
