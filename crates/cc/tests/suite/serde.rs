//! The feature `serde`: forms of the values, and what is read back.

use fullpipe_cc::{
    AckFrequency, Algorithm, Amendment, Amendments, Bbr3xOptions, BbrSwiftOptions, Config,
    Controller, Duration, Instant, NotNow, Rate, RenoOptions,
};
use serde_json::{from_value, json, to_value};

#[test]
fn a_configuration_is_read_back() {
    let max_delay = Duration::from_millis(5);
    let config = Config {
        ack_frequency: Some(AckFrequency { threshold_packets: 8, max_delay }),
        max_pacing_rate: Some(Rate::from_bytes_per_sec(1_000)),
        ..Config::new(7)
    };
    let value = to_value(config).expect("it has a form");
    assert_eq!(value["transport"], "quic");
    assert_eq!(value["pacing_granularity"], 2_000_000);
    assert_eq!(from_value::<Config>(value).expect("its own form"), config);
}

/// What is read back may be of an older version, which had fewer options.
#[test]
fn options_are_read_back() {
    let off = Amendments::NONE.with(Amendment::ShortProbe).with(Amendment::PathLoss);
    let options = Bbr3xOptions::new().without(off);
    let value = to_value(options).expect("it has a form");
    assert_eq!(value["without"], "short_probe+path_loss");
    assert_eq!(from_value::<Bbr3xOptions>(value).expect("its own form"), options);
    assert_eq!(to_value(Amendments::NONE).expect("it has a form"), "none");
    let older = json!({ "hops": 3 });
    let three = BbrSwiftOptions::new().with_hops(3);
    assert_eq!(from_value::<BbrSwiftOptions>(older).expect("a form"), three);
    assert_eq!(to_value(three).expect("it has a form")["endpoint_target"], 100_000);
    assert_eq!(from_value::<RenoOptions>(json!({})).expect("a form"), RenoOptions::new());
}

#[test]
fn algorithms_are_their_names() {
    for name in Algorithm::NAMES {
        let algorithm: Algorithm = from_value(json!(name)).expect("a name");
        assert_eq!(to_value(algorithm).expect("it has a form"), *name);
    }
    let error = from_value::<Algorithm>(json!("bbr9")).expect_err("no such name").to_string();
    assert!(error.starts_with("unknown algorithm; there are bbr3, bbr3x"), "{error}");
    let error = from_value::<Algorithm>(json!(3)).expect_err("no name").to_string();
    assert!(error.contains("expected a name"), "{error}");
}

/// Logs and other languages see one word for a reason.
#[test]
fn reasons_are_their_names() {
    for reason in [
        NotNow::NoRoundTrip,
        NotNow::Draining,
        NotNow::ProbeRtt,
        NotNow::Congestion,
        NotNow::TooSoon,
        NotNow::Limit,
    ] {
        assert_eq!(to_value(reason).expect("it has a form"), reason.name());
    }
}

#[test]
fn a_snapshot_has_the_drafts_names() {
    let cc = Controller::new(Algorithm::BBR3, Config::new(7), Instant::default());
    let value = to_value(cc.snapshot()).expect("it has a form");
    assert_eq!(value["algorithm"], "bbr3");
    assert_eq!(value["state"], "Startup");
    assert_eq!(value["srtt"], json!(null));
    assert_eq!(value["bbr"]["pacing_gain"], 277 * 256);
}
