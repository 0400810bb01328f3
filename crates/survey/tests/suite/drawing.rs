//! The paths that are drawn.

use std::collections::BTreeMap;
use std::path::Path;

use fullpipe_survey::case::{Ecn, Shape};
use fullpipe_survey::draw::{draw, table};
use fullpipe_survey::{Case, Disturbance, Kind};

use crate::{options, survey};

#[test]
fn a_path_depends_on_seed_number_and_kinds_alone() {
    for path in [0, 17, 400] {
        assert_eq!(draw(1, path, &[]), draw(1, path, &[]));
        assert_ne!(draw(1, path, &[]).rate_mbps, draw(2, path, &[]).rate_mbps);
        assert_ne!(draw(1, path, &[]).rtt_ms, draw(1, path + 1, &[]).rtt_ms);
    }
    let few = survey(options(&["bbr3", "cubic"], 5, &[]));
    let more = survey(options(&["reno", "cubic"], 8, &[]));
    for (a, b) in few.paths.iter().zip(&more.paths) {
        assert_eq!(a.case, b.case);
    }
}

/// The lab reads each of them and the simulator has what they need, or there would be an error.
#[test]
fn each_drawn_path_is_a_scenario() {
    let mut drawn: BTreeMap<Kind, u32> = BTreeMap::new();
    let mut with_loss = drawn.clone();
    for seed in 1..=3 {
        let options =
            fullpipe_survey::run::Options { seed, ..options(&["bbr3", "cubic"], 200, &[]) };
        let survey = survey(options);
        assert_eq!((survey.paths.len(), survey.skipped.len()), (200, 0));
        for path in &survey.paths {
            check(&path.case);
            for kind in path.case.kinds() {
                *drawn.entry(kind).or_default() += 1;
                *with_loss.entry(kind).or_default() += u32::from(path.case.has(Kind::RandomLoss));
            }
        }
    }
    for kind in Kind::ALL {
        let times = |of: &BTreeMap<Kind, u32>| of.get(&kind).copied().unwrap_or(0);
        assert!(times(&drawn) >= 20, "{kind}: {} of 600", times(&drawn));
        assert!(times(&with_loss) >= 3, "{kind} with loss: {} of 600", times(&with_loss));
    }
}

/// Checks the properties that every drawn path has.
fn check(case: &Case) {
    let text = fullpipe_survey::text::scenario(case, &Default::default(), 1, &[], &[]);
    assert!((1..=3).contains(&case.disturbances.len()), "{text}");
    let mut kinds: Vec<Kind> = case.kinds().collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), case.disturbances.len(), "{text}");
    assert!(case.tested_flows() > 0 && case.fair_share() > 0.0, "{text}");
    assert!(case.duration_s() >= 30 && case.judged_from_s() < case.duration_s() / 3, "{text}");
    // A larger window would have more to write, and a flow in backoff would send into each burst.
    assert!(!text.contains("on_off") && !text.contains("loss_bursts"), "{text}");
}

/// What outsiders found first is in the distribution, and not at its end.
#[test]
fn limits_of_ends_and_pauses_are_drawn_widely() {
    let drawn = |kind| (0..200).filter_map(move |i| draw(1, i, &[kind]).disturbances.pop());
    let count = |kind, is: fn(&Disturbance) -> bool| drawn(kind).filter(is).count();
    let window = |d: &Disturbance| matches!(d, Disturbance::ReceiveWindow { window_bdp: 1.0..2.0 });
    assert!(count(Kind::ReceiveWindow, window) > 30, "one to two BDP");
    let idle = |d: &Disturbance| matches!(d, Disturbance::Requests { think_ms: 1e3.., .. });
    assert!(count(Kind::Requests, idle) > 50, "more than a second");
    let at_once = |d: &Disturbance| matches!(d, Disturbance::Requests { think_ms: ..10.0, .. });
    assert!(count(Kind::Requests, at_once) > 20, "less than 10 ms");
    let spikes = |d: &Disturbance| {
        matches!(d, Disturbance::Jitter { shape: Shape::Wifi | Shape::Pareto, .. })
    };
    assert!(count(Kind::Jitter, spikes) > 60, "jitter with spikes");
    let several = |d: &Disturbance| matches!(d, Disturbance::Competitor { visits: 2.., .. });
    assert!(count(Kind::Competitor, several) > 100, "flows that come and go");
    let l4s = |d: &Disturbance| matches!(d, Disturbance::Aqm { ecn: Ecn::L4s, .. });
    assert!(count(Kind::Aqm, l4s) > 40, "L4S");
    let jumbo = |d: &Disturbance| matches!(d, Disturbance::PacketSize { mss: 4000.. });
    assert!(count(Kind::PacketSize, jumbo) > 20, "jumbo frames");
}

#[test]
fn kinds_that_are_asked_for_are_the_only_ones() {
    for path in 0..50 {
        let case = draw(1, path, &[Kind::LateHost, Kind::Jitter]);
        assert!(case.kinds().all(|kind| [Kind::LateHost, Kind::Jitter].contains(&kind)), "{case}");
        let one = draw(1, path, &[Kind::Policer]);
        assert_eq!(one.disturbances.len(), 1, "{one}");
    }
}

#[test]
fn a_kind_has_one_name() {
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "wind".parse::<Kind>().expect_err("no kind").to_string();
    assert!(error.contains("'wind'") && error.contains("late-host"), "{error}");
}

#[test]
fn the_documentation_has_the_distribution() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/survey.md");
    let text = std::fs::read_to_string(file).expect("docs/survey.md");
    for [drawn, what, from] in table() {
        let row = format!("| {drawn} | {what} | {from} |");
        assert!(text.contains(&row), "docs/survey.md has no line\n{row}");
    }
}
