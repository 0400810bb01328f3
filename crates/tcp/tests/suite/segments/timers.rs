//! The times at which timers fire, and what they do then.

use fullpipe_cc::{Algorithm, Duration, Rate};
use fullpipe_tcp::wire::{Header, Timestamp};
use fullpipe_tcp::{Config, State};

use super::lab::{CLOCK, Lab, MS, config};

fn reno() -> Config {
    Config { algorithm: Algorithm::RENO, ..config() }
}

/// A connection whose round trip is `rtt` milliseconds, measured with `rounds` times `segments`;
/// the place up to which all is acknowledged.
fn measured(config: &Config, rtt: u64, rounds: usize, segments: usize) -> (Lab, u32) {
    let timestamp = config.timestamps.then_some(Timestamp { value: 500, echo: CLOCK });
    let mut lab = Lab::active(config);
    lab.out();
    lab.after(rtt);
    let ack = Some(lab.iss.wrapping_add(1));
    lab.clock = timestamp.map(|timestamp| timestamp.value);
    lab.send(Header { ack, timestamp, ..Lab::syn() }, &[]);
    lab.all();
    let bytes = segments * lab.tcp.info().snd_mss as usize;
    let mut acked = 0;
    for _ in 0..rounds {
        lab.tcp.write(lab.now, &vec![0; bytes]).expect("room");
        lab.after(rtt);
        acked += bytes as u32;
        lab.clock = lab.clock.map(|clock| clock + rtt as u32);
        lab.ack(0, acked);
    }
    (lab, acked)
}

/// Runs until the connection is over; the milliseconds, and the number of segments that left.
fn until_the_end(lab: &mut Lab) -> (u64, usize) {
    let start = lab.now;
    let mut segments = lab.all().len();
    while lab.tcp.state() != State::Closed {
        let at = lab.tcp.poll_at().expect("a timer");
        lab.now = lab.now.max(at);
        lab.tcp.on_timer(lab.now);
        segments += lab.all().len();
    }
    (lab.now.since(start).as_nanos() / 1_000_000, segments)
}

/// RFC 8985 section 7.2: a probe comes at the timeout's time if it would come later, so one lost
/// segment is probed and no timeout.
#[test]
fn a_single_lost_segment_is_probed() {
    let mut lab = Lab::established(&reno());
    lab.write(1);
    lab.all();
    let before = lab.tcp.info().snd_cwnd;
    let out = lab.after(350);
    assert_eq!(lab.ranges(&out), [(0, 1000)]);
    let info = lab.tcp.info();
    assert_eq!((info.timeouts, info.snd_cwnd), (0, before));
    for rtt in [1, 10, 50, 190, 250, 500] {
        let (mut lab, acked) = measured(&reno(), rtt, 50, 1);
        lab.write(1);
        let out = lab.after(rtt * 2 + 210);
        assert_eq!(lab.ranges(&out), [(acked, 1000); 2], "{rtt} ms");
        assert_eq!(lab.tcp.info().timeouts, 0, "{rtt} ms");
    }
}

/// RFC 8985 section 6.3: at a timeout the first segment is lost, and what left longer ago than a
/// round trip and the reordering window; what has just left is not.
#[test]
fn a_timeout_does_not_lose_what_has_just_left() {
    let algorithm = Algorithm::Fixed(Rate::from_bits_per_sec(100_000_000));
    let mut lab = Lab::established(&Config { algorithm, ..config() });
    lab.fly(10);
    lab.after(40);
    // The head is lost, and its copy.
    lab.sack(0, &[(1000, 10_000)]);
    assert_eq!(lab.all().len(), 1);
    // New data leaves now and then, and nothing of it is answered yet.
    let mut left = Vec::new();
    while lab.tcp.info().timeouts == 0 {
        lab.write(1);
        let now = lab.now;
        left.extend(lab.after(10).iter().map(|out| (now, out.range(&lab).0)));
        assert!(left.len() < 100);
    }
    // The first is on its way again. The shortest round trip is 100 ms.
    let old = left.iter().filter(|(at, _)| lab.now.since(*at) >= MS.times(110)).count() as u64;
    let new = left.iter().filter(|(at, _)| lab.now.since(*at) < MS.times(90)).count();
    let info = lab.tcp.info();
    let lost = (info.lost_bytes + info.bytes_retrans) / 1000;
    assert!(old > 0 && new > 0, "{left:?}");
    assert!((old..old + 4).contains(&lost), "{lost} of {} segments: {left:?}", left.len());
}

