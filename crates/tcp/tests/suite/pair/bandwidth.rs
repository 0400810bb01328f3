//! Requests of an application that chooses its rate.

use fullpipe_cc::{Algorithm, BandwidthProbe, Duration, NotNow, Rate, State};
use fullpipe_tcp::{Config, Error};

use super::Pair;

const FAST: Rate = Rate::from_bits_per_sec(1_000_000_000_000);

/// The sender's own controller has the request, and the endpoint that has no such connection says
/// so.
#[test]
fn a_request_brings_the_probe_forward() {
    let config = Config { algorithm: Algorithm::Bbr3, ..Config::default() };
    let mut pair = Pair::new(4, &config);
    let handles = pair.connect(&config);
    let state = |pair: &Pair| pair.connection(0, handles[0]).congestion().state;
    let ask = |pair: &mut Pair, target| {
        let now = pair.now;
        pair.ends[0].probe_bandwidth(now, handles[0], target)
    };
    // The window of the receiver is the limit: there Startup ends.
    let step = |pair: &mut Pair| {
        while pair.ends[0].write(pair.now, handles[0], &[7; 1 << 14]).is_ok() {}
        assert!(pair.step());
        pair.read_all(1, handles[1]);
    };
    let write_until = |pair: &mut Pair, wanted: State| {
        let end = pair.now + Duration::from_secs(30);
        while state(pair) != wanted {
            assert!(pair.now < end, "{:?}", state(pair));
            step(pair);
        }
    };
    write_until(&mut pair, State::ProbeBwCruise);
    let slow = Rate::from_bits_per_sec(1_000);
    assert_eq!(ask(&mut pair, slow), Ok(BandwidthProbe::Reached));
    let too_soon = Ok(BandwidthProbe::NotNow(NotNow::TooSoon));
    assert_eq!(ask(&mut pair, FAST), too_soon);
    while ask(&mut pair, FAST) == too_soon {
        step(&mut pair);
    }
    assert_eq!(ask(&mut pair, FAST), Ok(BandwidthProbe::Probing));
    let asked = pair.now;
    write_until(&mut pair, State::ProbeBwRefill);
    assert!(pair.now.since(asked) < Duration::from_millis(20), "{:?}", pair.now.since(asked));

    pair.ends[0].abort(handles[0]);
    while pair.step() {}
    pair.ends[0].release(pair.now, handles[0]);
    assert_eq!(ask(&mut pair, FAST), Err(Error::Closed));
}
