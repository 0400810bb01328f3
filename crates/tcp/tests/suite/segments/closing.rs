//! The end of a connection.

use fullpipe_tcp::wire::{Control, Header};
use fullpipe_tcp::{Config, Error, State};

use super::lab::{Lab, MSS, config};

fn closed() -> Lab {
    let mut lab = Lab::established(&config());
    lab.tcp.close(lab.now);
    lab
}

/// RFC 9293 section 3.6, figure 12, the end that closes first; TIME-WAIT is 2 MSL.
#[test]
fn an_active_close() {
    let mut lab = closed();
    assert_eq!(lab.tcp.state(), State::FinWait1);
    let fin = lab.out().header;
    assert_eq!((fin.seq, fin.control), (lab.our(0), Control::Fin));
    lab.ack(0, 1);
    assert_eq!(lab.tcp.state(), State::FinWait2);
    lab.fin(0, 1);
    assert_eq!(lab.tcp.state(), State::TimeWait);
    assert_eq!(lab.out().header.ack, Some(lab.their(1)));
    assert_eq!(lab.read(), Ok(vec![]));
    lab.after(59_999);
    assert_eq!(lab.tcp.state(), State::TimeWait);
    lab.after(1);
    assert_eq!((lab.tcp.state(), lab.tcp.error()), (State::Closed, None));
}

/// RFC 9293 section 3.6, figure 12, the other end.
#[test]
fn a_passive_close() {
    let mut lab = Lab::established(&config());
    lab.fin(0, 0);
    assert_eq!(lab.tcp.state(), State::CloseWait);
    assert_eq!(lab.out().header.ack, Some(lab.their(1)));
    assert_eq!(lab.read(), Ok(vec![]));
    // This end may still write.
    lab.write(1);
    assert_eq!(lab.out().payload.len(), MSS);
    lab.tcp.close(lab.now);
    assert_eq!(lab.tcp.state(), State::LastAck);
    assert_eq!(lab.out().header.control, Control::Fin);
    lab.ack(1, 1001);
    assert_eq!((lab.tcp.state(), lab.tcp.error()), (State::Closed, None));
}

/// RFC 9293 section 3.6, figure 13.
#[test]
fn both_close_at_the_same_time() {
    let mut lab = closed();
    lab.out();
    lab.fin(0, 0);
    assert_eq!(lab.tcp.state(), State::Closing);
    assert_eq!(lab.out().header.ack, Some(lab.their(1)));
    lab.ack(1, 1);
    assert_eq!(lab.tcp.state(), State::TimeWait);
}

/// RFC 9293 section 3.10.7.4: a FIN that acknowledges ours.
#[test]
fn a_fin_may_acknowledge_a_fin() {
    let mut lab = closed();
    lab.out();
    lab.fin(0, 1);
    assert_eq!(lab.tcp.state(), State::TimeWait);
}

/// RFC 9293 section 3.6: an end that has closed reads on.
#[test]
fn a_half_close_reads_on() {
    let mut lab = closed();
    lab.out();
    lab.ack(0, 1);
    lab.send(lab.header(0, 1), b"late");
    assert_eq!(lab.read(), Ok(b"late".to_vec()));
    assert_eq!(lab.tcp.write(lab.now, b"x"), Err(Error::Closed));
}

/// RFC 9293 section 3.10.4: the FIN comes after all that was written, with the last of it.
#[test]
fn a_fin_comes_with_the_last_data() {
    let mut lab = Lab::established(&config());
    lab.write(2);
    lab.tcp.close(lab.now);
    let out = lab.after(50);
    assert_eq!(lab.ranges(&out), [(0, 1000), (1000, 1000)]);
    assert_eq!((out[0].header.control, out[1].header.control), (Control::None, Control::Fin));
    lab.ack(0, 2000);
    assert_eq!(lab.tcp.state(), State::FinWait1, "the FIN is not acknowledged");
    lab.ack(0, 2001);
    assert_eq!((lab.tcp.state(), lab.tcp.info().bytes_acked), (State::FinWait2, 2000));
}

/// RFC 6298 section 5: a FIN is sent again.
#[test]
fn a_lost_fin_is_repeated() {
    let mut lab = closed();
    lab.out();
    let out = lab.after(3000);
    assert!(out.len() >= 3, "{}", out.len());
    assert!(out.iter().all(|out| out.header.control == Control::Fin && out.range(&lab) == (0, 0)));
    lab.ack(0, 1);
    assert_eq!(lab.tcp.state(), State::FinWait2);
}