/// Linux (rearm_timer in tcp_xmit_retransmit_queue) starts the timer anew when the head is sent
/// again: a second copy has its round trip before the timeout.
#[test]
fn the_timer_leaves_a_copy_a_round_trip() {
    let (mut lab, off) = measured(&config(), 600, 30, 4);
    lab.write(10);
    let out = lab.after(600);
    let all = off + out.len() as u32 * 1000;
    // The first is lost.
    lab.sack(off, &[(off + 1000, all)]);
    let out = lab.after(5);
    assert_eq!(lab.ranges(&out)[0], (off, 1000));
    lab.write(5);
    let new = lab.after(595).len() as u32;
    // The copy is lost as well; what left after it arrives.
    lab.sack(off, &[(off + 1000, all + 1000 * new)]);
    let out = lab.after(160);
    assert_eq!(lab.ranges(&out)[0], (off, 1000));
    let out = lab.after(430);
    assert_eq!(lab.tcp.info().timeouts, 0, "{:?}", lab.ranges(&out));
}

/// The first segment of a burst is lost, once: no timeout comes before its repair can be answered.
#[test]
fn one_loss_at_the_head_of_a_burst_is_no_timeout() {
    for algorithm in [Algorithm::BBR3, Algorithm::CUBIC] {
        for timestamps in [false, true] {
            for rtt in [100, 190, 250, 300, 600] {
                let config = Config { algorithm, timestamps, ..config() };
                let (mut lab, acked) = measured(&config, rtt, 40, 4);
                let mss = lab.tcp.info().snd_mss;
                lab.tcp.write(lab.now, &vec![0; 8 * mss as usize]).expect("room");
                lab.after(rtt);
                for i in 2..=8 {
                    lab.sack(acked, &[(acked + mss, acked + i * mss)]);
                }
                let out = lab.after(rtt);
                let case = format!("{algorithm}, timestamps {timestamps}, {rtt} ms");
                assert!(lab.ranges(&out).iter().any(|range| range.0 == acked), "{case}");
                assert_eq!(lab.tcp.info().timeouts, 0, "{case}");
            }
        }
    }
}

/// RFC 6298 section 5 (its last note) and Karn's algorithm: the doubled timeout stays until a
/// segment that was sent once is acknowledged; else a path that has become longer than the timeout
/// is never measured.
#[test]
fn a_doubled_timeout_stays_until_a_sample() {
    for (sack, timestamps) in [(false, false), (true, false), (true, true)] {
        let timestamp = timestamps.then_some(Timestamp { value: 500, echo: CLOCK });
        let config = Config { sack, timestamps, ..reno() };
        let syn = Header { sack_permitted: sack, timestamp, ..Lab::syn() };
        let mut lab = Lab::established_with(&config, syn);
        let mss = lab.tcp.info().snd_mss;
        let mut acked = 0;
        let copies: Vec<u64> = (0..20)
            .map(|_| {
                let before = lab.tcp.info().total_retrans;
                lab.tcp.write(lab.now, &vec![0; mss as usize]).expect("room");
                let first = lab.all();
                // The round trip is 1500 ms from now on; the copies arrive as well.
                let left = first[0].header.timestamp;
                lab.after(1500);
                acked += mss;
                lab.echo = left.map_or(0, |timestamp| timestamp.value);
                lab.clock = lab.clock.map(|clock| clock + 1500);
                lab.ack(0, acked);
                lab.after(1);
                lab.tcp.info().total_retrans - before
            })
            .collect();
        assert_eq!(copies[10..], [0; 10], "SACK {sack}, timestamps {timestamps}: {copies:?}");
    }
}

