//! The receiver's part of a round trip: an option of this crate's own, by RFC 6994.

use std::net::SocketAddr;

use fullpipe_cc::{Algorithm, BbrSnapshot, Duration, Instant};
use fullpipe_tcp::wire::{self, Control, FastOpen, Header, ReceiverDelay, Timestamp};
use fullpipe_tcp::{Config, Endpoint};

use super::lab::{CLOCK, ISS, Lab, MS, MSS, config, local, remote};

fn asking() -> Config {
    Config { receiver_delay: true, algorithm: Algorithm::BBR_SWIFT, quick_acks: 0, ..config() }
}

fn agreeing() -> Header {
    Header { delay_permitted: true, ..Lab::syn() }
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn delay(host: u64, wait: u64) -> ReceiverDelay {
    ReceiverDelay { host: micros(host), wait: micros(wait) }
}

/// A connection whose peer agreed, and has no data of its own.
fn agreed() -> Lab {
    Lab::established_with(&asking(), agreeing())
}

fn tells(lab: &mut Lab) -> Option<ReceiverDelay> {
    lab.out().header.receiver_delay
}

#[test]
fn it_is_off_by_default_and_needs_both_ends() {
    assert!(!Config::default().receiver_delay);
    assert!(!Lab::active(&config()).out().header.delay_permitted);
    for (own, peer) in [(false, true), (true, false), (true, true)] {
        let config = Config { receiver_delay: own, ..asking() };
        let syn = Header { delay_permitted: peer, ..Lab::syn() };
        let mut client = Lab::active(&config);
        assert_eq!(client.out().header.delay_permitted, own);
        let mut server = Lab::passive(&config, syn);
        assert_eq!(server.out().header.delay_permitted, own && peer);
        server.ack(0, 0);
        for lab in [&mut Lab::established_with(&config, syn), &mut server] {
            assert_eq!(lab.tcp.info().receiver_delay, own && peer);
            lab.data(0, &[7; 2 * MSS]);
            assert_eq!(tells(lab).is_some(), own && peer);
        }
    }
}

/// Something that drops SYNs with it must not keep an end from connecting.
#[test]
fn the_third_syn_does_not_offer_it() {
    let mut lab = Lab::active(&asking());
    let syns: Vec<bool> = lab.after(8_000).iter().map(|out| out.header.delay_permitted).collect();
    assert_eq!(syns[..3], [true, true, false]);
    // The answer may be to one of the first.
    lab.send(Header { ack: Some(ISS + 1), ..agreeing() }, &[]);
    assert!(lab.tcp.info().receiver_delay);
}

/// Beside all other options of a SYN there is room for it, unless a cookie is a large one.
#[test]
fn a_large_cookie_leaves_it_out() {
    let config = Config { fast_open: true, timestamps: true, ..asking() };
    for (bytes, has_room) in [(8, true), (16, false)] {
        let (mut end, mut packet) = (Endpoint::new([7; 16], 4), Vec::new());
        let now = Instant::default() + MS;
        let given = FastOpen::new(&vec![9; bytes]);
        end.connect(now, local(), remote(), &config).expect("room");
        assert!(end.transmit(now, &mut packet));
        let syn = wire::parse(&packet).expect("a sound packet").header;
        assert!(syn.delay_permitted && syn.fast_open == Some(FastOpen::REQUEST));
        let answer = Header { ack: Some(syn.seq + 1), fast_open: given, ..Lab::syn() };
        wire::write(&mut packet, remote(), local(), &answer, [&[], &[]]);
        end.receive(now, &packet);
        while end.transmit(now, &mut packet) {}
        end.connect(now, SocketAddr::new(local().ip(), 0), remote(), &config).expect("room");
        assert!(end.transmit(now, &mut packet));
        let syn = wire::parse(&packet).expect("a sound packet").header;
        assert_eq!((syn.fast_open, syn.delay_permitted), (given, has_room));
    }
}

/// Held back on purpose until the second segment, or the time, and the host was late before.
#[test]
fn an_ack_tells_what_was_held_back_and_what_the_host_took() {
    let mut lab = agreed();
    lab.in_host = micros(70);
    lab.data(0, &[1; 10]);
    let acks = lab.after(100);
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].header.receiver_delay, Some(delay(70, 40_000)), "40 ms of a delayed ACK");

    lab.data(10, &[1; MSS]);
    lab.now += MS.times(3);
    lab.in_host = micros(80);
    lab.data(10 + MSS as u32, &[1; MSS]);
    assert_eq!(tells(&mut lab), Some(delay(80, 0)), "the newest did not wait");

    // The host sends late what was due, and comes late to its timer.
    lab.in_host = micros(5);
    lab.data(10 + 2 * MSS as u32, &[1; MSS]);
    lab.now += MS.times(50);
    lab.tcp.on_timer(lab.now);
    lab.now += MS;
    assert_eq!(tells(&mut lab), Some(delay(11_005, 40_000)));
    let there = 10 + 3 * MSS as u32;
    lab.data(there, &[1; 2 * MSS]);
    lab.now += micros(30);
    assert_eq!(tells(&mut lab), Some(delay(35, 0)));

    // Data that leaves takes the ACK with it.
    lab.data(there + 2 * MSS as u32, &[1; 10]);
    lab.now += MS;
    lab.write(1);
    assert_eq!(tells(&mut lab), Some(delay(5, 1_000)));
    assert_eq!(tells(&mut lab), None, "the rest of the data");
}

