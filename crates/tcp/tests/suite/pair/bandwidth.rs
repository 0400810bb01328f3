//! Requests of an application that chooses its rate.

use fullpipe_cc::{Algorithm, BandwidthProbe, Duration, Rate};
use fullpipe_tcp::{Config, Error};

use super::Pair;

/// The sender's controller answers, and an endpoint without the connection says that.
#[test]
fn a_sender_answers_whether_it_probes() {
    let config = Config { algorithm: Algorithm::BBR3, ..Config::default() };
    let mut pair = Pair::new(4, &config);
    let handles = pair.connect(&config);
    assert!(pair.transfer(handles, 100_000, Duration::from_secs(1)));
    let ask = |pair: &mut Pair, target| {
        let now = pair.now;
        pair.ends[0].probe_bandwidth(now, handles[0], Rate::from_bits_per_sec(target))
    };
    assert_eq!(ask(&mut pair, 1_000), Ok(BandwidthProbe::Reached));
    assert_eq!(ask(&mut pair, 1_000_000_000_000), Ok(BandwidthProbe::Probing), "in Startup");
    pair.ends[0].abort(handles[0]);
    pair.ends[0].release(pair.now, handles[0]);
    while pair.step() {}
    assert_eq!(ask(&mut pair, 1_000), Err(Error::Closed));
}
