//! After whatever disturbance: a flow that is not application-limited is back at 90 % of a clean
//! link within so many round trips.
//!
//! `PROPTEST_CASES` sets the number of histories.

use fullpipe_cc::{Algorithm, Duration, PacketState, Rate, SendDecision};
use proptest::prelude::*;

use crate::test_link::{Link, MS, SMSS};

/// A disturbance of the flow before the link is clean.
#[derive(Clone, Debug)]
enum Disturbance {
    /// Nothing, for so many ms.
    Nothing(u64),
    /// One packet in so many is lost, for so many ms.
    Losses(u64, u64),
    /// This number of packets in succession is lost.
    Burst(u64),
    /// The flight is lost, and the timeout fires after so many ms, so many times.
    Timeouts(u64, u8),
    /// The flight is lost and sent again in the same instant.
    LostAndSentAgain,
    /// Every packet that queues is marked with CE, and one in so many is lost, for so many ms.
    Marks(u64, u64),
    /// The application has nothing to send for so many ms.
    Idle(u64),
    /// The application sends so many packets every so many ms, ten times.
    Trickle(u64, u64),
    /// The receiver's window has room for so many packets, or for none, for so many ms.
    Window(u64, u64),
    /// The link has one part in so many of its rate for so many ms.
    Slower(u64, u64),
    /// Packets marked lost have arrived.
    Spurious,
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        2 => (1u64..2_000).prop_map(Disturbance::Nothing),
        2 => (2u64..60, 1u64..1_000).prop_map(|(n, ms)| Disturbance::Losses(n, ms)),
        2 => (1u64..200).prop_map(Disturbance::Burst),
        3 => (1u64..1_000, 1u8..5).prop_map(|(ms, n)| Disturbance::Timeouts(ms, n)),
        1 => Just(Disturbance::LostAndSentAgain),
        1 => (2u64..200, 1u64..500).prop_map(|(n, ms)| Disturbance::Marks(n, ms)),
        2 => (1u64..30_000).prop_map(Disturbance::Idle),
        2 => (1u64..10, 1u64..500).prop_map(|(n, ms)| Disturbance::Trickle(n, ms)),
        2 => (0u64..200, 1u64..5_000).prop_map(|(n, ms)| Disturbance::Window(n, ms)),
        1 => (2u64..20, 1u64..1_000).prop_map(|(n, ms)| Disturbance::Slower(n, ms)),
        1 => Just(Disturbance::Spurious),
    ]
}

fn lose_flight(link: &mut Link, is_timeout: bool) {
    let flight: Vec<PacketState> = link.flight.drain(..).map(|f| f.packet).collect();
    let mut batch = link.cc.ack(link.now);
    if is_timeout {
        batch.timeout();
    }
    flight.iter().for_each(|p| batch.lost(p));
    batch.finish();
}

fn disturb(link: &mut Link, disturbance: &Disturbance) {
    match *disturbance {
        Disturbance::Nothing(ms) => link.run(MS.times(ms)),
        Disturbance::Losses(n, ms) => link.run_losing(MS.times(ms), n),
        Disturbance::Burst(n) => {
            let (mut lost, end) = (0, link.now + Duration::from_secs(5));
            while lost < n && link.now < end {
                link.step(&mut || {
                    lost += 1;
                    lost <= n
                });
            }
        }
        Disturbance::Timeouts(ms, times) => {
            for _ in 0..times {
                link.now += MS.times(ms);
                lose_flight(link, true);
                link.send();
            }
            link.free = link.free.max(link.now);
        }
        Disturbance::LostAndSentAgain => {
            link.send();
            lose_flight(link, false);
            link.send();
        }
        Disturbance::Marks(n, ms) => {
            link.mark_above = Duration::ZERO;
            link.run_losing(MS.times(ms), n);
            link.mark_above = Duration::MAX;
        }
        Disturbance::Idle(ms) => {
            link.busy = false;
            link.run(MS.times(ms));
            link.busy = true;
        }
        Disturbance::Trickle(packets, ms) => {
            link.busy = false;
            for _ in 0..10 {
                for _ in 0..packets {
                    if matches!(link.cc.can_send(link.now), SendDecision::Now { .. }) {
                        link.send_packet();
                    }
                }
                link.run(MS.times(ms));
            }
            link.busy = true;
        }
        Disturbance::Window(packets, ms) => {
            link.credit = packets * SMSS;
            link.run(MS.times(ms));
            link.credit = u64::MAX;
        }
        Disturbance::Slower(part, ms) => {
            let rate = link.rate;
            link.rate = Rate::from_bytes_per_sec(rate.as_bytes_per_sec() / part);
            link.run(MS.times(ms));
            link.rate = rate;
        }
        Disturbance::Spurious => link.cc.on_spurious_loss(link.now),
    }
}

