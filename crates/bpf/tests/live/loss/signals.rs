//! What TCP tells the program, and what it concludes from that.

use std::time::{Duration, Instant};

use fullpipe_testkit::until;

use super::bench::{Bench, LinkOf, sleep_ms};

/// Without timestamps, an ACK of a packet that was sent twice has no round-trip time. Where there is
/// loss, most filters see such ACKs before the time is over in which another sample has to come.
fn without_timestamps_min_rtt_follows_a_path_that_became_longer() {
    let link = LinkOf { mbit: 20, rtt_ms: 20, queue_bytes: 150_000, loss: 0.01 };
    let bench = Bench::start("stamps", &link);
    bench.set("/proc/sys/net/ipv4/tcp_timestamps", "0");
    let flow = bench.flow();
    // Sleeps: Startup is over, and the filter has its first value.
    sleep_ms(3_000);
    let before = flow.state();
    assert!(before.min_rtt.is_some_and(|rtt| rtt < 40_000_000), "{before:?}");
    flow.lengthen(fullpipe_cc::Duration::from_millis(40));
    // The filter is 10 s long, and ProbeRTT comes every 5 s.
    let begun = Instant::now();
    until("min_rtt is that of the longer path", || {
        flow.state().min_rtt.is_some_and(|rtt| rtt >= 58_000_000)
    });
    let took = begun.elapsed();
    println!("after {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    let before = flow.received();
    // Sleeps: the rate over this time.
    sleep_ms(4_000);
    let megabits = (flow.received() - before) as f64 * 8.0 / 4e6;
    println!("{megabits:.1} Mbit/s of 20; {:?}", flow.state());
}

/// The last packets of a response have few after them that would show their loss: a timer of TCP
/// finds it, or a probe that TCP sends after a while.
fn losses_of_small_responses_are_heard() {
    for amended in [false, true] {
        let link = LinkOf { mbit: 100, rtt_ms: 30, queue_bytes: 500_000, loss: 0.03 };
        let bench = Bench::of("small", amended, &link);
        let flow = bench.quiet_flow();
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            flow.respond(8_600);
        }
        let state = flow.state();
        let (lost_again, by_probe) = (
            bench.counter("TcpExt", "TCPLostRetransmit"),
            bench.counter("TcpExt", "TCPLossProbeRecovery"),
        );
        println!(
            "{lost_again} retransmissions lost, {by_probe} losses repaired by a probe; {state:?}"
        );
        assert!(state.losses > 10 && by_probe > 0, "{state:?}");
        let not_found = u64::from(state.losses_not_found);
        assert!(not_found <= lost_again + u64::from(state.losses) / 10, "{state:?}");
        assert_eq!(u64::from(state.tail_losses), by_probe, "{state:?}");
        // Between responses nothing is in flight.
        assert!(state.restarts > 10, "{state:?}");
        // The application was the limit of all that was sent.
        assert!(state.inflight_longterm.is_none_or(|bytes| bytes > 8_600), "{state:?}");
    }
}

fullpipe_testkit::tests! {
    long timed [Root, Kernel, Tun] losses_of_small_responses_are_heard, without_timestamps_min_rtt_follows_a_path_that_became_longer;
}
