//! The path of a case: two network namespaces, and between them the link of this program.

use std::path::Path;

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::tun::TunConfig;
use fullpipe_emu::{Rebinding, Rebound};
use fullpipe_path::{ElementConfig, LossConfig, PathConfig, Probability, QueueLimit};

use super::cases::{Case, Kind};

/// The path that every case has unless it says otherwise.
const RATE: Rate = Rate::from_bits_per_sec(10_000_000);
const DELAY: Duration = Duration::from_millis(15);
const QUEUE_PACKETS: u64 = 25;

/// Delay of the case with a long round trip.
const LONG_DELAY: Duration = Duration::from_millis(750);

/// Most packets in a row that are lost.
const IN_A_ROW: u32 = 3;

/// Packets of the client that are dropped in the case of the amplification limit, the first one
/// being 0.
const DROPPED: [u64; 6] = [1, 2, 3, 4, 5, 6];

/// Times of the blackhole, and of new ports and addresses.
const PASSES: u64 = 5;
const SWALLOWS: u64 = 2;
const FIRST_REBINDING: u64 = 1;
const BETWEEN_REBINDINGS: u64 = 5;

/// The link of a case. Its times count from the start of the client. `seed` is that of everything
/// random.
pub(super) fn link(case: &Case, seed: u64, capture: &Path) -> TunConfig {
    let (up, down) = (direction(case, true, seed), direction(case, false, seed.wrapping_add(1)));
    TunConfig {
        capture: Some(capture.to_owned()),
        ipv6: true,
        rebind: rebindings(case),
        ..TunConfig::new(up, down)
    }
}

/// The elements that packets pass: those that lose or change them, then the bottleneck and its
/// queue, then the distance.
fn direction(case: &Case, is_up: bool, seed: u64) -> PathConfig {
    let mut row = Vec::new();
    let percent = |percent: f64| Probability::new(percent / 100.0);
    let lost = |share: f64| {
        percent(share).map(|probability| {
            ElementConfig::Loss(LossConfig::Limited { probability, in_a_row: IN_A_ROW })
        })
    };
    let corrupted = |share: f64| percent(share).map(ElementConfig::Corruption);
    row.extend(match case.kind {
        Kind::HandshakeLoss => lost(30.0).ok(),
        Kind::TransferLoss => lost(2.0).ok(),
        Kind::HandshakeCorruption => corrupted(30.0).ok(),
        Kind::TransferCorruption => corrupted(2.0).ok(),
        Kind::AmplificationLimit if is_up => {
            Some(ElementConfig::Loss(LossConfig::Listed(DROPPED.to_vec())))
        }
        Kind::Blackhole => Some(ElementConfig::Blackhole(outages(case))),
        _ => None,
    });
    row.push(ElementConfig::Bottleneck {
        rate: RATE.into(),
        queue: QueueLimit::Packets(QUEUE_PACKETS).into(),
    });
    row.push(ElementConfig::Delay(match case.kind {
        Kind::LongRtt => LONG_DELAY,
        _ => DELAY,
    }));
    PathConfig { row, seed }
}

fn outages(case: &Case) -> Vec<(Duration, Duration)> {
    let period = PASSES + SWALLOWS;
    let starts = (0..=case.timeout.as_secs() / period).map(|n| n * period + PASSES);
    starts.map(|at| (Duration::from_secs(at), Duration::from_secs(at + SWALLOWS))).collect()
}

fn rebindings(case: &Case) -> Vec<Rebinding> {
    let what: &[Rebound] = match case.kind {
        Kind::RebindPort => &[Rebound::Port],
        Kind::RebindAddr => &[Rebound::Port, Rebound::Address],
        _ => &[],
    };
    let count = case.timeout.as_secs() / BETWEEN_REBINDINGS;
    let times = (0..count).map(|n| Duration::from_secs(FIRST_REBINDING + n * BETWEEN_REBINDINGS));
    times.flat_map(|at| what.iter().map(move |what| Rebinding { at, what: *what })).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cases::{CASES, MEASUREMENTS};
    use super::*;

    #[test]
    fn every_case_has_a_path_that_can_be_built() {
        for case in CASES.iter().chain(&MEASUREMENTS) {
            let link = link(case, 1, Path::new("/x"));
            for path in [&link.uplink, &link.downlink] {
                path.validate().unwrap_or_else(|wrong| panic!("{}: {wrong}", case.name));
                assert_eq!(
                    path.least_delay(),
                    if case.kind == Kind::LongRtt { LONG_DELAY } else { DELAY }
                );
            }
            let has_more = |path: &PathConfig| path.row.len() > 2;
            let name = case.name;
            let both = name.contains("loss") || name.contains("corruption") || name == "blackhole";
            assert_eq!(has_more(&link.downlink), both, "{name}");
            assert_eq!(has_more(&link.uplink), both || name == "amplificationlimit", "{name}");
            assert_eq!(link.rebind.is_empty(), !name.starts_with("rebind"), "{name}");
        }
        let addresses = |kind| {
            let case = CASES.iter().find(|case| case.kind == kind).expect("a case");
            rebindings(case).iter().filter(|r| r.what == Rebound::Address).count()
        };
        assert_eq!((addresses(Kind::RebindPort), addresses(Kind::RebindAddr)), (0, 12));
    }
}
