//! A SYN that comes once more after its connection.

use fullpipe_cc::Duration;
use fullpipe_tcp::Config;

use super::Pair;
use crate::common::MS;

/// The client waits in TIME-WAIT, and the listener takes the SYN for a new one: neither believes
/// the other's segments. Each of the server's SYN-ACKs has one answer and that a reset, and not an
/// ACK and another one after each round trip.
#[test]
fn an_old_syn_begins_no_exchange_of_acks() {
    for timestamps in [true, false] {
        let config =
            Config { timestamps, time_wait: Duration::from_secs(400), ..Config::default() };
        let mut pair = Pair::new(10, &config);
        let mut syn = Vec::new();
        let [local, remote] = crate::common::ends();
        let client = pair.ends[0].connect(pair.now, local, remote, &config).expect("it is free");
        assert!(pair.ends[0].transmit(pair.now, &mut syn));
        pair.wire.push_back((pair.now + pair.delay, 1, syn.clone()));
        let server = loop {
            assert!(pair.step());
            if let Some(server) = pair.ends[1].accept(pair.listener) {
                break server;
            }
        };
        assert!(pair.transfer([client, server], 600_000, Duration::from_secs(10)));
        pair.ends[0].release(pair.now, client);
        pair.step();
        pair.step();
        pair.ends[1].release(pair.now, server);
        while pair.ends[1].connections() > 0 {
            assert!(pair.step());
        }
        assert_eq!(pair.ends[0].connections(), 1, "in TIME-WAIT");
        let before = pair.ends.each_ref().map(|end| end.counters());
        // The numbers of a new connection are far from the old one's, and the answers too slow for
        // the limit of challenge ACKs.
        pair.now += Duration::from_secs(60);
        pair.delay = MS.times(60);
        let end = pair.now + Duration::from_secs(300);
        pair.ends[1].receive(pair.now, &syn);
        while pair.now < end && pair.step() {}
        let sent = |i: usize| pair.ends[i].counters().segments_out - before[i].segments_out;
        let resets = pair.ends[1].counters().resets_out - before[1].resets_out;
        // A SYN-ACK and what is sent again of it, for three minutes.
        assert!((3..=10).contains(&sent(0)), "{} packets of the client", sent(0));
        assert_eq!((sent(1), resets), (2 * sent(0), sent(0)), "timestamps {timestamps}");
        assert_eq!(pair.ends[1].accept(pair.listener), None);
    }
}
