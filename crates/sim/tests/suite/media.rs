//! Live media that its encoder fits to the sender's estimate: the same numbers on every machine.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{
    ElementConfig, IPV4_UDP_HEADER_BYTES, Link, PathConfig, QueueLimit, RateConfig,
};
use fullpipe_sim::{FlowConfig, OVERHEAD_BYTES, Sim, SimConfig};
use fullpipe_traffic::{Adapt, Application, Media, MediaStats};

const WITH_MODEL: [Algorithm; 3] = [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR1];
const WITH_WINDOW: [Algorithm; 3] = [Algorithm::CUBIC, Algorithm::RENO, Algorithm::PRAGUE];

const fn kbit(n: u64) -> Rate {
    Rate::from_bits_per_sec(n * 1_000)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// 30 frames a second with a keyframe in every two seconds.
fn media(bitrate: u64, adapt: Option<(u64, u64, bool)>) -> Media {
    let adapt = adapt.map(|(min, max, probe)| Adapt { min: kbit(min), max: kbit(max), probe });
    let playout = Duration::from_millis(200);
    let bitrate = kbit(bitrate);
    Media { bitrate, fps: 30, keyframes: secs(2), keyframe_size: 4, adapt, playout }
}

/// A flow of media over 40 ms and a buffer of two BDP of the first rate, whose link has these rates
/// in kbit/s from these seconds on.
fn sim(algorithm: Algorithm, media: Media, steps: &[(u64, u64)]) -> Sim {
    let (_, first) = steps[0];
    let delay = Duration::from_millis(20);
    let queue = QueueLimit::Bytes(kbit(first).bytes_in(Duration::from_millis(80)));
    let mut downlink: PathConfig =
        Link { rate: Some(kbit(first)), queue, delay, seed: 11, ..Link::default() }.into();
    for element in &mut downlink.row {
        if let ElementConfig::Bottleneck { rate, .. } = element {
            let steps = steps.iter().map(|(at, rate)| (secs(*at), kbit(*rate)));
            *rate = RateConfig::Steps(steps.collect());
        }
    }
    let uplink = Link { delay, seed: 12, ..Link::default() }.into();
    let application = Application::Media(media);
    let flows = vec![FlowConfig { application, ..FlowConfig::bulk(algorithm, 1) }];
    Sim::new(&SimConfig::new(downlink, uplink, flows)).expect("a sound path")
}

/// Frames that each fit into a packet, at 400 kbit/s: between them the path is empty, and the
/// packets come at no more than this rate.
fn small_frames(probe: bool) -> Media {
    let media = media(400, Some((200, 6_000, probe)));
    Media { fps: 50, keyframes: Duration::ZERO, ..media }
}

/// Counters of a time, and its mean bitrate in kbit/s.
fn part(sim: &mut Sim, until: u64) -> (MediaStats, u64) {
    let (begun, a) = (sim.now(), sim.flow(0).media_stats(sim.now()).expect("media"));
    sim.run_until(Instant::default() + secs(until));
    let b = sim.flow(0).media_stats(sim.now()).expect("media");
    let time = sim.now().since(begun).as_nanos() / 1_000_000;
    let made = MediaStats {
        frames: b.frames - a.frames,
        dropped_frames: b.dropped_frames - a.dropped_frames,
        frame_bytes: b.frame_bytes - a.frame_bytes,
        padding_bytes: b.padding_bytes - a.padding_bytes,
        stalls: b.stalls - a.stalls,
        stalled_ns: b.stalled_ns - a.stalled_ns,
    };
    (made, made.frame_bytes * 8 / time)
}

/// BBRv1 cuts the window to four packets in ProbeRTT, and holds frames back with that.
#[test]
fn frames_below_the_links_rate_are_in_time_and_wait_for_no_probe_rtt() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X].into_iter().chain(WITH_WINDOW) {
        let mut sim = sim(algorithm, media(4_000, None), &[(0, 10_000)]);
        part(&mut sim, 10);
        let (made, kbit) = part(&mut sim, 40);
        assert!((3_980..=4_020).contains(&kbit), "{algorithm}: {kbit}");
        assert_eq!((made.stalls, made.dropped_frames), (0, 0), "{algorithm}");
        assert!((899..=901).contains(&made.frames), "{algorithm}: {}", made.frames);
        assert_eq!(made.padding_bytes, 0);
        let times = sim.flow(0).completion_ns().expect("frames");
        assert!(times.len() >= 1_190, "{algorithm}: {}", times.len());
    }
}

