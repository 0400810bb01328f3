//! A clock that jumps while packets are under way: a host that slept, or a machine that was moved.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{Link, PathConfig, Probability, QueueLimit};
use fullpipe_tcp::Config;

use crate::common::{App, MS, Net};

const BYTES: u64 = 3_000_000;

fn path(seed: u64) -> PathConfig {
    PathConfig::from(Link {
        rate: Some(Rate::from_bits_per_sec(20_000_000)),
        queue: QueueLimit::Bytes(100_000),
        delay: MS.times(10),
        loss: Probability::new(0.005).expect("a probability"),
        seed,
    })
}

/// No answer takes six days: what comes after the jump says nothing of the round trip, of the pace
/// and of the time after which a segment is lost.
#[test]
fn a_jump_of_the_clock_stops_no_transfer() {
    let day = Duration::from_secs(86_400);
    for algorithm in [Algorithm::CUBIC, Algorithm::RENO, Algorithm::BBR3, Algorithm::BBR1] {
        for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
            for jump in [day.times(6), Duration::from_secs(600)] {
                let config = Config {
                    algorithm,
                    sack,
                    timestamps,
                    user_timeout: day.times(30),
                    ..Config::default()
                };
                let apps = [App::writer(0, BYTES), App::default()];
                let mut net = Net::new([path(1), path(2)], [config; 2], apps);
                let start = Instant::default() + MS.times(400);
                net.run_while(start, |_| true);
                net.now += jump;
                let end = net.now + Duration::from_secs(20);
                let arrived = net.run_while(end, |net| net.apps[1].read < BYTES);
                let handle = net.apps[0].handle.expect("a connection");
                let info = net.ends[0].connection(handle).expect("open").info();
                let case = format!("{algorithm:?}, SACK {sack}, timestamps {timestamps}, {jump:?}");
                assert!(arrived, "{case}: {} bytes, {info:?}", net.apps[1].read);
                assert!(info.rtt < Some(Duration::from_secs(1)), "{case}: {info:?}");
            }
        }
    }
}
