//! Blind attacks: RFC 5961.

use fullpipe_tcp::wire::{Control, Header, Timestamp};
use fullpipe_tcp::{Config, State};

use super::lab::{CLOCK, Lab, config};

fn reset(lab: &mut Lab, offset: u32) {
    let header = Header { control: Control::Rst, ack: None, ..lab.header(offset, 0) };
    lab.send(header, &[]);
}

/// RFC 5961 section 3.2: a reset in its exact place counts.
#[test]
fn an_exact_reset_counts() {
    let mut lab = Lab::established(&config());
    reset(&mut lab, 0);
    assert_eq!(lab.tcp.state(), State::Closed);
    lab.quiet();
}

/// RFC 5961 section 3.2: one elsewhere in the window is challenged.
#[test]
fn a_guessed_reset_is_challenged() {
    let mut lab = Lab::established(&config());
    reset(&mut lab, 1);
    let challenge = lab.out().header;
    assert_eq!((challenge.seq, challenge.ack), (lab.our(0), Some(lab.their(0))));
    assert_eq!(lab.tcp.state(), State::Established);
}

/// RFC 5961 section 3.2: one outside of the window is dropped.
#[test]
fn a_reset_outside_of_the_window_is_dropped() {
    let mut lab = Lab::established(&config());
    for offset in [0_u32.wrapping_sub(1), 0x4000_0000] {
        reset(&mut lab, offset);
        lab.quiet();
    }
    assert_eq!(lab.tcp.state(), State::Established);
}

/// RFC 5961 section 4.2: a SYN is challenged, wherever it is.
#[test]
fn a_syn_is_challenged() {
    let mut lab = Lab::established(&config());
    for offset in [0, 5, 0x4000_0000, 0_u32.wrapping_sub(7)] {
        let header = Header { control: Control::Syn, ack: None, ..lab.header(offset, 0) };
        lab.send(header, &[]);
        assert_eq!(lab.out().header.ack, Some(lab.their(0)), "{offset}");
        assert_eq!(lab.tcp.state(), State::Established);
    }
}

/// RFC 5961 section 5.2: an ACK that is older than the largest window is challenged, and its data
/// not taken; a younger one is merely old.
#[test]
fn an_old_ack_is_challenged() {
    let mut lab = Lab::established(&Config { send_buffer: 1 << 20, ..config() });
    for i in 0..80 {
        lab.write(1);
        lab.after(5);
        lab.ack(0, (i + 1) * 1000);
    }
    lab.data(0, b"x");
    assert_eq!(lab.tcp.readable(), 0, "80000 bytes ago, and the window was 65535");
    assert_eq!(lab.out().header.ack, Some(lab.their(0)));
    lab.send(lab.header(0, 20_000), b"y");
    assert_eq!(lab.read(), Ok(b"y".to_vec()));
}

/// RFC 5961 section 7: challenges are limited, so that two ends cannot be made to talk for ever.
#[test]
fn challenges_are_limited() {
    let mut lab = Lab::established(&config());
    let mut answers = 0;
    for _ in 0..1000 {
        reset(&mut lab, 1);
        answers += lab.all().len();
    }
    assert_eq!(answers, 10);
    lab.after(1000);
    reset(&mut lab, 1);
    assert_eq!(lab.all().len(), 1);
}

/// RFC 7323 section 5.3: TS.Recent follows acceptable segments alone. A forged SYN, or a segment
/// with a forged ACK, does not make PAWS refuse what the peer sends.
#[test]
fn a_forged_segment_does_not_set_ts_recent() {
    for (control, ack) in [(Control::Syn, None), (Control::None, None), (Control::None, Some(0))] {
        let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
        let config = Config { timestamps: true, ..config() };
        let mut lab = Lab::established_with(&config, Header { timestamp, ..Lab::syn() });
        let forged = Header {
            control,
            seq: lab.their(0).wrapping_sub(500),
            ack: ack.map(|ack: u32| lab.our(ack).wrapping_add(1 << 30)),
            timestamp: Some(Timestamp { value: 500 + (1 << 30), echo: 1 }),
            ..Header::default()
        };
        lab.send(forged, &[0; 1000]);
        lab.all();
        lab.clock = Some(600);
        lab.data(0, b"honest");
        assert_eq!(lab.read(), Ok(b"honest".to_vec()), "{control:?}, ACK {ack:?}");
    }
}