#[test]
fn a_frames_delay_is_from_its_capture_to_its_last_byte() {
    for algorithm in WITH_MODEL.into_iter().chain(WITH_WINDOW) {
        let media = Media { adapt: None, ..small_frames(false) };
        let mut sim = sim(algorithm, media, &[(0, 10_000)]);
        part(&mut sim, 30);
        let times = sim.flow(0).completion_ns().expect("frames").histogram();
        let bytes = u64::from(1_000 + OVERHEAD_BYTES + IPV4_UDP_HEADER_BYTES);
        let expected = Duration::from_millis(20) + kbit(10_000).time_for(bytes);
        for quantile in [0.0, 0.5, 1.0] {
            let delay = times.value_at_quantile(quantile);
            let off = delay.abs_diff(expected.as_nanos());
            assert!(off < expected.as_nanos() / 100, "{algorithm}: {delay} at {quantile}");
        }
    }
}

#[test]
fn an_encoder_above_the_links_rate_drops_frames_and_the_player_stands_still() {
    for algorithm in WITH_MODEL.into_iter().chain(WITH_WINDOW) {
        let mut sim = sim(algorithm, media(4_000, None), &[(0, 2_000)]);
        let (made, kbit) = part(&mut sim, 40);
        assert!((1_500..=2_000).contains(&kbit), "{algorithm}: {kbit}");
        assert!(made.dropped_frames > 300, "{algorithm}: {made:?}");
        assert!(made.frames + made.dropped_frames <= 1_200, "{algorithm}: {made:?}");
        assert!(made.stalls > 0 && made.stalled_ns > 1_000_000_000, "{algorithm}: {made:?}");
    }
}

/// On the slower link the encoder is below the rate and its frames are in time, where the algorithm
/// knows that rate. Windows that the application does not fill stay as large as they were, and with
/// them the estimate: those frames cross a full buffer.
#[test]
fn an_encoder_that_adapts_follows_the_link_down_and_up() {
    for algorithm in WITH_MODEL.into_iter().chain(WITH_WINDOW) {
        let adapts = media(4_000, Some((200, 8_000, false)));
        let mut sim = sim(algorithm, adapts, &[(0, 10_000), (20, 2_000), (40, 10_000)]);
        part(&mut sim, 10);
        let (_, before) = part(&mut sim, 20);
        part(&mut sim, 30);
        let (made, slow) = part(&mut sim, 40);
        part(&mut sim, 50);
        let (_, after) = part(&mut sim, 60);
        let told = format!("{algorithm}: {before}, {slow}, {after} kbit/s, {made:?}");
        println!("{told}");
        assert!((7_500..=8_100).contains(&before), "{told}");
        assert!((1_000..=2_000).contains(&slow), "{told}");
        assert!((6_500..=8_100).contains(&after), "{told}");
        assert!(made.dropped_frames <= 6, "{told}");
        if WITH_MODEL.contains(&algorithm) {
            assert!(slow <= 1_750 && made.stalled_ns < 500_000_000, "{told}");
        }
    }
}

/// Of packets that come one at a time nobody learns what the link could carry.
#[test]
fn a_probe_on_demand_finds_what_the_application_did_not_use() {
    for algorithm in WITH_MODEL.into_iter().chain(WITH_WINDOW) {
        let [with, without] = [true, false].map(|probe| {
            let mut sim = sim(algorithm, small_frames(probe), &[(0, 10_000)]);
            part(&mut sim, 30);
            let (made, kbit) = part(&mut sim, 60);
            let all = sim.flow(0).media_stats(sim.now()).expect("media");
            println!("{algorithm}, probe {probe}: {kbit} kbit/s, {made:?}, {all:?}");
            assert_eq!(all.padding_bytes > 0, probe, "{algorithm}: {all:?}");
            kbit
        });
        assert!((5_900..=6_050).contains(&with), "{algorithm}: {with}");
        assert!(without <= 1_500, "{algorithm}: {without}");
    }
}