/// An ACK of nothing new tells nothing.
#[test]
fn an_ack_without_data_tells_nothing() {
    let mut lab = agreed();
    lab.data(0, &[1; 2 * MSS]);
    assert!(tells(&mut lab).is_some());
    lab.data(0, &[1; 2 * MSS]);
    assert_eq!(tells(&mut lab), None, "a duplicate");
    lab.write(1);
    assert_eq!(tells(&mut lab), None, "data alone");
}

/// By the segment that was sent last a sender measures the round trip, whatever came last.
#[test]
fn the_newest_segment_counts() {
    let mut lab = agreed();
    for (offset, in_host) in [(MSS as u32, 20), (0, 300)] {
        lab.in_host = micros(in_host);
        lab.data(offset, &[1; MSS]);
    }
    assert_eq!(tells(&mut lab), Some(delay(20, 0)), "the host was not fast enough for two ACKs");
}

/// The data of a segment that tells it is smaller, as beside SACK blocks; one that leaves again is
/// not cut in two for it.
#[test]
fn the_option_takes_its_part_of_new_segments() {
    let mut lab = agreed();
    lab.write(4);
    lab.data(0, &[1; 10]);
    let out = lab.after(30);
    let sizes: Vec<usize> = out.iter().map(|out| out.payload.len()).collect();
    assert_eq!(sizes, [MSS - 12, MSS, MSS, MSS, 12]);
    assert!(out[0].header.receiver_delay.is_some() && out[1].header.receiver_delay.is_none());
    // The second one is lost.
    let (second, third) = (MSS as u32 - 12, 2 * MSS as u32 - 12);
    let block = Some((lab.our(third), lab.our(4 * MSS as u32)));
    lab.send(Header { sack: [block, None, None], ..lab.header(10, second) }, &[]);
    lab.data(10, &[1; 10]);
    let again = lab.after(60);
    assert_eq!(again.first().map(|out| out.payload.len()), Some(MSS), "{:?}", lab.ranges(&again));
    assert_eq!(again[0].header.receiver_delay, None);
}

/// With timestamps there is room beside two SACK blocks and not beside three, which come first.
#[test]
fn sack_blocks_come_first() {
    let timestamp = Some(Timestamp { value: 500, echo: CLOCK });
    let config = Config { timestamps: true, ..asking() };
    let mut lab = Lab::established_with(&config, Header { timestamp, ..agreeing() });
    for (i, has_room) in [(1, true), (2, true), (3, false), (4, false)] {
        lab.data(i * 100, &[1; 10]);
        let header = lab.out().header;
        assert_eq!(header.sack.iter().flatten().count(), i.min(3) as usize);
        assert_eq!(header.receiver_delay.is_some(), has_room, "{i} holes");
    }
}