/// RFC 9293 section 3.10.7.4, eighth: a FIN counts in its place.
#[test]
fn an_early_fin_waits_for_the_data() {
    let mut lab = Lab::established(&config());
    lab.fin(5, 0);
    assert_eq!(lab.tcp.state(), State::Established);
    lab.data(0, b"hello");
    assert_eq!(lab.tcp.state(), State::CloseWait);
    assert_eq!((lab.read(), lab.read()), (Ok(b"hello".to_vec()), Ok(vec![])));
    assert_eq!(lab.all().last().map(|out| out.header.ack), Some(Some(lab.their(6))));
}

/// RFC 9293 section 3.10.7.4: what claims a place after an early FIN does not move the end.
#[test]
fn data_past_an_early_fin_is_cut() {
    let mut lab = Lab::established(&config());
    lab.fin(5, 0);
    lab.data(0, b"hello, and more");
    assert_eq!(lab.tcp.state(), State::CloseWait);
    assert_eq!((lab.read(), lab.read()), (Ok(b"hello".to_vec()), Ok(vec![])));
    assert_eq!(lab.all().last().map(|out| out.header.ack), Some(Some(lab.their(6))));
}

/// RFC 9293 section 3.10.7.4: a FIN again is acknowledged, and TIME-WAIT begins anew.
#[test]
fn time_wait_answers_a_repeated_fin() {
    let mut lab = closed();
    lab.out();
    lab.fin(0, 1);
    lab.after(50_000);
    lab.fin(0, 1);
    assert_eq!(lab.out().header.ack, Some(lab.their(1)));
    lab.after(50_000);
    assert_eq!(lab.tcp.state(), State::TimeWait);
    lab.after(10_000);
    assert_eq!(lab.tcp.state(), State::Closed);
}

/// RFC 1337 section 3: a reset does not end TIME-WAIT.
#[test]
fn time_wait_ignores_resets() {
    let mut lab = closed();
    lab.out();
    lab.fin(0, 1);
    lab.all();
    lab.send(Header { control: Control::Rst, ..lab.header(1, 1) }, &[]);
    assert_eq!(lab.tcp.state(), State::TimeWait);
}

/// RFC 9293 section 3.10.5: an abort is a reset.
#[test]
fn an_abort_resets() {
    let mut lab = Lab::established(&config());
    lab.write(1);
    lab.out();
    lab.tcp.abort();
    let reset = lab.out().header;
    assert_eq!((reset.seq, reset.control), (lab.our(1000), Control::Rst));
    assert_eq!((lab.tcp.state(), lab.read()), (State::Closed, Err(Error::Aborted)));
    lab.quiet();
}

/// RFC 2525 section 2.17: data that nobody will read is not acknowledged but reset.
#[test]
fn data_for_nobody_resets() {
    let mut lab = Lab::established(&config());
    lab.tcp.detach(lab.now);
    assert_eq!(lab.out().header.control, Control::Fin);
    lab.ack(0, 1);
    lab.send(lab.header(0, 1), b"x");
    assert_eq!(lab.out().header.control, Control::Rst);

    let mut lab = Lab::established(&config());
    lab.data(0, b"unread");
    lab.all();
    lab.tcp.detach(lab.now);
    assert_eq!(lab.out().header.control, Control::Rst);
}

/// A peer that never closes does not keep a connection that nobody has: as Linux's tcp_fin_timeout.
#[test]
fn an_orphan_does_not_wait_for_ever() {
    let mut lab = Lab::established(&config());
    lab.tcp.detach(lab.now);
    lab.out();
    lab.ack(0, 1);
    assert_eq!(lab.tcp.state(), State::FinWait2);
    lab.after(60_000);
    assert_eq!(lab.tcp.state(), State::Closed);
}

/// RFC 9293 section 3.10.7.4, sixth and seventh: nothing comes after a FIN.
#[test]
fn nothing_comes_after_a_fin() {
    let mut lab = Lab::established(&config());
    lab.fin(0, 0);
    lab.all();
    lab.data(1, b"more");
    assert_eq!(lab.out().header.ack, Some(lab.their(1)));
    assert_eq!(lab.read(), Ok(vec![]));
}

/// RFC 9293 section 3.8.3: data without an answer ends the connection.
#[test]
fn a_peer_that_is_gone() {
    let timeout = fullpipe_cc::Duration::from_secs(30);
    let mut lab = Lab::established(&Config { user_timeout: timeout, ..config() });
    lab.write(1);
    lab.after(100_000);
    assert_eq!(lab.read(), Err(Error::TimedOut));
}
