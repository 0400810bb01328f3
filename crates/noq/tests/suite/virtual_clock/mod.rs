//! The adapter against the real noq stack, exactly.

mod false_acks;
mod world;

use false_acks::{Acknowledged, SharedClient};
use fullpipe_cc::{Algorithm, CREDIT_TIME, Duration, Instant, Rate, State};
use world::{Cc, Scenario, World};

fn at(secs: u64) -> Instant {
    Instant::default() + Duration::from_secs(secs)
}

/// W2: a pacing rate is computed and never enforced. With a rate of 50 Mbit/s and a window that
/// never limits, the link sees that rate and no burst above noq's bound: what the rate gives in
/// 2 ms, or ten packets.
#[test]
fn the_link_sees_the_rate_and_no_burst_above_the_bound() {
    let rate = Rate::from_bits_per_sec(50_000_000);
    let mut world = World::new(&Scenario {
        cc: Cc::Ours(Algorithm::Fixed(rate)),
        buffer_bytes: 100_000,
        ..Scenario::default()
    });
    world.run_until(at(6));
    let steady: Vec<(Instant, u64)> =
        world.arrivals.iter().copied().filter(|(t, _)| *t >= at(1)).collect();
    let sent: u64 = steady.iter().map(|(_, bytes)| bytes).sum();
    let seen = sent * 8 / 5;
    assert!((48_500_000..=50_000_000).contains(&seen), "{seen} bit/s");

    let largest = steady.iter().map(|(_, bytes)| *bytes).max().expect("packets");
    let bound = rate.bytes_in(CREDIT_TIME).max(10 * largest);
    let mut worst = 0;
    for i in 0..steady.len() {
        let (start, mut total) = (steady[i].0, 0);
        for (t, bytes) in &steady[i..] {
            if t.since(start) > Duration::from_millis(20) {
                break;
            }
            total += bytes;
            worst = worst.max(total.saturating_sub(rate.bytes_in(t.since(start))));
        }
    }
    assert!(worst <= bound, "a burst of {worst} bytes above the rate; the bound is {bound}");
    assert_eq!(world.downlink().tail_dropped.packets, 0);
}

/// W1: the controller was never told of sends (noq dfc592ab). Our counters are noq's: every byte
/// that noq counts as sent, lost or in flight we count so too. The handshake's spaces, MTU probes
/// and losses that are reported after the ACK are all in it.
#[test]
fn the_counters_are_those_of_noq() {
    for (algorithm, loss) in
        [(Algorithm::BBR3, 0.0), (Algorithm::BBR3, 0.01), (Algorithm::CUBIC, 0.002)]
    {
        let bytes = 8_000_000;
        let mut world = World::new(&Scenario {
            cc: Cc::Ours(algorithm),
            loss,
            bytes: Some(bytes),
            ..Scenario::default()
        });
        while world.received < bytes && world.now < at(60) {
            world.run_until(world.now + Duration::from_secs(1));
        }
        assert_eq!(world.received, bytes, "{algorithm} at {loss}: all of it arrived");
        world.run_until(world.now + Duration::from_secs(1)); // the last ACKs
        let (ours, noqs) = (world.snapshot(), world.stats());
        assert_eq!(ours.inflight, 0, "{algorithm} at {loss}");
        // The ACK of an MTU probe counts, its loss does not: noq reports only the former.
        assert_eq!(ours.lost, noqs.lost_bytes, "{algorithm} at {loss}: lost");
        let gone = ours.delivered + ours.lost;
        assert!(gone <= noqs.sent_bytes && gone + 3_000 >= noqs.sent_bytes, "{gone} of {noqs:?}");
        assert!(loss == 0.0 || ours.lost > 0, "{algorithm} at {loss}: something was lost");
    }
}

/// W5, S1: no made-up RTT gets into the model. The round trip of an empty path is its delay and the
/// serialisation of one packet, to the nanosecond.
#[test]
fn min_rtt_is_the_round_trip_of_the_path() {
    let scenario = Scenario { write_at_once: false, bytes: Some(0), ..Scenario::default() };
    let mut world = World::new(&scenario);
    world.run_until(at(1));
    for i in 0..20 {
        world.write(100);
        world.run_until(at(1) + Duration::from_millis(200).times(i + 1));
    }
    let snapshot = world.snapshot();
    let least = snapshot.bbr.and_then(|bbr| bbr.min_rtt).expect("a sample");
    // Between an empty packet and one that fills a datagram.
    let shortest = scenario.rtt + scenario.rate.time_for(28 + 25);
    let longest = scenario.rtt + scenario.rate.time_for(28 + 1_500) + Duration::from_millis(25);
    assert!(least >= shortest && least < longest, "{least}");
    assert_eq!(world.received, 2_000);
}

