//! The distribution of paths.

use crate::case::{Case, Disturbance, Ecn, Kind, RateFactor, Shape};
use crate::chance::Chance;
use crate::ranges as of;

/// Kinds of which a path has at most one, as both decide the same part of it.
const EXCLUSIVE: [&[Kind]; 4] = [
    &[Kind::Trace, Kind::RateStep],
    &[Kind::Policer, Kind::Shaper],
    &[Kind::ManyFlows, Kind::RttMix],
    &[Kind::Requests, Kind::Media],
];

/// Draws path number `path`, which depends on these three alone. The disturbances are of the kinds
/// given, or of all where none is.
pub fn draw(seed: u64, path: u64, kinds: &[Kind]) -> Case {
    let mut chance = Chance::of(seed, path);
    let rate_mbps = of::RATE_MBPS.draw(&mut chance);
    let rtt_ms = of::RTT_MS.draw(&mut chance);
    let buffer_bdp = of::BUFFER_BDP.draw(&mut chance);
    // Two of five paths have several flows.
    let several = chance.whole(1, 5) <= 2;
    let flows = if several { chance.whole(2, 4) } else { 1 };
    let stagger_ms = of::STAGGER_MS.draw(&mut chance);
    let tcp = chance.once_in(5);
    let seed = chance.whole(1, 1 << 32);
    let disturbances = Vec::new();
    let mut case =
        Case { path, seed, rate_mbps, rtt_ms, buffer_bdp, flows, stagger_ms, tcp, disturbances };
    let mut chosen = choose(&mut chance, kinds);
    // A trace decides the rate to which others are in proportion.
    chosen.sort_by_key(|kind| (*kind != Kind::Trace, *kind));
    for kind in chosen {
        let disturbance = disturbance(&mut chance, kind, &case);
        case.disturbances.push(disturbance);
    }
    case
}

/// One to three kinds that go together.
fn choose(chance: &mut Chance, kinds: &[Kind]) -> Vec<Kind> {
    // Of twenty paths eight have one disturbance, seven have two and five have three.
    let wanted = match chance.whole(1, 20) {
        1..=8 => 1,
        9..=15 => 2,
        _ => 3,
    };
    let mut left: Vec<Kind> = if kinds.is_empty() { Kind::ALL.to_vec() } else { kinds.to_vec() };
    left.sort();
    left.dedup();
    let mut chosen = Vec::new();
    // Whatever else disturbs a path, it may lose packets as well.
    let may_lose = wanted > 1 && left.len() > 1 && left.contains(&Kind::RandomLoss);
    if may_lose && chance.once_in(3) {
        left.retain(|kind| *kind != Kind::RandomLoss);
        chosen.push(Kind::RandomLoss);
    }
    while chosen.len() < wanted && !left.is_empty() {
        let kind = chance.one_of(&left);
        let ends = |other: &Kind| {
            *other == kind || EXCLUSIVE.iter().any(|e| e.contains(&kind) && e.contains(other))
        };
        left.retain(|other| !ends(other));
        chosen.push(kind);
    }
    chosen
}

/// The algorithm of a flow that is not under test: CUBIC in three of four.
fn other(chance: &mut Chance) -> String {
    if chance.once_in(4) { "bbr3" } else { "cubic" }.to_owned()
}

