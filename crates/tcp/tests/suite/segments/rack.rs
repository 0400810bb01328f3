//! The reordering window of RACK: RFC 8985 section 6.2, step 4.

use fullpipe_cc::{Algorithm, Rate};
use fullpipe_tcp::Config;
use fullpipe_tcp::wire::{Header, Timestamp};

use super::lab::{CLOCK, Lab, config};

/// Segments leave as soon as they are written. The round trip is 100 ms.
fn lab() -> Lab {
    Lab::established(&fast())
}

fn fast() -> Config {
    let algorithm = Algorithm::Fixed(Rate::from_bits_per_sec(1_000_000_000));
    Config { algorithm, ..config() }
}

/// The second of two segments arrives, a round trip after both left: the milliseconds until the
/// first is lost. Its copy has left then.
fn window(lab: &mut Lab, from: u32) -> u64 {
    lab.write(2);
    assert_eq!(lab.all().len(), 2);
    lab.after(100);
    lab.sack(from, &[(from + 1000, from + 2000)]);
    lab.quiet();
    let window = lab.timer().expect("the reordering timer");
    let out = lab.after(window);
    assert_eq!(lab.ranges(&out), [(from, 1000)]);
    window
}

/// The same, after which all is acknowledged: with a duplicate if the first had arrived as well.
fn repaired_window(lab: &mut Lab, from: &mut u32, is_duplicate: bool) -> u64 {
    let window = window(lab, *from);
    lab.after(100);
    let first = (*from, *from + 1000);
    *from += 2000;
    lab.sack(*from, if is_duplicate { std::slice::from_ref(&first) } else { &[] });
    window
}

/// Rounding adds up to a millisecond.
#[track_caller]
fn assert_quarters(window: u64, quarters: u64) {
    assert!((25 * quarters..=25 * quarters + 2).contains(&window), "{window} ms");
}

/// It is a quarter of the shortest round trip, one more for each round trip with a DSACK, and no
/// more than SRTT.
#[test]
fn a_copy_that_was_not_needed_widens_the_window() {
    let (mut lab, mut from) = (lab(), 0);
    for quarters in [1, 2, 3, 4, 4, 4] {
        assert_quarters(repaired_window(&mut lab, &mut from, true), quarters);
    }
}

/// After 16 recoveries without a DSACK it is as it was.
#[test]
fn a_wide_window_does_not_stay() {
    let (mut lab, mut from) = (lab(), 0);
    repaired_window(&mut lab, &mut from, true);
    let windows: Vec<u64> = (0..20).map(|_| repaired_window(&mut lab, &mut from, false)).collect();
    let wide = windows.iter().take_while(|window| **window >= 50).count();
    assert!((14..=16).contains(&wide), "{windows:?}");
    windows[..wide].iter().for_each(|&window| assert_quarters(window, 2));
    windows[wide..].iter().for_each(|&window| assert_quarters(window, 1));
}

/// Two DSACKs of one round trip count once.
#[test]
fn the_window_widens_once_in_a_round_trip() {
    let mut lab = lab();
    lab.write(3);
    lab.all();
    lab.after(100);
    lab.sack(0, &[(2000, 3000)]);
    let out = lab.after(30);
    assert_eq!(lab.ranges(&out), [(0, 1000), (1000, 1000)]);
    lab.write(1);
    lab.all();
    lab.after(90);
    lab.sack(1000, &[(0, 1000), (2000, 3000)]);
    lab.sack(3000, &[(1000, 2000)]);
    lab.after(10);
    lab.ack(0, 4000);
    let mut from = 4000;
    assert_quarters(repaired_window(&mut lab, &mut from, true), 2);
    assert_quarters(repaired_window(&mut lab, &mut from, false), 3);
}

/// Duplicates that the network made, and those of tail loss probes, say nothing of the window.
#[test]
fn other_duplicates_leave_the_window_alone() {
    // Nothing was sent again.
    let mut lab = lab();
    lab.write(2);
    lab.all();
    lab.after(100);
    lab.sack(2000, &[(0, 1000)]);
    let mut from = 2000;
    assert_quarters(repaired_window(&mut lab, &mut from, false), 1);
    // There are more of them than copies.
    let (mut lab, mut from) = (self::lab(), 0);
    repaired_window(&mut lab, &mut from, true);
    lab.sack(from, &[(0, 1000)]);
    lab.sack(from, &[(0, 1000)]);
    assert_quarters(repaired_window(&mut lab, &mut from, false), 2);

    let mut lab = self::lab();
    lab.write(1);
    lab.all();
    let out = lab.after(350);
    assert_eq!(lab.ranges(&out), [(0, 1000)], "a probe");
    lab.sack(1000, &[(0, 1000)]);
    let mut from = 1000;
    assert_quarters(repaired_window(&mut lab, &mut from, false), 1);
}

/// Section 6.2, step 3: the copy of a lost segment arrives after what was sent before it, which is
/// no reordering: three SACKs tell of the next loss at once.
#[test]
fn a_repair_is_no_reordering() {
    let mut lab = lab();
    for from in [0, 5000] {
        lab.write(5);
        lab.all();
        lab.after(100);
        lab.sack(from, &[(from + 1000, from + 4000)]);
        let out = lab.all();
        assert_eq!(lab.ranges(&out), [(from, 1000)]);
        lab.after(100);
        lab.ack(0, from + 5000);
    }
}

/// An original that comes after the copy has left is: by the time that it took, and if that is
/// long enough for the copy, by what the ACK echoes.
#[test]
fn a_late_original_is_reordering() {
    let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
    let syn = Header { timestamp, ..Lab::syn() };
    for (is_late, ms) in [(true, 20), (true, 120), (false, 120)] {
        let mut lab = Lab::established_with(&Config { timestamps: true, ..fast() }, syn);
        let mss = lab.tcp.info().snd_mss;
        let bytes = vec![1; 5 * mss as usize];
        lab.tcp.write(lab.now, &bytes).expect("room");
        lab.all();
        let original = lab.echo;
        lab.after(100);
        lab.sack(0, &[(mss, 4 * mss)]);
        let out = lab.all();
        assert_eq!(lab.ranges(&out)[0].0, 0);
        let copy = lab.echo;
        lab.after(ms);
        lab.echo = if is_late { original } else { copy };
        lab.ack(0, 5 * mss);
        lab.tcp.write(lab.now, &bytes).expect("room");
        lab.all();
        lab.after(100);
        lab.sack(5 * mss, &[(6 * mss, 9 * mss)]);
        assert_eq!(lab.all().is_empty(), is_late, "late {is_late}, {ms} ms");
    }
}

/// RFC 8985 section 7.2: once a recovery is over, the next tail is probed.
#[test]
fn a_tail_after_a_recovery_is_probed() {
    let (mut lab, mut from) = (lab(), 0);
    repaired_window(&mut lab, &mut from, false);
    lab.write(2);
    lab.all();
    let out = lab.after(250);
    assert_eq!(lab.ranges(&out), [(from + 1000, 1000)]);
    assert_eq!(lab.tcp.info().timeouts, 0);
}