/// The model finds the path: the bandwidth as the share of the link that is left when IP and UDP
/// have theirs, and the delay. Never more than the link gives.
#[test]
fn the_model_is_the_path() {
    for (mbit, rtt_ms) in [(10, 40), (100, 40), (100, 10), (20, 200)] {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
        let rtt = Duration::from_millis(rtt_ms);
        let buffer_bytes = 3 * rate.bytes_in(rtt);
        let mut world = World::new(&Scenario { rate, rtt, buffer_bytes, ..Scenario::default() });
        world.run_until(at(8));
        let snapshot = world.snapshot();
        let bbr = snapshot.bbr.expect("a model");
        let datagram = world.arrivals.iter().map(|(_, bytes)| *bytes).max().expect("packets");
        let possible = rate.as_bytes_per_sec() * datagram / (datagram + 28);
        let found = bbr.max_bw.as_bytes_per_sec();
        assert!(
            found <= possible + possible / 1000 && found > possible - possible / 50,
            "{mbit} Mbit/s {rtt_ms} ms: found {found} of {possible} B/s"
        );
        assert!(bbr.full_bw_reached, "{mbit} Mbit/s {rtt_ms} ms: {:?}", snapshot.state);
        let min_rtt = bbr.min_rtt.expect("a sample");
        assert!(min_rtt >= rtt && min_rtt < rtt + Duration::from_millis(5), "{min_rtt}");
    }
}

/// S7, U2: an application that sends little must not look like a slow path.
#[test]
fn a_slow_application_is_not_a_slow_path() {
    let scenario = Scenario { write_at_once: false, bytes: Some(0), ..Scenario::default() };
    let mut world = World::new(&scenario);
    world.run_until(at(1));
    for i in 0..40 {
        world.write(3_000);
        world.run_until(at(1) + Duration::from_millis(100).times(i + 1));
    }
    let snapshot = world.snapshot();
    assert_eq!(snapshot.state, State::Startup, "no plateau: the samples are application-limited");
    assert!(snapshot.app_limited && !snapshot.bbr.expect("a model").full_bw_reached);
    assert_eq!(world.received, 120_000);
}

/// The client's window is 1.3 BDP, so that noq has nothing to send in each round trip, and the
/// application has data. That is no application limit: the flow leaves Startup, and keeps the queue
/// that it has without the window. BBRv1 goes on with a probe until 1.25 BDP are in flight, so that
/// its window is larger.
#[test]
fn flow_control_is_no_application_limit() {
    for (algorithm, receive_window) in [(Algorithm::BBR3, 650_000), (Algorithm::BBR1, 900_000)] {
        let mut world = World::new(&Scenario {
            cc: Cc::Ours(algorithm),
            buffer_bytes: 2_000_000,
            receive_window,
            ..Scenario::default()
        });
        world.run_until(at(3));
        let bbr = world.snapshot().bbr.expect("a model");
        assert!(bbr.full_bw_reached, "{algorithm}: it is in Startup");
        let (received, packets) = (world.received, world.queued.len());
        world.run_until(at(6));
        world.queued.drain(..packets);
        let queue = world.queue_quantile(0.5);
        assert!(queue < Duration::from_millis(2), "{algorithm}: {queue}");
        let mbit = (world.received - received) * 8 / 3_000_000;
        assert!(mbit >= 88, "{algorithm}: {mbit} Mbit/s");
    }
}

/// A8: bits were told for bytes (quinn's metrics). noq wants the rate in bytes and the bandwidth in
/// bits per second.
#[test]
fn noq_is_told_in_its_own_units() {
    let mut world = World::new(&Scenario::default());
    world.run_until(at(3));
    let (metrics, snapshot) = (world.metrics(), world.snapshot());
    let rate = snapshot.pacing_rate.expect("paced").as_bytes_per_sec();
    assert_eq!(metrics.pacing_rate, Some(rate));
    assert_eq!(metrics.congestion_window, snapshot.cwnd);
    let bits = metrics.bandwidth_estimate.expect("a model");
    assert!((90_000_000..=100_000_000).contains(&bits), "{bits} bit/s on 100 Mbit/s");
}

/// W9: after a change of path the old packets still counted down, and bytes in flight with them
/// (our forerunner). noq keeps the controller within an address family, and so the rate.
#[test]
fn a_migration_keeps_the_rate_and_the_count() {
    let bytes = 60_000_000;
    let mut world = World::new(&Scenario { bytes: Some(bytes), ..Scenario::default() });
    world.run_until(at(2));
    let before = world.received;
    world.migrate();
    world.run_until(at(4));
    let got = world.received - before;
    assert!(got > 22_000_000, "{got} bytes in two seconds of 100 Mbit/s");
    while world.received < bytes && world.now < at(60) {
        world.run_until(world.now + Duration::from_secs(1));
    }
    assert_eq!(world.received, bytes);
    world.run_until(world.now + Duration::from_secs(1));
    assert_eq!(world.snapshot().inflight, 0);
}

/// What noq lacks: one packet of the client that somebody forwards from another address takes the
/// model, and the client's next packet takes it again. noq keeps the path before only if that was
/// *not* validated (docs/noq.md), and builds a new controller for the return as well. With a noq
/// that keeps it the model of before is back, and this test is to say so.
#[test]
fn a_forwarded_packet_costs_the_model_in_noq_1_4() {
    let mut world = World::new(&Scenario::default());
    world.run_until(at(3));
    let before = world.snapshot();
    assert!(before.bbr.expect("a model").full_bw_reached);
    world.forward_one();
    let elsewhere = world.snapshot();
    assert_eq!((elsewhere.state, elsewhere.delivered), (State::Startup, 0), "{elsewhere:?}");
    let now = world.now;
    world.run_until(now + Duration::from_millis(20));
    let back = world.snapshot();
    assert!(back.delivered < before.delivered, "{back:?}");
    assert_eq!(back.state, State::Startup);
}

