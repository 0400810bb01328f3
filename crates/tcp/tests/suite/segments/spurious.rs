//! Losses that were none, and those that no duplicate can undo.

use fullpipe_cc::Algorithm;
use fullpipe_tcp::Config;

use super::lab::{Lab, config};

fn reno() -> Config {
    Config { algorithm: Algorithm::RENO, ..config() }
}

/// RFC 3708 section 3: a DSACK of a segment that was sent once is a duplicate of the network's.
#[test]
fn a_duplicate_of_the_networks_undoes_nothing() {
    let mut lab = Lab::established(&reno());
    lab.fly(10);
    lab.after(40);
    let before = lab.tcp.info().snd_cwnd;
    lab.sack(0, &[(1000, 6000)]);
    let reduced = lab.tcp.info().snd_cwnd;
    assert!(reduced < before);
    let out = lab.after(20);
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    lab.sack(0, &[(3000, 4000), (1000, 6000)]);
    let after = lab.tcp.info().snd_cwnd;
    assert!(after < before, "{before}, after the loss {reduced}, after a duplicate {after}");
    // Below the ACK, where the flight does not know the segment any more.
    lab.ack(0, 6000);
    lab.sack(6000, &[(2000, 3000)]);
    let after = lab.tcp.info().snd_cwnd;
    assert!(after < before, "{before}, after the loss {reduced}, after a duplicate {after}");
}

/// The same of the copy that a tail loss probe was: it left before the loss was found.
#[test]
fn a_duplicate_of_a_probe_undoes_no_loss() {
    let mut lab = Lab::established(&reno());
    lab.fly(10);
    lab.after(40);
    let before = lab.tcp.info().snd_cwnd;
    let out = lab.after(150);
    assert_eq!(lab.ranges(&out), [(9000, 1000)], "a tail loss probe");
    // The originals were late, and the first is lost.
    lab.sack(0, &[(1000, 10_000)]);
    let reduced = lab.tcp.info().snd_cwnd;
    let out = lab.after(5);
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    lab.sack(0, &[(9000, 10_000), (1000, 10_000)]);
    let after = lab.tcp.info().snd_cwnd;
    assert!(after < before, "{before}, after the loss {reduced}, after the duplicate {after}");
}

/// RFC 8985 section 6.2, step 3: blocks come newest first (RFC 2018 section 4), and two holes in
/// one ACK are no reordering.
#[test]
fn two_new_blocks_in_one_ack_are_no_reordering() {
    let mut lab = Lab::established(&config());
    lab.fly(10);
    lab.after(40);
    // 0 and 3000 are lost.
    lab.sack(0, &[(4000, 5000), (1000, 3000)]);
    let out = lab.all();
    assert_eq!(lab.ranges(&out).first(), Some(&(0, 1000)), "three are SACKed: lost at once");
}

/// RFC 8985 section 6.2 leaves copies aside; Linux counts an original that arrives after its copy
/// has left as reordering, and so the window opens.
#[test]
fn an_original_that_comes_after_its_copy_is_reordering() {
    let mut lab = Lab::established(&config());
    lab.fly(10);
    lab.after(40);
    lab.sack(0, &[(1000, 4000)]);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    // Sooner than the copy can be answered.
    lab.after(20);
    lab.ack(0, 5000);
    lab.sack(5000, &[(6000, 9000)]);
    let out = lab.all();
    assert_eq!(lab.ranges(&out), [], "three SACKs are no loss any more");
}

/// Everything arrives before the repair has left: there was no loss (Linux: tcp_packet_delayed).
#[test]
fn a_loss_that_was_never_repaired_and_was_none_is_undone() {
    let mut lab = Lab::established(&reno());
    lab.fly(10);
    lab.after(40);
    let before = lab.tcp.info().snd_cwnd;
    lab.sack(0, &[(1000, 6000)]);
    let reduced = lab.tcp.info().snd_cwnd;
    lab.ack(0, 10_000);
    let info = lab.tcp.info();
    assert_eq!(info.total_retrans, 0);
    assert!(info.snd_cwnd >= before, "{before}, {reduced}, {}", info.snd_cwnd);
}