/// RFC 6298 section 3: what was SACKed after a timeout and left before it may have arrived long
/// ago, its ACK lost; the time since it left is no round trip.
#[test]
fn a_lost_ack_is_no_round_trip() {
    let mut lab = Lab::established(&reno());
    lab.fly(10);
    lab.after(40);
    let before = lab.tcp.info().rtt;
    // Everything but the first two has arrived; the first ACK that comes is that of a copy.
    lab.after(30_000);
    assert!(lab.tcp.info().timeouts > 3);
    lab.sack(0, &[(2000, 10_000)]);
    assert_eq!(lab.tcp.info().sacked, 8);
    assert_eq!(lab.tcp.info().rtt, before);
    // The same by timestamps: a duplicate makes the peer echo the original's.
    let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
    let config = Config { timestamps: true, sack: false, ..reno() };
    let mut lab = Lab::established_with(&config, Header { timestamp, ..Lab::syn() });
    lab.write(1);
    let original = lab.all()[0].header.timestamp.map_or(0, |timestamp| timestamp.value);
    let before = lab.tcp.info().rtt;
    lab.after(30_000);
    lab.echo = original;
    lab.ack(0, 988);
    assert_eq!((lab.tcp.info().rtt, lab.tcp.info().bytes_acked), (before, 988));
}

/// RFC 9293 section 3.8.3: the end comes at R2, not at the timeout after it.
#[test]
fn the_user_timeout_is_kept() {
    let user_timeout = Duration::from_secs(30);
    let mut lab = Lab::established(&Config { user_timeout, ..config() });
    lab.write(1);
    let (ms, _) = until_the_end(&mut lab);
    assert!((29_900..=30_100).contains(&ms), "{ms} ms");
    // A window that stays closed, with nobody behind it that answers.
    let mut lab = Lab::established(&Config { user_timeout, ..config() });
    lab.window = 0;
    lab.ack(0, 0);
    lab.write(1);
    let (ms, _) = until_the_end(&mut lab);
    assert!((29_900..=30_100).contains(&ms), "{ms} ms");
}

/// RFC 9293 section 3.8.3: a SYN is sent again for three minutes at least, and for no longer than
/// the user's timeout; a SYN-ACK as well.
#[test]
fn a_syn_without_an_answer_is_given_up() {
    let (ms, syns) = until_the_end(&mut Lab::active(&config()));
    assert_eq!((ms, syns), (180_000, 8), "1, 2, 4 .. 64 s, and what is left of three minutes");
    let (ms, syns) = until_the_end(&mut Lab::passive(&config(), Lab::syn()));
    assert_eq!((ms, syns), (180_000, 8));
    let short = Config { user_timeout: Duration::from_secs(10), ..config() };
    assert_eq!(until_the_end(&mut Lab::passive(&short, Lab::syn())).0, 10_000);
}

/// A handshake has its own bound.
#[test]
fn the_connect_timeout_is_kept() {
    let connect_timeout = Duration::from_secs(5);
    let config = Config { connect_timeout, ..config() };
    assert_eq!(until_the_end(&mut Lab::active(&config)).0, 5_000);
    assert_eq!(until_the_end(&mut Lab::passive(&config, Lab::syn())).0, 5_000);
    let mut lab = Lab::established(&config);
    lab.write(1);
    assert_eq!(until_the_end(&mut lab).0, 180_000, "data has the user's timeout");
}

