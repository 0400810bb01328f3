//! Opening a connection.

use fullpipe_tcp::wire::{Control, Header, Timestamp};
use fullpipe_tcp::{Config, Error, State};

use super::lab::{IRS, ISS, Lab, config};

/// RFC 9293 section 3.5, figure 6.
#[test]
fn an_active_open_takes_three_segments() {
    let mut lab = Lab::active(&config());
    let syn = lab.out().header;
    assert_eq!((syn.seq, syn.ack, syn.control), (ISS, None, Control::Syn));
    assert_eq!((syn.mss, syn.window_scale, syn.sack_permitted), (Some(1000), Some(7), true));
    lab.quiet();
    assert_eq!(lab.tcp.state(), State::SynSent);
    lab.send(Header { ack: Some(ISS + 1), ..Lab::syn() }, &[]);
    let ack = lab.out().header;
    assert_eq!((ack.seq, ack.ack, ack.control), (ISS + 1, Some(IRS + 1), Control::None));
    assert_eq!(lab.tcp.state(), State::Established);
}

/// RFC 9293 section 3.5, figure 6, from the other side.
#[test]
fn a_passive_open_answers_with_a_syn() {
    let mut lab = Lab::passive(&config(), Lab::syn());
    let reply = lab.out().header;
    assert_eq!((reply.seq, reply.ack, reply.control), (ISS, Some(IRS + 1), Control::Syn));
    assert_eq!(lab.tcp.state(), State::SynReceived);
    lab.ack(0, 0);
    lab.quiet();
    assert_eq!(lab.tcp.state(), State::Established);
}

/// RFC 9293 section 3.5, figure 7.
#[test]
fn both_ends_may_open_at_the_same_time() {
    let mut lab = Lab::active(&config());
    lab.out();
    lab.send(Lab::syn(), &[]);
    assert_eq!(lab.tcp.state(), State::SynReceived);
    let reply = lab.out().header;
    assert_eq!((reply.seq, reply.ack, reply.control), (ISS, Some(IRS + 1), Control::Syn));
    lab.send(Header { ack: Some(ISS + 1), ..Lab::syn() }, &[]);
    assert_eq!(lab.tcp.state(), State::Established);
    assert_eq!(lab.out().header.ack, Some(IRS + 1));
}

/// RFC 9293 section 3.5, figure 8: the peer resets what an old duplicate SYN opened.
#[test]
fn an_old_duplicate_syn_is_reset_by_the_peer() {
    let mut lab = Lab::passive(&config(), Header { seq: 90, ..Lab::syn() });
    assert_eq!(lab.out().header.ack, Some(91));
    lab.send(Header { seq: 91, control: Control::Rst, ..Header::default() }, &[]);
    assert_eq!((lab.tcp.state(), lab.tcp.error()), (State::Closed, Some(Error::Refused)));
    lab.quiet();
}

/// RFC 9293 section 3.5.1, figure 9: the peer has a connection that this end knows nothing of.
#[test]
fn a_half_open_connection_is_reset_and_the_syn_goes_on() {
    let mut lab = Lab::active(&config());
    lab.out();
    lab.send(Header { seq: 300, ack: Some(100), window: 10, ..Header::default() }, &[]);
    let reset = lab.out().header;
    assert_eq!((reset.seq, reset.ack, reset.control), (100, None, Control::Rst));
    assert_eq!(lab.tcp.state(), State::SynSent);
    let again = lab.after(1000);
    assert_eq!(again[0].header.control, Control::Syn);
}

/// RFC 9293 section 3.10.7.3, second: a reset counts only if it acknowledges the SYN.
#[test]
fn a_refusal_has_to_acknowledge_the_syn() {
    let mut lab = Lab::active(&config());
    lab.out();
    let reset = Header { control: Control::Rst, ..Header::default() };
    lab.send(reset, &[]);
    lab.send(Header { ack: Some(ISS), ..reset }, &[]);
    lab.send(Header { ack: Some(ISS + 2), ..reset }, &[]);
    lab.quiet();
    assert_eq!(lab.tcp.state(), State::SynSent);
    lab.send(Header { ack: Some(ISS + 1), ..reset }, &[]);
    assert_eq!((lab.tcp.state(), lab.read()), (State::Closed, Err(Error::Refused)));
}

/// RFC 6298 sections 2.1 and 5.5: a second, doubled each time.
#[test]
fn a_syn_is_repeated_after_one_two_and_four_seconds() {
    let mut lab = Lab::active(&config());
    lab.out();
    for ms in [1000, 2000, 4000, 8000] {
        assert_eq!(lab.timer(), Some(ms));
        let out = lab.after(ms);
        assert_eq!((out.len(), out[0].header.control), (1, Control::Syn));
    }
}