/// A transfer to a client on a path that loses one packet of four behind each gap that noq leaves in
/// its numbers. Returns the client and the packets and losses that the server counts after 3 s.
fn with_acks(acknowledged: Acknowledged) -> (SharedClient, u64, u64) {
    let client = SharedClient::new(acknowledged);
    let mut world = World::new(&Scenario {
        cc: Cc::Ours(Algorithm::CUBIC),
        // The path loses nothing else.
        buffer_bytes: 20_000_000,
        client: Some(client.clone()),
        ..Scenario::default()
    });
    world.run_until(at(3));
    let stats = world.stats();
    (client, world.arrivals.len() as u64, stats.lost_packets)
}

/// A gap of noq: it remembers the gap in its numbers that it left last, so that a client which
/// acknowledges all numbers but that one loses packets without anybody noticing (docs/noq.md). A
/// noq that leaves gaps a client cannot foresee ends this connection, and this test is to say so.
#[test]
fn behind_a_gap_noq_1_4_believes_acks_of_what_was_lost() {
    let (client, sent, lost) = with_acks(Acknowledged::AllButTheLastGap);
    let client = client.lock().clone();
    println!("{sent} packets, {} lost, {lost} counted; {:?}", client.lost, client.gaps);
    assert_eq!(lost, 0);
    assert!(client.lost > 100, "{client:?}");
    assert!(client.gaps_acknowledged > 4, "{client:?}");

    let (honest, honestly_sent, counted) = with_acks(Acknowledged::Honest);
    println!("honest: {honestly_sent} packets, {} lost, {counted} counted", honest.lock().lost);
    assert!(counted > 0 && sent > 3 * honestly_sent, "{sent} beside {honestly_sent} packets");
}

#[test]
#[should_panic(expected = "unsent packet acked")]
fn an_ack_of_the_last_gap_ends_the_connection() {
    with_acks(Acknowledged::All);
}

/// R5, R7: a timeout threw the model away, and the flow never came back (freenet #2699, our
/// forerunner). Two seconds without a packet are persistent congestion; once a packet has come
/// through again, the link is full within a second.
#[test]
fn a_black_hole_takes_nothing_from_the_rate_after_it() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR1] {
        let mut world = World::new(&Scenario { cc: Cc::Ours(algorithm), ..Scenario::default() });
        world.run_until(at(3));
        let before = world.snapshot().bbr.expect("a model");
        world.set_loss(1.0);
        world.run_until(at(5));
        world.set_loss(0.0);
        let received = world.received;
        while world.received == received {
            world.run_until(world.now + Duration::from_millis(1));
            assert!(world.now < at(7), "{algorithm}: nothing came");
        }
        let after = world.snapshot().bbr.expect("a model");
        assert_eq!(after.min_rtt, before.min_rtt, "{algorithm}");
        let (kept, had) = (after.max_bw.as_bytes_per_sec(), before.max_bw.as_bytes_per_sec());
        assert!(kept > had * 95 / 100, "{algorithm}: {kept} of {had}");
        world.run_until(world.now + Duration::from_secs(1));
        let received = world.received;
        world.run_until(world.now + Duration::from_secs(1));
        let got = (world.received - received) * 8;
        assert!(got > 90_000_000, "{algorithm}: {got} bit/s");
    }
}

/// The same run twice is the same run.
#[test]
fn a_run_repeats() {
    let run = || {
        let mut world = World::new(&Scenario { loss: 0.005, ..Scenario::default() });
        world.run_until(at(3));
        (world.received, world.arrivals.len(), world.snapshot())
    };
    assert_eq!(run(), run());
}

/// On the exact path, where nothing but the algorithms differs: more goodput than noq's own BBRv3.
/// That one draws its probe times from a generator that nobody can seed: its figures vary from run
/// to run, and its queue on either side of ours.
#[test]
fn ours_beside_that_of_noq() {
    let run = |cc, buffer_bytes, loss| {
        let mut world = World::new(&Scenario { cc, buffer_bytes, loss, ..Scenario::default() });
        world.run_until(at(10));
        println!(
            "{cc:?}, buffer {buffer_bytes} B, loss {loss}: {:.1} Mbit/s, queue p95 {}",
            world.received as f64 * 8e-7,
            world.queue_quantile(0.95),
        );
        world.received
    };
    for (buffer_bytes, loss) in [(3_000_000, 0.0), (500_000, 0.01)] {
        let ours = run(Cc::Ours(Algorithm::BBR3), buffer_bytes, loss);
        let noqs = run(Cc::NoqBbr3, buffer_bytes, loss);
        assert!(ours > noqs, "{ours} beside {noqs} bytes in 10 s");
    }
}
