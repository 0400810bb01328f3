//! The draft's flavours where marks are those of L4S.

use super::*;
use crate::Algorithm;
use crate::test_link::{Link, MS};

/// A link of 50 Mbit/s and 40 ms that marks what waits for more than 1 ms, after ten seconds.
fn marked(algorithm: Algorithm, ecn: bool) -> Link {
    let config = Config { ecn, ..Config::new(1) };
    let mut link = Link::with(algorithm, 50, MS.times(40), config);
    link.mark_above = MS;
    link.run(Duration::from_secs(10));
    link
}

/// The longest queue and the share of the link in percent, over the next five seconds.
fn seen(link: &mut Link) -> (Duration, u64) {
    let (start, before, mut longest) = (link.now, link.delivered, Duration::ZERO);
    while link.now.since(start) < Duration::from_secs(5) {
        link.step(&mut || false);
        longest = longest.max(link.free.since(link.now));
    }
    let used = Rate::from_volume(link.delivered - before, link.now.since(start));
    (longest, used.as_bytes_per_sec() * 100 / link.rate.as_bytes_per_sec())
}

/// Alpha is there whatever the round trip, probes end when they meet marks, and nothing of it looks
/// like a loss.
#[test]
fn low_latency_marks_end_probes_and_are_no_losses() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X] {
        let mut link = marked(algorithm, true);
        assert!(link.bbr().ecn_alpha.is_some(), "{algorithm}");
        assert_eq!(link.cc.snapshot().lost, 0, "{algorithm}");
        let (longest, percent) = seen(&mut link);
        assert!(longest < MS.times(12), "{algorithm}: {longest}");
        assert!(percent >= 80, "{algorithm}: {percent} %");
    }
}

/// Marks are losses where the transport does not say otherwise: this response is optional.
#[test]
fn other_marks_stay_losses() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X] {
        let link = marked(algorithm, false);
        assert_eq!(link.bbr().ecn_alpha, None, "{algorithm}");
    }
}