fn disturbance(chance: &mut Chance, kind: Kind, case: &Case) -> Disturbance {
    let (rtt_ms, rate_mbps) = (case.rtt_ms, case.nominal_mbps());
    match kind {
        Kind::Jitter => Disturbance::Jitter {
            jitter_ms: of::JITTER_MS.draw_of(chance, rtt_ms),
            shape: chance.one_of(&[Shape::Uniform, Shape::Uniform, Shape::Pareto, Shape::Wifi]),
        },
        Kind::Reordering => Disturbance::Reordering {
            chance_percent: of::LATE_PERCENT.draw(chance),
            delay_ms: of::LATE_MS.draw_of(chance, rtt_ms),
        },
        Kind::AckBursts => Disturbance::AckBursts {
            interval_ms: of::ACK_INTERVAL_MS.draw(chance),
            keep_one_in: chance.one_of(&[1, 1, 1, 4, 16]),
        },
        Kind::AckLoss => Disturbance::AckLoss { loss_percent: of::ACK_LOSS_PERCENT.draw(chance) },
        Kind::TwoWay => Disturbance::TwoWay {
            rate_mbps: of::UP_RATE_MBPS.draw_of(chance, rate_mbps),
            buffer_ms: of::UP_BUFFER_MS.draw(chance),
            flows: chance.whole(1, 3),
            cc: other(chance),
        },
        Kind::RttStep => {
            let more_ms = of::RTT_STEP_MS.draw_of(chance, rtt_ms);
            let down = chance.once_in(3);
            let at_percent = of::RTT_STEP_AT_PERCENT.draw(chance);
            Disturbance::RttStep {
                before_ms: if down { more_ms } else { 0.0 },
                after_ms: if down { 0.0 } else { more_ms },
                at_percent,
                back_percent: chance.once_in(3).then(|| at_percent + chance.whole(5, 30) as f64),
            }
        }
        Kind::RateStep => {
            let several = chance.whole(1, 3);
            let steps = (0..several).map(|i| RateFactor {
                at_percent: 30.0 + 20.0 * i as f64 + chance.even(0.0, 15.0),
                factor: of::RATE_FACTOR.within(of::RATE_MBPS, rate_mbps).draw(chance),
            });
            Disturbance::RateStep { steps: steps.collect() }
        }
        Kind::LateHost => Disturbance::LateHost { late_ms: of::HOST_LATE_MS.draw(chance) },
        Kind::Policer => Disturbance::Policer {
            rate_percent: of::BUCKET_RATE_PERCENT.draw(chance),
            bucket_ms: of::BUCKET_MS.draw(chance),
        },
        Kind::Shaper => Disturbance::Shaper {
            rate_percent: of::BUCKET_RATE_PERCENT.draw(chance),
            bucket_ms: of::BUCKET_MS.draw(chance),
            buffer_bdp: of::SHAPER_BUFFER_BDP.draw(chance),
        },
        Kind::RandomLoss => Disturbance::RandomLoss { loss_percent: of::LOSS_PERCENT.draw(chance) },
        Kind::LossBursts => {
            let every_ms = of::OUTAGE_EVERY_MS.draw(chance);
            let lasts_ms = of::OUTAGE_LASTS_MS.draw_of(chance, every_ms);
            Disturbance::LossBursts { every_ms, lasts_ms }
        }
        Kind::Trace => Disturbance::Trace { name: chance.one_of(&["lte", "wifi"]) },
        Kind::Cross => Disturbance::Cross {
            rate_percent: of::CROSS_PERCENT.draw(chance),
            poisson: !chance.once_in(3),
        },
        Kind::Aqm => Disturbance::Aqm {
            queue: chance.one_of(&["codel", "fq_codel", "pie", "red", "dualpi2", "step"]),
            ecn: chance.one_of(&[Ecn::Off, Ecn::Classic, Ecn::L4s]),
        },
        Kind::ManyFlows => Disturbance::ManyFlows {
            flows: of::MANY_FLOWS.draw(chance).round() as u64,
            stagger_ms: of::MANY_STAGGER_MS.draw(chance),
        },
        Kind::Requests => {
            let response_kb = of::RESPONSE_KB.draw_of(chance, case.bdp_bytes() / 1e3);
            let think_ms = of::THINK_MS.draw(chance);
            // Beside bulk flows the time of long pauses would be theirs.
            let alone = chance.once_in(2) || think_ms > 1e3;
            Disturbance::Requests { response_kb, think_ms, alone }
        }
        Kind::Media => Disturbance::Media {
            rate_percent: of::MEDIA_PERCENT.draw(chance),
            alone: chance.once_in(2),
        },
        Kind::RttMix => Disturbance::RttMix {
            extra_ms: of::EXTRA_RTT_MS.draw_of(chance, rtt_ms),
            flows: chance.whole(1, 3),
        },
        Kind::Competitor => Disturbance::Competitor {
            cc: other(chance),
            flows: chance.whole(1, 2),
            start_percent: of::COMPETITOR_START_PERCENT.draw(chance),
            visits: chance.one_of(&[1, 2, 3, 5]),
        },
        Kind::Handovers => Disturbance::Handovers {
            more_ms: (0..4).map(|_| of::HANDOVER_MS.draw(chance)).collect(),
            lasts_ms: of::HANDOVER_LASTS_MS.draw(chance),
        },
        Kind::ReceiveWindow => {
            Disturbance::ReceiveWindow { window_bdp: of::WINDOW_BDP.draw(chance) }
        }
        Kind::SendBuffer => {
            Disturbance::SendBuffer { buffer_bdp: of::SEND_BUFFER_BDP.draw(chance) }
        }
        Kind::PacketSize => Disturbance::PacketSize { mss: of::MSS.draw(chance).round() as u64 },
    }
}

/// The distribution for people: what is drawn, what it does, and from which numbers.
pub fn table() -> Vec<[String; 3]> {
    let row = |name: &str, what: &str, numbers: String| [name.to_owned(), what.to_owned(), numbers];
    let mut rows = vec![
        row("rate", "of the bottleneck", of::RATE_MBPS.to_string()),
        row("RTT", "of the empty path", of::RTT_MS.to_string()),
        row(
            "buffer",
            "of the bottleneck, at least 4 packets, with aqm 40",
            of::BUFFER_BDP.to_string(),
        ),
        row(
            "flows",
            "bulk, under test",
            format!("1 in three of five, else 2 to 4 whose starts are {} apart", of::STAGGER_MS),
        ),
        row("transport", "of all flows", "TCP in one of five, else QUIC".to_owned()),
        row(
            "disturbances",
            "each of another kind",
            "1 in 40 %, 2 in 35 %, 3 in 25 %; one of several is random-loss in one of three paths"
                .to_owned(),
        ),
    ];
    rows.extend(Kind::ALL.into_iter().map(|kind| {
        let (what, numbers) = words(kind);
        row(kind.name(), what, numbers)
    }));
    rows
}