/// RFC 9293 section 3.9.1.1 lets the application change the user timeout, of what is already
/// waiting as well.
#[test]
fn the_user_timeout_may_change() {
    let mut lab = Lab::established(&config());
    lab.write(1);
    lab.after(10_000);
    lab.tcp.set_user_timeout(Duration::from_secs(15));
    let (ms, _) = until_the_end(&mut lab);
    assert!((4_900..=5_000).contains(&ms), "{ms} ms");
    let mut lab = Lab::established(&config());
    lab.write(1);
    lab.after(170_000);
    lab.tcp.set_user_timeout(Duration::from_secs(400));
    assert!(until_the_end(&mut lab).0 > 220_000);
}

/// RFC 9293 section 3.8.4: idle time, interval and number of keep-alives are the application's.
#[test]
fn keep_alives_have_their_interval_and_number() {
    let mut lab = Lab::established(&config());
    let (idle, interval) = (Duration::from_secs(20), Duration::from_secs(50));
    lab.tcp.set_keep_alive(Some(idle), Some(interval), 3);
    assert_eq!(until_the_end(&mut lab), (20_000 + 3 * 50_000, 3));
    assert_eq!(lab.tcp.error(), Some(fullpipe_tcp::Error::TimedOut));
    // An answer begins the idle time anew.
    let mut lab = Lab::established(&config());
    lab.tcp.set_keep_alive(Some(idle), Some(interval), 1);
    for _ in 0..10 {
        let [probe] = lab.after(20_000).try_into().expect("one segment");
        assert_eq!((probe.header.seq, probe.payload.len()), (lab.our(0).wrapping_sub(1), 0));
        lab.ack(0, 0);
    }
    lab.tcp.set_keep_alive(None, None, 1);
    assert_eq!(lab.timer(), None);
}

/// An idle time of nothing asks once in a second, and does not end the connection at once.
#[test]
fn keep_alives_leave_time_for_an_answer() {
    let mut lab = Lab::established(&Config { keep_alive: Some(Duration::ZERO), ..config() });
    for _ in 0..100 {
        lab.tcp.on_timer(lab.now);
        lab.all();
    }
    assert_eq!(lab.tcp.state(), State::Established);
    let (ms, probes) = until_the_end(&mut lab);
    assert!((9_000..=10_000).contains(&ms), "{ms} ms");
    assert_eq!(probes, 9);
}

/// A peer that has answered no timeout, or keeps its window closed, has little waiting for it,
/// whatever the application would write; one that takes something again as much as any other.
#[test]
fn little_waits_for_a_peer_that_takes_nothing() {
    let data = vec![7; 1 << 20];
    for is_closed in [false, true] {
        let mut lab = Lab::established(&config());
        lab.fly(10);
        lab.after(40);
        if is_closed {
            lab.window = 0;
            lab.ack(0, 10_000);
            lab.write(1);
        }
        assert!(lab.tcp.writable() > data.len());
        lab.after(3_000);
        let mut waits = 0;
        while let Ok(count) = lab.tcp.write(lab.now, &data) {
            waits += count;
        }
        assert!((32 << 10..=64 << 10).contains(&waits), "closed {is_closed}: {waits}");
        lab.window = u16::MAX;
        lab.ack(0, 10_000);
        lab.after(200);
        lab.ack(0, lab.tcp.info().bytes_sent.min(20_000) as u32);
        assert!(lab.tcp.writable() > data.len() && lab.tcp.is_writable(), "{:?}", lab.tcp.info());
    }
}

