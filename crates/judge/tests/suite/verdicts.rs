//! Verdicts on simulated senders: healthy ones cause no alarm, and broken ones are found by the
//! name of their defect.
//!
//! `JUDGE_SEEDS=20` judges each healthy sender that often, as `./test.sh --long` does.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, Once};
use std::thread;

use fullpipe_judge::program::judge::{
    Competitor, Grade, Judged, Kind, Limits, ReferenceSender, TEST_PATHS, TestPath, Views, junit,
    page, simulate, test_paths, text,
};

use crate::planted;

static STOP: AtomicBool = AtomicBool::new(false);

static LIMITS: LazyLock<Limits> =
    LazyLock::new(|| Limits::simulate(&test_paths(false), &STOP, |_| ()).expect("nobody stops it"));

fn judged(sender: &ReferenceSender, seed: u64, quick: bool) -> Judged {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| fullpipe_adapter::register_algorithms(&planted::ALL));
    let view = |test_path| simulate(test_path, sender, seed, &STOP).expect("a test path");
    let views: Views =
        test_paths(quick).iter().map(|test_path| (test_path.name, view(test_path))).collect();
    Judged::of(&views, &BTreeMap::new(), &LIMITS)
}

/// An application that pauses, so that there is something to see of what comes after.
const PAUSES: &str = "app = { on_off = { on = \"5s\", off = \"2s\" } }";

fn names(judged: &Judged) -> Vec<&str> {
    judged.defects.iter().map(|d| d.name.as_str()).collect()
}

/// The checks of grade broken, and the defects.
fn alarms(judged: &Judged) -> Vec<String> {
    let broken = judged.checks.iter().filter(|c| c.grade == Some(Grade::Broken));
    let broken = broken.map(|c| format!("{}: {:?}, limit {}", c.check, c.value, c.broken));
    broken.chain(judged.defects.iter().map(|d| format!("{}: {}", d.name, d.about))).collect()
}

#[test]
fn planted_defects_are_found_by_name() {
    let find = |(algorithm, defect): &(&str, &str)| {
        let app = if *algorithm == "idle-plateau" { PAUSES } else { "" };
        let verdict = judged(
            &ReferenceSender::new(algorithm, &format!("cc = \"{algorithm}\"\n{app}")),
            1,
            false,
        );
        let found = match *defect {
            "" => !verdict.is_broken(),
            name => names(&verdict).contains(&name),
        };
        println!("{algorithm}: {:?}", verdict.defects);
        (!found).then(|| format!("{algorithm}: {:?}, not {defect}", names(&verdict)))
    };
    let wrong: Vec<String> = planted::NAMES.iter().filter_map(find).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(planted::NAMES.len() > 12);
}

/// Ours, and others that are as healthy.
fn healthy() -> Vec<ReferenceSender> {
    let mut all = ReferenceSender::ours();
    all.push(ReferenceSender::new("tcp cubic paced", "cc = \"cubic\"\ntransport = \"tcp\""));
    all.push(ReferenceSender::new("prague", "cc = \"prague\""));
    all.push(ReferenceSender::new("prague, ECT(1)", "cc = \"prague\"\necn = \"l4s\""));
    all.push(ReferenceSender::new("bbr3 that pauses", &format!("cc = \"bbr3\"\n{PAUSES}")));
    all.push(ReferenceSender::new("cubic that pauses", &format!("cc = \"cubic\"\n{PAUSES}")));
    all
}