fn words(kind: Kind) -> (&'static str, String) {
    let other = "CUBIC in three of four, else bbr3";
    match kind {
        Kind::Jitter => (
            "each packet is late by a spread, in order",
            format!("{}; uniform in half, else Pareto or Wi-Fi", of::JITTER_MS),
        ),
        Kind::Reordering => (
            "some packets are late, and others overtake them",
            format!("{}; late by {}", of::LATE_PERCENT, of::LATE_MS),
        ),
        Kind::AckBursts => (
            "the way back holds ACKs and lets them go together",
            format!(
                "for {}; all are kept in three of five, else one in 4 or 16",
                of::ACK_INTERVAL_MS
            ),
        ),
        Kind::AckLoss => ("the way back loses ACKs", of::ACK_LOSS_PERCENT.to_string()),
        Kind::TwoWay => (
            "flows upload into a bottleneck on the way of the ACKs",
            format!("{}; its buffer {}; 1 to 3 flows, {other}", of::UP_RATE_MBPS, of::UP_BUFFER_MS),
        ),
        Kind::RttStep => (
            "the RTT grows at a time, or shrinks in one of three",
            format!(
                "by {}; at {} of the run; in one of three back after 5 to 30 % more",
                of::RTT_STEP_MS,
                of::RTT_STEP_AT_PERCENT
            ),
        ),
        Kind::RateStep => (
            "the rate changes at 1 to 3 times",
            format!(
                "to {} x the base's, within 1 to 500 Mbit/s; at 30 to 45 %, 50 to 65 % and 70 to 85 % of the run",
                of::RATE_FACTOR
            ),
        ),
        Kind::LateHost => {
            ("the sender's host wakes up late, by up to this", of::HOST_LATE_MS.to_string())
        }
        Kind::Policer => (
            "a token bucket that drops",
            format!("at {} of the rate; its tokens {}", of::BUCKET_RATE_PERCENT, of::BUCKET_MS),
        ),
        Kind::Shaper => (
            "a token bucket that queues",
            format!(
                "at {} of the rate; its tokens {}; its buffer {}",
                of::BUCKET_RATE_PERCENT,
                of::BUCKET_MS,
                of::SHAPER_BUFFER_BDP
            ),
        ),
        Kind::RandomLoss => ("each packet is lost by chance", of::LOSS_PERCENT.to_string()),
        Kind::LossBursts => (
            "everything is lost for a time",
            format!("each {}; for {}", of::OUTAGE_EVERY_MS, of::OUTAGE_LASTS_MS),
        ),
        Kind::Trace => ("the rate follows a trace", "`lte` or `wifi`".to_owned()),
        Kind::Cross => (
            "packets that react to nothing",
            format!("{}; Poisson in two of three, else constant", of::CROSS_PERCENT),
        ),
        Kind::Aqm => (
            "a queue discipline",
            "CoDel, FQ-CoDel, PIE, RED, DualPI2 or a step at a sixth of the buffer; flows without ECN, with classic ECN, or with L4S".to_owned(),
        ),
        Kind::ManyFlows => (
            "so many bulk flows under test",
            format!("{}; their starts {} apart", of::MANY_FLOWS, of::MANY_STAGGER_MS),
        ),
        Kind::Requests => (
            "a flow under test of answers to requests; half of the time alone, always if it pauses for more than 1 s",
            format!(
                "answers of {}; {} between an answer and the next request",
                of::RESPONSE_KB,
                of::THINK_MS
            ),
        ),
        Kind::Media => (
            "a flow under test of 30 frames a second; half of the time alone",
            of::MEDIA_PERCENT.to_string(),
        ),
        Kind::RttMix => {
            ("1 to 3 bulk flows under test that are farther away", of::EXTRA_RTT_MS.to_string())
        }
        Kind::Competitor => (
            "1 or 2 flows of another algorithm",
            format!(
                "{other}; they start at {} of the run; in one of four they stay, else they come 2, 3 or 5 times",
                of::COMPETITOR_START_PERCENT
            ),
        ),
        Kind::Handovers => (
            "each 15 s the RTT changes, and all is lost for a time, as between satellites",
            format!("4 additions of {} in turn; for {}", of::HANDOVER_MS, of::HANDOVER_LASTS_MS),
        ),
        Kind::ReceiveWindow => {
            ("the room of each receiver under test, at least 4 packets", of::WINDOW_BDP.to_string())
        }
        Kind::SendBuffer => (
            "what a bulk sender under test keeps until it is acknowledged, at least 4 packets",
            of::SEND_BUFFER_BDP.to_string(),
        ),
        Kind::PacketSize => ("payload of the full packets of all flows", of::MSS.to_string()),
    }
}
