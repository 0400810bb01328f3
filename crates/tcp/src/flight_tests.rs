//! The work of an ACK.

use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant};

use crate::flight::Flight;
use crate::rack::Rack;
use crate::receiver::Span;

/// A peer that names many segments in turn in every ACK makes this end look at each of them once,
/// and then at a few in each ACK, however many there are.
#[test]
fn sack_blocks_in_turn_cost_little() {
    const SEGMENTS: u64 = 32_000;
    let now = Instant::default() + Duration::from_secs(1);
    let mut cc = Controller::new(Algorithm::RENO, Config::new(1), now);
    let mut flight = Flight::default();
    let mut rack = Rack::new(0);
    for i in 0..SEGMENTS {
        let state = cc.on_sent(now, 1000);
        flight.push(Span { start: 1000 * i, end: 1000 * (i + 1) }, false, false, state);
    }
    let block = |from: u64, to: u64| Span { start: 1000 * from, end: 1000 * to };
    let (half, none) = (SEGMENTS / 2, Span::default());
    let turns = [
        [block(2, half), none, none],
        [block(half, SEGMENTS), none, none],
        [block(2, 900), block(1000, half + 7), block(half + 9, SEGMENTS)],
    ];
    for i in 0..300 {
        let before = flight.looks;
        let mut batch = cc.ack(now);
        let news = flight.acknowledge(0, turns[i % 3], &mut rack, &mut batch);
        batch.finish();
        let looks = flight.looks - before;
        assert!(i < 3 || looks <= 6 && news.bytes == 0, "{looks} looks in ACK {i}");
    }
    assert_eq!(flight.sacked(), SEGMENTS as usize - 2);
    assert!(flight.looks <= SEGMENTS as usize + 1800, "{}", flight.looks);
}
