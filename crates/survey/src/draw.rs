//! The distribution of paths; docs/survey.md has it as a table.

use crate::case::{Case, Disturbance, Kind, RateFactor};
use crate::chance::Chance;

/// The least and the most of each number of the base.
pub mod base {
    /// Rate of the bottleneck, spread by its logarithm.
    pub const RATE_MBPS: (f64, f64) = (1.0, 500.0);
    /// Round trip, spread by its logarithm.
    pub const RTT_MS: (f64, f64) = (2.0, 300.0);
    /// Buffer, spread by its logarithm.
    pub const BUFFER_BDP: (f64, f64) = (0.1, 16.0);
    /// Flows, where there is more than one.
    pub const FLOWS: (u64, u64) = (2, 4);
}

/// Kinds of which a path has at most one, as both decide the same part of it.
const EXCLUSIVE: [&[Kind]; 4] = [
    &[Kind::Trace, Kind::RateStep],
    &[Kind::Policer, Kind::Shaper],
    &[Kind::ManyFlows, Kind::RttMix],
    &[Kind::Requests, Kind::Media],
];

/// Draws path number `path`, which depends on these three alone. The disturbances are of the kinds given, or of all
/// where none is.
pub fn draw(seed: u64, path: u64, kinds: &[Kind]) -> Case {
    let mut chance = Chance::of(seed, path);
    let (least, most) = base::RATE_MBPS;
    let rate_mbps = chance.spread(least, most);
    let (least, most) = base::RTT_MS;
    let rtt_ms = chance.spread(least, most);
    let (least, most) = base::BUFFER_BDP;
    let buffer_bdp = chance.spread(least, most);
    // Two of five paths have several flows.
    let several = chance.whole(1, 5) <= 2;
    let flows = if several { chance.whole(base::FLOWS.0, base::FLOWS.1) } else { 1 };
    let stagger_ms = chance.spread(10.0, 2000.0);
    let tcp = chance.once_in(5);
    let mut case = Case {
        path,
        seed: chance.whole(1, 1 << 32),
        rate_mbps,
        rtt_ms,
        buffer_bdp,
        flows,
        stagger_ms,
        tcp,
        disturbances: Vec::new(),
    };
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
    while chosen.len() < wanted && !left.is_empty() {
        let kind = chance.one_of(&left);
        let ends = |other: &Kind| {
            *other == kind || EXCLUSIVE.iter().any(|e| e.contains(&kind) && e.contains(other))
        };
        left.retain(|other| !ends(other));
        chosen.push(kind);
    }
    // A trace decides the rate to which others are in proportion.
    chosen.sort_by_key(|kind| (*kind != Kind::Trace, *kind));
    for kind in chosen {
        let disturbance = disturbance(&mut chance, kind, &case);
        case.disturbances.push(disturbance);
    }
    case
}

/// The algorithm of a flow that is not under test: CUBIC's in three of four.
fn other(chance: &mut Chance) -> String {
    if chance.once_in(4) { "bbr3" } else { "cubic" }.to_owned()
}

fn disturbance(chance: &mut Chance, kind: Kind, case: &Case) -> Disturbance {
    let rtt_ms = case.rtt_ms;
    let rate_mbps = case.nominal_mbps();
    match kind {
        Kind::Jitter => {
            Disturbance::Jitter { jitter_ms: chance.spread(1.0, (1.5 * rtt_ms).min(100.0)) }
        }
        Kind::Reordering => Disturbance::Reordering {
            chance_percent: chance.spread(0.1, 5.0),
            delay_ms: chance.spread((rtt_ms / 20.0).max(0.5), (0.75 * rtt_ms).min(100.0)),
        },
        Kind::AckBursts => Disturbance::AckBursts {
            interval_ms: chance.spread(5.0, 100.0),
            keep_one_in: chance.one_of(&[1, 1, 1, 4, 16]),
        },
        Kind::AckLoss => Disturbance::AckLoss { loss_percent: chance.spread(1.0, 30.0) },
        Kind::TwoWay => Disturbance::TwoWay {
            rate_mbps: chance.spread((rate_mbps / 20.0).max(0.2), rate_mbps),
            buffer_ms: chance.spread(20.0, 1000.0),
            flows: chance.whole(1, 3),
            cc: other(chance),
        },
        Kind::RttStep => {
            let more_ms = chance.spread(rtt_ms / 10.0, (3.0 * rtt_ms).min(300.0));
            let down = chance.once_in(3);
            let at_percent = chance.even(30.0, 50.0);
            Disturbance::RttStep {
                before_ms: if down { more_ms } else { 0.0 },
                after_ms: if down { 0.0 } else { more_ms },
                at_percent,
                back_percent: chance.once_in(3).then(|| at_percent + chance.whole(5, 30) as f64),
            }
        }
        Kind::RateStep => {
            let several = chance.whole(1, 3);
            let (least, most) = base::RATE_MBPS;
            let steps = (0..several).map(|i| RateFactor {
                at_percent: 30.0 + 20.0 * i as f64 + chance.even(0.0, 15.0),
                factor: chance.spread((least / rate_mbps).max(0.1), (most / rate_mbps).min(4.0)),
            });
            Disturbance::RateStep { steps: steps.collect() }
        }
        Kind::LateHost => Disturbance::LateHost { late_ms: chance.spread(1.0, 20.0) },
        Kind::Policer => Disturbance::Policer {
            rate_percent: chance.even(30.0, 90.0),
            bucket_ms: chance.spread(5.0, 500.0),
        },
        Kind::Shaper => Disturbance::Shaper {
            rate_percent: chance.even(30.0, 90.0),
            bucket_ms: chance.spread(5.0, 500.0),
            buffer_bdp: chance.spread(0.5, 8.0),
        },
        Kind::RandomLoss => Disturbance::RandomLoss { loss_percent: chance.spread(0.01, 3.0) },
        Kind::LossBursts => Disturbance::LossBursts {
            every_ms: chance.spread(500.0, 8000.0),
            lasts_ms: chance.spread(2.0, 200.0),
        },
        Kind::Trace => Disturbance::Trace { name: chance.one_of(&["lte", "wifi"]) },
        Kind::Cross => {
            Disturbance::Cross { rate_percent: chance.even(5.0, 70.0), poisson: !chance.once_in(3) }
        }
        Kind::Aqm => Disturbance::Aqm {
            queue: chance.one_of(&["codel", "fq_codel", "pie", "red"]),
            ecn: chance.once_in(3),
        },
        Kind::ManyFlows => Disturbance::ManyFlows {
            flows: chance.spread(8.0, 40.0).round() as u64,
            stagger_ms: chance.spread(1.0, 150.0),
        },
        Kind::Requests => Disturbance::Requests {
            // What the link carries in 20 ms to a second.
            response_kb: chance.spread((rate_mbps * 2.5).max(5.0), rate_mbps * 125.0).max(5.0),
            think_ms: chance.spread(10.0, 500.0),
            alone: chance.once_in(2),
        },
        Kind::Media => {
            Disturbance::Media { rate_percent: chance.even(5.0, 80.0), alone: chance.once_in(2) }
        }
        Kind::RttMix => Disturbance::RttMix {
            extra_ms: chance.spread(rtt_ms / 2.0, (10.0 * rtt_ms).min(300.0)),
            flows: chance.whole(1, 3),
        },
        Kind::Competitor => Disturbance::Competitor {
            cc: other(chance),
            flows: chance.whole(1, 2),
            start_percent: chance.even(0.0, 15.0),
        },
    }
}
