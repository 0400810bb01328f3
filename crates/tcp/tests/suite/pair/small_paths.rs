//! Paths that carry less than RFC 8899's base size of 1200 bytes.

use fullpipe_cc::Duration;
use fullpipe_tcp::Config;

use super::Pair;

/// RFC 1191 section 3 and RFC 8899 section 5.1.2: a router's word counts down to what IPv4 always
/// carries, and without one timeouts do the same.
#[test]
fn a_path_below_the_base_size_is_found() {
    for (carries, tells, secs) in
        [(1000, true, 5), (700, true, 5), (576, true, 5), (1000, false, 60), (576, false, 60)]
    {
        let config = Config::default();
        let mut pair = Pair::new(10, &config);
        (pair.carries, pair.tells) = (carries, tells);
        let handles = pair.connect(&config);
        let done = pair.transfer(handles, 50_000, Duration::from_secs(secs));
        let info = pair.connection(0, handles[0]).info();
        assert!(done, "{carries} bytes, the router says so: {tells}: {info:?}");
        assert!(info.snd_mss as usize + 52 <= carries, "{} for {carries}", info.snd_mss);
    }
}