/// The shortest round trip in the model after `acked` of one segment told `delay`: the round trip
/// is 20 ms.
fn min_rtt_after(lab: &mut Lab, delay: Option<ReceiverDelay>) -> Duration {
    let iss = lab.tcp.info().bytes_acked as u32;
    lab.write(1);
    lab.all();
    lab.now += MS.times(20);
    let acked = Header { receiver_delay: delay, ..lab.header(0, iss + MSS as u32) };
    lab.send(acked, &[]);
    model(lab).min_rtt.expect("a sample")
}

fn model(lab: &Lab) -> BbrSnapshot {
    lab.tcp.congestion().bbr.expect("bbr-swift has one")
}

/// What the peer told is no part of the network's round trip; the whole one stays that of the
/// timeout.
#[test]
fn the_congestion_control_hears_it() {
    let ms = |n| MS.times(n);
    for (told, expected) in [
        (None, ms(20)),
        (Some(delay(5_000, 0)), ms(15)),
        (Some(delay(0, 8_000)), ms(12)),
        (Some(delay(5_000, 8_000)), ms(7)),
    ] {
        let mut lab = agreed();
        assert_eq!(min_rtt_after(&mut lab, told), expected, "{told:?}");
        // The host's part alone is compared with the endpoint's target, of 100 us.
        let is_slow = told.is_some_and(|told| told.host > Duration::ZERO);
        assert_eq!(model(&lab).inflight_shortterm.is_some(), is_slow, "{told:?}");
        assert_eq!(lab.tcp.info().min_rtt, Some(ms(20)));
    }
}

/// RFC 9002 section 5.3 has the same reason to bound what a peer tells: more than the round trip is
/// no part of it, and all of it leaves a sixteenth.
#[test]
fn a_peer_that_tells_nonsense_does_no_harm() {
    let day = 16_000_000;
    for told in [delay(20_001, 0), delay(day, day), delay(0, day), delay(10_001, 10_000)] {
        assert_eq!(min_rtt_after(&mut agreed(), Some(told)), MS.times(20), "{told:?}");
    }
    for told in [delay(20_000, 0), delay(0, 20_000), delay(12_000, 8_000)] {
        assert_eq!(min_rtt_after(&mut agreed(), Some(told)), micros(1_250), "{told:?}");
    }
    // A peer that did not agree, or was not asked.
    for (config, syn) in
        [(asking(), Lab::syn()), (Config { receiver_delay: false, ..asking() }, agreeing())]
    {
        let mut lab = Lab::established_with(&config, syn);
        assert_eq!(min_rtt_after(&mut lab, Some(delay(5_000, 5_000))), MS.times(20));
    }
    // A SYN that tells.
    let mut lab = Lab::active(&asking());
    lab.out();
    let (ack, receiver_delay) = (Some(ISS + 1), Some(delay(5, 5)));
    lab.send(Header { ack, receiver_delay, control: Control::Syn, ..agreeing() }, &[]);
    assert!(lab.tcp.info().receiver_delay);
}

/// Without a sample of a segment that was sent once, it is not known of which segment it is, also
/// where a timestamp measures a round trip.
#[test]
fn a_repeated_segment_has_no_part() {
    let min_rtt_with = |receiver_delay, timestamps| {
        let timestamp = Some(Timestamp { value: 500, echo: CLOCK }).filter(|_| timestamps);
        let config = Config { timestamps, ..asking() };
        let mut lab = Lab::established_with(&config, Header { timestamp, ..agreeing() });
        lab.write(1);
        while lab.tcp.info().total_retrans == 0 {
            lab.after(10);
        }
        let acked = lab.header(0, MSS as u32);
        lab.now += MS.times(30);
        lab.send(Header { receiver_delay, ..acked }, &[]);
        model(&lab).min_rtt
    };
    for timestamps in [false, true] {
        let [told, untold] = [Some(delay(9_000, 0)), None].map(|d| min_rtt_with(d, timestamps));
        assert_eq!(told, untold);
        assert_eq!(told < Some(MS.times(100)), timestamps, "the handshake's, or a new one");
    }
}
