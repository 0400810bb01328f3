//! Explicit congestion notification: RFC 3168.

use fullpipe_cc::Algorithm;
use fullpipe_tcp::Config;
use fullpipe_tcp::wire::{Ecn, Header};

use super::lab::{ISS, Lab, config};

fn capable() -> Config {
    Config { ecn: true, algorithm: Algorithm::RENO, ..config() }
}

fn marked() -> Lab {
    Lab::established_with(&capable(), Header { ece: true, ..Lab::syn() })
}

/// Section 6.1.1: a SYN offers with both bits, a SYN-ACK agrees with one.
#[test]
fn both_ends_agree() {
    let mut lab = Lab::active(&capable());
    let syn = lab.out().header;
    assert_eq!((syn.ece, syn.cwr, syn.ecn), (true, true, Ecn::NotEct));
    for (ece, cwr, agreed) in [(true, false, true), (false, false, false), (true, true, false)] {
        let lab = Lab::established_with(&capable(), Header { ece, cwr, ..Lab::syn() });
        assert_eq!(lab.tcp.info().ecn, agreed);
    }
    let mut lab = Lab::passive(&capable(), Header { ece: true, cwr: true, ..Lab::syn() });
    let reply = lab.out().header;
    assert_eq!((reply.seq, reply.ece, reply.cwr), (ISS, true, false));
    let mut lab = Lab::passive(&capable(), Lab::syn());
    assert!(!lab.out().header.ece);
}

/// Section 6.1.3: a mark is echoed until the sender says that it has slowed down.
#[test]
fn a_mark_is_echoed_until_it_is_answered() {
    let mut lab = marked();
    lab.send(Header { ecn: Ecn::Ce, ..lab.header(0, 0) }, b"a");
    assert!(lab.out().header.ece);
    lab.send(Header { ecn: Ecn::Ect0, ..lab.header(1, 0) }, b"b");
    assert!(lab.out().header.ece, "it goes on");
    lab.send(Header { cwr: true, ..lab.header(2, 0) }, b"c");
    assert!(!lab.out().header.ece);
}

/// Section 6.1.2: the window shrinks once a round trip, and the next new data says so.
#[test]
fn an_echo_shrinks_the_window_once() {
    let mut lab = marked();
    lab.fly(8);
    let before = lab.tcp.info().snd_cwnd;
    lab.send(Header { ece: true, ..lab.header(0, 1000) }, &[]);
    let after = lab.tcp.info().snd_cwnd;
    assert!(after < before, "{after} of {before}");
    lab.send(Header { ece: true, ..lab.header(0, 2000) }, &[]);
    assert!(lab.tcp.info().snd_cwnd >= after, "once for a window of data");
    lab.ack(0, 8000);
    lab.write(2);
    let out = lab.after(50);
    assert_eq!((out[0].header.cwr, out[1].header.cwr), (true, false));
    assert_eq!(lab.tcp.info().delivered_ce, 1);
}

/// Sections 6.1.4 to 6.1.6: new data is capable; ACKs, retransmissions and probes are not.
#[test]
fn only_new_data_is_capable() {
    let mut lab = marked();
    lab.data(0, b"x");
    assert_eq!(lab.out().header.ecn, Ecn::NotEct, "an ACK");
    lab.write(1);
    assert_eq!(lab.out().header.ecn, Ecn::Ect0);
    let again = lab.after(5000);
    assert!(again.len() >= 2 && again.iter().all(|out| out.header.ecn == Ecn::NotEct));
}

/// Section 5: where the algorithm does not answer marks, nothing is marked as capable.
#[test]
fn an_algorithm_that_does_not_answer_is_not_capable() {
    let config = Config { algorithm: Algorithm::BBR1, ..capable() };
    let mut lab = Lab::established_with(&config, Header { ece: true, ..Lab::syn() });
    lab.write(1);
    assert_eq!(lab.out().header.ecn, Ecn::NotEct);
}

/// Section 6.1.2: the peer waits for the answer to its echo, whatever answers marks from now on.
#[test]
fn an_echo_is_answered_after_a_change_of_the_algorithm() {
    let mut lab = marked();
    lab.fly(8);
    lab.send(Header { ece: true, ..lab.header(0, 8000) }, &[]);
    lab.tcp.set_congestion(lab.now, Algorithm::BBR1);
    lab.write(2);
    let out = lab.after(50);
    let told = |i: usize| (out[i].header.cwr, out[i].header.ecn);
    assert_eq!([told(0), told(1)], [(true, Ecn::NotEct), (false, Ecn::NotEct)]);
}