/// RFC 9293 section 3.8.4: keep-alives ask an idle connection alone, and their number ends no other
/// one: neither a handshake nor data that waits for an ACK or for the peer's window; nor do they
/// leave in TIME-WAIT.
#[test]
fn what_is_not_idle_is_not_kept_alive() {
    let keep_alive = Some(Duration::from_secs(1));
    let config = Config { keep_alive, keep_alive_probes: 1, ..config() };
    let mut opening = Lab::active(&config);
    let mut unacknowledged = Lab::established(&config);
    unacknowledged.write(1);
    let mut closed = Lab::established(&config);
    closed.window = 0;
    closed.ack(0, 0);
    closed.write(1);
    for (lab, state) in [
        (&mut opening, State::SynSent),
        (&mut unacknowledged, State::Established),
        (&mut closed, State::Established),
    ] {
        lab.after(20_000);
        assert_eq!(lab.tcp.state(), state);
    }
    let mut lab = Lab::established(&config);
    lab.tcp.close(lab.now);
    lab.all();
    lab.fin(0, 1);
    lab.all();
    assert_eq!(lab.tcp.state(), State::TimeWait);
    assert_eq!(lab.after(20_000), []);
}

/// RFC 9293 section 3.8.6.1: a closed window is probed for what waits, and for nothing else.
#[test]
fn a_closed_window_without_data_has_no_timer() {
    let mut lab = Lab::established(&config());
    lab.window = 0;
    lab.ack(0, 0);
    assert_eq!(lab.timer(), None);
    // What is open and has nothing under way has none either.
    lab.window = 1000;
    lab.ack(0, 0);
    lab.tcp.set_cork(lab.now, true);
    lab.tcp.write(lab.now, b"x").expect("room");
    assert_eq!(lab.timer(), Some(200));
    // Another timer does not take the cork out.
    lab.after(100);
    lab.data(0, b"x");
    lab.after(99);
    assert_eq!(lab.tcp.info().bytes_sent, 0);
    lab.after(1);
    assert_eq!(lab.tcp.info().bytes_sent, 1);
}

/// RFC 9293 section 3.8.3: it is the ACK that R2 waits for, whatever else is heard of the peer.
#[test]
fn a_peer_that_acknowledges_nothing_is_given_up() {
    let user_timeout = Duration::from_secs(30);
    let mut lab = Lab::established(&Config { user_timeout, ..config() });
    lab.write(1);
    for i in 0..29 {
        lab.after(1000);
        lab.data(i, b"x");
        assert_eq!(lab.tcp.state(), State::Established);
    }
    lab.after(1500);
    assert_eq!(lab.tcp.state(), State::Closed);
}

/// RFC 8899 section 4.3: a small segment that is lost says nothing of the size that the path
/// carries.
#[test]
fn timeouts_of_a_small_segment_leave_the_size_alone() {
    for bytes in [100, 1460] {
        let config = Config { mtu: 1500, ..config() };
        let mut lab = Lab::established_with(&config, Header { mss: Some(1460), ..Lab::syn() });
        lab.tcp.write(lab.now, &vec![1; bytes]).expect("room");
        lab.after(20_000);
        assert!(lab.tcp.info().timeouts >= 4);
        assert_eq!(lab.tcp.info().snd_mss < 1460, bytes == 1460);
    }
}

/// RFC 8985 section 6.3, outside of a recovery: what left less than a round trip and the reordering
/// window ago, a quarter of the shortest one, is not lost at a timeout.
#[test]
fn a_timeout_leaves_what_may_be_under_way() {
    let algorithm = Algorithm::Fixed(Rate::from_bits_per_sec(100_000_000));
    let mut lab = Lab::established(&Config { algorithm, ..config() });
    // One that is answered: RACK's round trip is 100 ms from then on.
    lab.fly(1);
    lab.after(40);
    lab.ack(0, 1000);
    let mut left = Vec::new();
    while lab.tcp.info().timeouts == 0 {
        lab.write(1);
        left.push(lab.now);
        lab.after(10);
        assert!(left.len() < 65, "the peer's window is full");
    }
    let at = lab.now;
    let old = |ms: u64| left.iter().filter(|sent| at.since(**sent) >= MS.times(ms)).count() as u64;
    let info = lab.tcp.info();
    let lost = (info.lost_bytes + info.bytes_retrans) / 1000;
    // The timer fires within the last 10 ms.
    assert!((old(130)..=old(120)).contains(&lost), "{lost} of {}", left.len());
}