#[test]
fn healthy_senders_cause_no_alarm() {
    let seeds: u64 = std::env::var("JUDGE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    // The limits are of seed 1, and made before there are threads that wait for them.
    LazyLock::force(&LIMITS);
    let of = |sender: &ReferenceSender| -> Vec<String> {
        let each = (1..=seeds).flat_map(|seed| {
            let alarms = alarms(&judged(sender, seed, false));
            alarms.into_iter().map(move |alarm| format!("seed {seed}: {alarm}"))
        });
        each.map(|alarm| format!("{}: {alarm}", sender.name)).collect()
    };
    let senders = healthy();
    let wrong: Vec<String> = thread::scope(|scope| {
        let halves = senders.chunks(senders.len().div_ceil(2));
        let running: Vec<_> = halves
            .map(|half| scope.spawn(|| half.iter().flat_map(of).collect::<Vec<_>>()))
            .collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Its targets count from the shortest round trip: what makes that longer for good, or holds ACKs
/// back, is a queue to it. docs/judge.md says so.
#[test]
fn bbr_swift_falls_short_where_delays_are_no_queue_and_nowhere_else() {
    let judged = judged(&ReferenceSender::new("bbr-swift", "cc = \"bbr-swift\""), 1, false);
    let of_delay = ["longer route", "old min_rtt", "aggregation"];
    let is_known = |alarm: &String| of_delay.iter().any(|part| alarm.contains(part));
    let (known, wrong): (Vec<_>, Vec<_>) = alarms(&judged).into_iter().partition(is_known);
    assert!(wrong.is_empty() && !known.is_empty(), "{wrong:#?} {known:#?}");
}

#[test]
fn the_kind_of_algorithm_is_recognised() {
    for sender in ReferenceSender::ours() {
        let looks = judged(&sender, 2, false).looks;
        let is_right = match sender.name.as_str() {
            "bbr3" | "tcp bbr3" => {
                matches!(looks.kind, Kind::BbrLike { probe_rtt_s: Some(4.0..6.0) })
            }
            "bbr1" | "tcp bbr" => {
                matches!(looks.kind, Kind::BbrLike { probe_rtt_s: Some(9.0..11.0) })
            }
            "bbr3x" => matches!(looks.kind, Kind::BbrLike { .. }),
            "reno" => matches!(looks.kind, Kind::LossBased { decrease: Some(0.4..0.62) }),
            _ => matches!(looks.kind, Kind::LossBased { decrease: Some(0.6..0.85) }),
        };
        assert!(is_right, "{}: {looks}", sender.name);
        assert_eq!(looks.paced, Some(sender.name != "tcp cubic"), "{}", sender.name);
    }
    // Without marks Prague halves at losses, and on long paths bbr-swift's targets let it be BBR.
    let kind = |flow: &str| judged(&ReferenceSender::new("x", flow), 2, false).looks.kind;
    let prague = kind("cc = \"prague\"\necn = \"l4s\"");
    assert!(matches!(prague, Kind::LossBased { decrease: Some(0.4..0.62) }), "{prague:?}");
    let swift = kind("cc = \"bbr-swift\"");
    assert!(matches!(swift, Kind::BbrLike { probe_rtt_s: Some(4.0..6.0) }), "{swift:?}");
    let fixed = judged(&ReferenceSender::new("fixed", "cc = \"fixed:30mbit\""), 1, false);
    assert!(matches!(fixed.looks.kind, Kind::FixedRate { .. }), "{}", fixed.looks);
    assert_eq!(names(&fixed), ["does not react to losses"]);
}

#[test]
fn a_quick_verdict_has_no_false_alarm_either_and_says_what_it_did_not_see() {
    for sender in ReferenceSender::ours() {
        let verdict = judged(&sender, 2, true);
        assert_eq!(alarms(&verdict), [""; 0], "{}", sender.name);
        let is_seen = |check: &str| verdict.checks.iter().any(|c| c.check == check);
        assert!(is_seen("fills the path") && !is_seen("fair to CUBIC"));
    }
    for (algorithm, defect) in planted::NAMES {
        let is_quick = ["no-pacing", "endless-drain", "endless-probe-rtt", "headroom-85", "deaf"];
        if is_quick.contains(algorithm) {
            let verdict =
                judged(&ReferenceSender::new(algorithm, &format!("cc = \"{algorithm}\"")), 2, true);
            assert!(names(&verdict).contains(defect), "{algorithm}: {:?}", verdict.defects);
        }
    }
}

#[test]
fn whole_and_quick_verdicts_stay_within_their_time() {
    let span = |quick| test_paths(quick).iter().map(|test_path| test_path.span_s).sum::<u64>();
    // The rest is for starting and ending the commands.
    assert!(span(false) <= 310 && span(true) <= 75, "{} {}", span(false), span(true));
    for test_path in &TEST_PATHS {
        test_path.path(true).expect("a path for data that goes up");
        test_path.path(false).expect("and for data that comes down");
        assert!(test_path.company == Competitor::Alone || !test_path.quick);
    }
}

#[test]
fn a_verdict_is_a_table_test_cases_and_a_page() {
    let sender = ReferenceSender::new("deaf", "cc = \"fixed:30mbit\"");
    let verdict = judged(&sender, 1, true);
    let view = simulate(&TEST_PATHS[0], &sender, 1, &STOP).expect("a test path");
    let page = page(&verdict, &Views::from([(TEST_PATHS[0].name, view)])).expect("a page");
    for part in ["<svg", "does not react to losses", "fills the path", "BROKEN", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    let text = text(&verdict);
    for part in ["fills the path", "BROKEN", "looks like: a fixed rate", "defect: does not react"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.len() < 300), "{text}");
    let cases = junit(&verdict);
    let document = roxmltree::Document::parse(&cases).expect("XML");
    let count = |tag: &str| document.descendants().filter(|n| n.has_tag_name(tag)).count();
    let suite = document.descendants().find(|n| n.has_tag_name("testsuite")).expect("a suite");
    assert_eq!(suite.attribute("tests"), Some(count("testcase").to_string().as_str()));
    assert_eq!(suite.attribute("failures"), Some(count("failure").to_string().as_str()));
    assert_eq!(suite.attribute("skipped"), Some(count("skipped").to_string().as_str()));
    assert!(count("failure") > 1 && count("skipped") == 1, "{cases}");
}

/// Options that describe a path take the place of ours, and our own senders are simulated there.
#[test]
fn a_verdict_on_a_given_path_is_by_what_ours_do_there() {
    let path = "[path]\ntrace = \"lte\"\nrtt = \"80ms\"\nbuffer = \"2bdp\"\nup = [{ bottleneck = { rate = \"5mbit\" } }]\n";
    let given =
        TestPath::given("lte 80ms".to_owned(), path.to_owned(), std::path::Path::new(""), 3, 20);
    for test_path in [given.clone(), given.upwards()] {
        let limits = Limits::simulate(&[&test_path], &STOP, |_| ()).expect("nobody stops it");
        let judged = |flow: &str| {
            let view =
                simulate(&test_path, &ReferenceSender::new("x", flow), 1, &STOP).expect("it runs");
            Judged::of(&Views::from([(test_path.name, view)]), &BTreeMap::new(), &limits)
        };
        for healthy in ["cc = \"bbr3\"", "cc = \"cubic\"\ntransport = \"tcp\""] {
            let judged = judged(healthy);
            assert_eq!(alarms(&judged), Vec::<String>::new(), "{healthy}");
            assert!(judged.checks.len() == 7 && judged.checks.iter().all(|c| c.grade.is_some()));
            assert!(judged.looks_like.starts_with("not judged on one path"));
        }
        let value = |judged: &Judged, check: &str| {
            let of = judged.checks.iter().find(|c| c.check == check).expect("the check");
            (of.value.expect("a figure"), of.grade)
        };
        // Both rates are far below the trace's mean, and one is above that of the way back.
        let slow = judged("cc = \"fixed:1mbit\"");
        let (filled, grade) = value(&slow, "fills your path");
        assert!(filled < 25.0 && grade == Some(Grade::Broken), "{filled} {grade:?}");
        let fast = judged("cc = \"fixed:60mbit\"");
        let (lost, grade) = value(&fast, "losses there");
        assert!(lost > 30.0 && grade == Some(Grade::Broken), "{lost} {grade:?}");
    }
}