/// Round trips of the empty link until it carried 90 % over a span of ten of them, and how many may
/// pass. The queue that the history left behind leaves first.
fn rounds_until_full(link: &mut Link) -> (u64, u64) {
    link.run(link.free.since(link.now));
    let (start, span) = (link.now, link.rtt.times(10));
    // The history's last losses come into the model with the next ACK.
    let before = link.delivered;
    while link.delivered == before {
        link.step(&mut || false);
    }
    let bound = bound(link);
    while link.now.since(start) < span.times(200_000) {
        // Without a packet to wait for, a step is as long as the pacer's gap, perhaps more than the
        // span.
        let (began, before) = (link.now, link.delivered);
        link.run(span);
        let wanted = link.rate.bytes_in(link.now.since(began)) * 9 / 10;
        if link.delivered - before >= wanted {
            return (began.since(start).as_nanos() / link.rtt.as_nanos(), bound);
        }
    }
    panic!("not 90 % in {}: {:?}", link.now.since(start), link.cc);
}

/// The round trips that an algorithm may take.
///
/// BBRv3 learns of bandwidth in probes. The next one comes after at most 63 rounds, and fills the
/// pipe and raises the rate by a quarter a round in some 20. Two of three may not do it: ProbeRTT
/// starts the wait anew, and a probe ends when three rounds in which cwnd was not the limit have
/// raised the rate by less than a quarter each, as a pacing gain of 1.25 less the margin of 1 %
/// does. Swift's law ends a probe at a delay above its target as well. BBRv1 raises the rate by a
/// quarter in 8 rounds, 6 times in 64. It believes in a policer for 48 rounds of its own; these
/// have a packet at the least, which the policer's rate can make longer than a round trip. Reno
/// adds a packet a round, up to a BDP; CUBIC 9/17 of one at the least, while it has less than
/// before; Prague one in as many rounds as the square of 25 ms over the round trip, if that is
/// shorter. All are paced by a smoothed round-trip time, which forgets a longer one by an eighth
/// with each sample.
fn bound(link: &Link) -> u64 {
    const SPAN: u64 = 10;
    let bdp_packets = link.rate.bytes_in(link.rtt) / SMSS;
    let srtt = link.cc.snapshot().srtt.unwrap_or(link.rtt);
    let smoothing = 8 * srtt.as_nanos().div_ceil(link.rtt.as_nanos());
    match link.cc.algorithm() {
        Algorithm::BBR3
        | Algorithm::BBR3X
        | Algorithm::BBR3_LINUX
        | Algorithm::BBR3X_LINUX
        | Algorithm::BBR_SWIFT => 3 * (63 + 20) + SPAN,
        Algorithm::BBR1 => bbr1_policer_rounds(link) + 64 + SPAN,
        Algorithm::RENO => bdp_packets + smoothing + SPAN,
        Algorithm::PRAGUE => bdp_packets * prague_rounds(link) + smoothing + SPAN,
        _ => bdp_packets * 17 / 9 + smoothing + SPAN,
    }
}

/// Round trips in which Prague adds a packet.
fn prague_rounds(link: &Link) -> u64 {
    let (virtual_rtt, rtt) = (MS.times(25).as_nanos(), link.rtt.as_nanos());
    (virtual_rtt * virtual_rtt).div_ceil(rtt * rtt)
}

/// Round trips of the link in 48 of BBRv1's at the rate that it believes now.
fn bbr1_policer_rounds(link: &Link) -> u64 {
    let paced = link.bbr().bw.as_bytes_per_sec() * 99 / 100;
    let round = link.rtt + Rate::from_bytes_per_sec(paced.max(1)).time_for(SMSS);
    round.times(48).as_nanos().div_ceil(link.rtt.as_nanos())
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_flow_is_back_at_the_rate_of_a_clean_link(
        mbit in 5u64..100,
        rtt_ms in 10u64..100,
        history in prop::collection::vec(disturbance(), 1..12),
    ) {
        for name in Algorithm::NAMES {
            let algorithm: Algorithm = name.parse().expect("its own name");
            let mut link = Link::new(algorithm, mbit, MS.times(rtt_ms));
            history.iter().for_each(|d| disturb(&mut link, d));
            let (rounds, bound) = rounds_until_full(&mut link);
            prop_assert!(
                rounds <= bound,
                "{algorithm}: {rounds} round trips, bound {bound}; {:?}",
                link.cc
            );
        }
    }
}
