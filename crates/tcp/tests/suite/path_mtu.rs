//! A path that carries less than both ends believe: RFC 8899 and RFC 1191, in virtual time.

use crate::common::{App, MS, Net, ends, too_big};
use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_path::{Link, PathConfig};
use fullpipe_tcp::{Config, Info, wire};

const BYTES: u64 = 20_000_000;

fn config() -> Config {
    Config { mtu: 9000, ..Config::default() }
}

/// 100 Mbit/s and 20 ms, for packets up to `carries`.
fn net(carries: usize, tells: bool, config: Config) -> Net {
    let path = Link {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: MS.times(10),
        ..Link::default()
    };
    let paths: [PathConfig; 2] = [path.into(), path.into()];
    let mut net = Net::new(paths, [config; 2], [App::writer(0, BYTES), App::default()]);
    (net.carries, net.tells) = (carries, tells);
    net
}

fn info(net: &Net) -> Info {
    net.ends[0].connection(net.apps[0].handle.expect("open")).expect("open").info()
}

/// Runs until everything was read; the seconds.
fn transfer(net: &mut Net) -> f64 {
    let end = Instant::default() + Duration::from_secs(60);
    assert!(net.run_while(end, |net| net.apps[1].read < BYTES), "{:?}", info(net));
    net.now.as_nanos() as f64 / 1e9
}

/// RFC 8899 section 4.3: three timeouts, the base size, and the largest that passes a few round
/// trips later.
#[test]
fn a_black_hole_is_left() {
    for carries in [1500, 1400, 4000, 1200] {
        let mut net = net(carries, false, config());
        let secs = transfer(&mut net);
        let (mss, info) = (info(&net).snd_mss as usize, info(&net));
        // 52 bytes are headers and timestamps.
        assert!((carries - 52 - 16..=carries - 52).contains(&mss), "{mss} for {carries}");
        assert_eq!(info.timeouts, 3, "the probes cost none");
        // 1.6 s of transfer, 3 timeouts of 0.2, 0.4 and 0.9 s.
        assert!(secs < 4.5, "{secs} s over a path for {carries}");
    }
}

/// A loss of a probe is no congestion (RFC 4821 section 7.6): the window of CUBIC stays.
#[test]
fn lost_probes_do_not_slow_the_sender() {
    let config = Config { algorithm: fullpipe_cc::Algorithm::CUBIC, ..config() };
    let mut net = net(1500, false, config);
    let end = Instant::default() + Duration::from_secs(60);
    net.run_while(end, |net| info(net).timeouts < 3 || info(net).unacked == 0);
    let (mut least, mut most) = (u64::MAX, 0);
    while net.apps[1].read < BYTES {
        let now = net.now + MS.times(20);
        net.run_while(now, |net| net.apps[1].read < BYTES);
        // Linux's CUBIC counts whole segments, and those of a new size are fewer.
        let Info { snd_cwnd: cwnd, snd_mss, .. } = info(&net);
        let is_less = cwnd + u64::from(snd_mss) <= most;
        assert!(!is_less || net.apps[1].read > BYTES / 2, "{cwnd} after {most}");
        (least, most) = (least.min(cwnd), most.max(cwnd));
    }
    assert!(net.too_big > 10 && most > 2 * least, "{} {least} {most}", net.too_big);
}

/// Without SACK and timestamps nothing but duplicate ACKs tells of a lost probe, and no sample ends
/// a doubled timeout. With a window of a few segments, at hosts that look now and then: the search
/// costs the timeouts that found the black hole and no other (RFC 8899 section 3).
#[test]
fn a_search_without_sack_costs_no_timeout() {
    const BYTES: u64 = 200_000;
    for every in [0, 1, 3, 10, 50] {
        let config = Config {
            sack: false,
            timestamps: false,
            mtu: 1900,
            receive_buffer: 10_000,
            send_buffer: 10_000,
            ..Config::default()
        };
        let mut net = net(1318, false, config);
        net.apps[0].to_write = BYTES;
        net.granularity = MS.times(every);
        let end = Instant::default() + Duration::from_secs(20_000);
        assert!(net.run_while(end, |net| net.apps[1].read < BYTES), "{:?}", info(&net));
        let (secs, info) = (net.now.as_nanos() as f64 / 1e9, info(&net));
        println!("{every} ms: {secs} s, {} timeouts, MSS {}", info.timeouts, info.snd_mss);
        assert!(info.timeouts <= 3 && secs < 20.0, "{every} ms: {secs} s, {info:?}");
    }
}

/// RFC 1191: a router says what it carries: no timeout, and the size at once.
#[test]
fn a_router_is_believed() {
    let mut net = net(1400, true, config());
    let secs = transfer(&mut net);
    assert_eq!((info(&net).snd_mss, info(&net).timeouts), (1400 - 52, 0));
    assert!(secs < 2.5, "{secs} s");
}

/// Without the search the connection ends, as TCP's does without RFC 4821.
#[test]
fn without_the_search_nothing_arrives() {
    let mut net = net(1500, false, Config { mtu_discovery: false, ..config() });
    let end = Instant::default() + Duration::from_secs(30);
    assert!(!net.run_while(end, |net| net.apps[1].read < BYTES));
    assert_eq!(net.apps[1].read, 0);
}

/// RFC 8899 section 4.6.1: a message that quotes nothing that is under way is forged.
#[test]
fn a_forged_message_changes_nothing() {
    let mut net = net(usize::MAX, false, config());
    let end = Instant::default() + Duration::from_secs(1);
    net.run_while(end, |net| net.apps[1].read < BYTES / 2);
    let (handle, mss) = (net.apps[0].handle.expect("open"), info(&net).snd_mss);
    let connection = net.ends[0].connection(handle).expect("open");
    let (local, remote) = (connection.local(), connection.remote());
    let mut packet = Vec::new();
    for seq in (0..=u32::MAX - 10_000_000).step_by(1 << 28) {
        let header = wire::Header { seq, ack: Some(1), ..wire::Header::default() };
        wire::write(&mut packet, local, remote, &header, [&[0; 100], &[]]);
        net.ends[0].receive(net.now, &too_big(&packet, 600));
    }
    // At most one of the sixteen hits the few megabytes that are under way, and then the base is
    // the least.
    let now = info(&net).snd_mss;
    assert!(now == mss || now == 1200 - 52, "{now}");
    // Another connection's message is not this one's.
    let strangers = wire::Header { seq: 1, ack: Some(1), ..wire::Header::default() };
    wire::write(&mut packet, ends()[1], remote, &strangers, [&[0; 100], &[]]);
    net.ends[0].receive(net.now, &too_big(&packet, 600));
    assert_eq!(info(&net).snd_mss, now);
}

/// RFC 1191 section 3: who does not look for the size lets routers cut packets, and numbers them
/// (RFC 6864 section 4.1).
#[test]
fn without_discovery_routers_may_cut_packets() {
    for mtu_discovery in [false, true] {
        let config = Config { mtu_discovery, ..Config::default() };
        let mut net = net(9000, false, config);
        net.run_while(Instant::default() + MS.times(200), |_| true);
        let (mut packet, mut numbers) = (Vec::new(), Vec::new());
        let handle = net.apps[0].handle.expect("open");
        net.ends[0].abort(handle);
        while net.ends[0].transmit(net.now, &mut packet) {
            assert_eq!(packet[6] & 0x40 != 0, mtu_discovery, "DF");
            assert!(wire::parse(&packet).is_some());
            numbers.push([packet[4], packet[5]]);
        }
        assert_eq!(numbers.len(), 1);
        assert_eq!(numbers[0] == [0, 0], mtu_discovery);
    }
}