/// RFC 6298 section 5.7: three seconds for the data after a repeated SYN.
#[test]
fn after_a_repeated_syn_the_timeout_is_three_seconds() {
    let mut lab = Lab::active(&Config { sack: false, ..config() });
    lab.out();
    lab.after(1000);
    lab.send(Header { ack: Some(ISS + 1), ..Lab::syn() }, &[]);
    lab.all();
    lab.write(1);
    lab.out();
    assert_eq!(lab.timer(), Some(3000));
}

/// RFC 9293 section 3.8.3: in the end a SYN is given up.
#[test]
fn nobody_answers_a_syn() {
    let mut lab = Lab::active(&config());
    lab.after(300_000);
    assert_eq!((lab.tcp.state(), lab.read()), (State::Closed, Err(Error::TimedOut)));
    assert_eq!(lab.tcp.poll_at(), None);
}

/// RFC 9293 section 3.10.7.4: a SYN again is answered with the SYN-ACK again.
#[test]
fn a_repeated_syn_gets_the_same_answer() {
    let mut lab = Lab::passive(&config(), Lab::syn());
    let first = lab.out();
    lab.after(10);
    lab.send(Lab::syn(), &[]);
    assert_eq!(lab.out(), first);
    lab.quiet();
}

/// RFC 9293 section 3.10.7.3, fourth: data on a SYN-ACK counts.
#[test]
fn a_syn_ack_may_carry_data() {
    let mut lab = Lab::active(&config());
    lab.out();
    lab.send(Header { ack: Some(ISS + 1), ..Lab::syn() }, b"hello");
    assert_eq!(lab.read(), Ok(b"hello".to_vec()));
    assert_eq!(lab.out().header.ack, Some(IRS + 6));
}

/// RFC 9293 section 3.10.7.4, fifth, SYN-RECEIVED: an ACK of something else is reset.
#[test]
fn a_wrong_ack_of_a_syn_ack_is_reset() {
    let mut lab = Lab::passive(&config(), Lab::syn());
    lab.out();
    for wrong in [ISS, ISS + 2] {
        lab.send(Header { ack: Some(wrong), ..lab.header(0, 0) }, &[]);
        let reset = lab.out().header;
        assert_eq!((reset.seq, reset.control), (wrong, Control::Rst));
        assert_eq!(lab.tcp.state(), State::SynReceived);
    }
}

/// The same where the segment is outside of the window, or older by its timestamp: it is of
/// another connection, and an ACK would begin an exchange of ACKs.
#[test]
fn a_wrong_ack_outside_of_the_window_is_reset() {
    let config = Config { timestamps: true, ..config() };
    let stamp = |value| Some(Timestamp { value, echo: 0 });
    let mut lab = Lab::passive(&config, Header { timestamp: stamp(1000), ..Lab::syn() });
    lab.out();
    for (offset, value) in [(1_000_000, 2000), (0, 1), (1_000_000, 1)] {
        for _ in 0..30 {
            let header = Header { timestamp: stamp(value), ..lab.header(offset, 77) };
            lab.send(header, &[]);
            let reset = lab.out().header;
            assert_eq!((reset.seq, reset.control), (ISS + 78, Control::Rst));
        }
    }
    // One of this connection is not: it is the peer's next ACK that counts.
    lab.send(Header { timestamp: stamp(2000), ..lab.header(1_000_000, 0) }, &[]);
    assert_eq!(lab.out().header.control, Control::None);
    lab.send(Header { timestamp: stamp(2000), ..lab.header(0, 0) }, &[]);
    assert_eq!(lab.tcp.state(), State::Established);
}

/// RFC 9293 section 3.10.4, SYN-SENT: the connection is deleted.
#[test]
fn a_close_before_the_answer_ends_it() {
    let mut lab = Lab::active(&config());
    lab.out();
    lab.tcp.close(lab.now);
    assert_eq!((lab.tcp.state(), lab.tcp.poll_at()), (State::Closed, None));
}

/// RFC 9293 section 3.10.4, SYN-RECEIVED: the FIN waits for the handshake.
#[test]
fn a_close_in_the_handshake_waits_for_its_end() {
    let mut lab = Lab::passive(&config(), Lab::syn());
    lab.out();
    lab.tcp.close(lab.now);
    lab.quiet();
    lab.ack(0, 0);
    assert_eq!(lab.tcp.state(), State::FinWait1);
    let fin = lab.out().header;
    assert_eq!((fin.seq, fin.control), (ISS + 1, Control::Fin));
}

/// RFC 9293 section 3.10.7.4: the ACK of the handshake may carry data.
#[test]
fn the_last_ack_of_the_handshake_may_carry_data() {
    let mut lab = Lab::passive(&config(), Lab::syn());
    lab.out();
    lab.data(0, b"request");
    assert_eq!(lab.tcp.state(), State::Established);
    assert_eq!(lab.read(), Ok(b"request".to_vec()));
}
