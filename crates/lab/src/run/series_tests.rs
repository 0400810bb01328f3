//! Figures of the series' columns.

use fullpipe_report::observe::SeriesRow;

use super::tests::{asked, outcomes, plan};

#[test]
fn bounds_and_counts_of_bbr_are_columns_of_the_series() {
    let p = "path = { rate = \"20mbit\", rtt = \"40ms\", buffer = \"0.2bdp\" }\n";
    let text = format!("cc = \"bbr3\"\nduration = \"8s\"\ninterval = \"10ms\"\n{p}");
    let metrics = [
        "inflight_longterm_bytes.max",
        "until_s(inflight_longterm_bytes > 0)",
        "until_s(state != Startup)",
        "until_s(full_bw_count >= 1)",
        "inflight_shortterm_bytes.min",
        "extra_acked_bytes.max",
        "bw_shortterm_mbps.min",
    ];
    let (o, values) = asked(&metrics, &text);
    let values: Vec<f64> = values.iter().map(|value| value.expect("a value")).collect();
    let longterm = o.series.iter().filter_map(|row| row.inflight_longterm_bytes).max();
    assert_eq!(Some(values[0]), longterm.map(|bytes| bytes as f64));
    // Startup's losses end it with a bound, and the bandwidth had stopped growing before.
    assert!(values[1] > 0.0 && (values[1] - values[2]).abs() < 0.011, "{values:?}");
    assert!(values[3] <= values[2], "{values:?}");
    assert!(values[4] > 0.0 && values[5] > 0.0 && values[6] <= 20.0, "{values:?}");
    assert_eq!(o.series[0].inflight_longterm_bytes, None);
}

/// Of a flow whose application writes less than the path carries, and of one that has no end.
#[test]
fn the_application_as_the_limit_is_a_column_of_the_series() {
    let p = "path = { rate = \"20mbit\", rtt = \"40ms\" }\n";
    let metrics = ["is_app_limited.mean", "is_app_limited.max"];
    let shares = |app: &str| {
        let text = format!(
            "cc = \"bbr3\"\nduration = \"8s\"\ninterval = \"10ms\"\n{p}[[flow]]\napp = {app}\n"
        );
        asked(&metrics, &text)
    };
    let (o, values) = shares("{ rate_limited = { rate = \"5mbit\" } }");
    let limited = o.series.iter().filter(|row| row.is_app_limited == Some(1)).count();
    let share = limited as f64 / o.series.len() as f64;
    assert!(share > 0.9 && (values[0].expect("a share") - share).abs() < 1e-9, "{values:?}");
    assert_eq!(values[1], Some(1.0));
    let (_, values) = shares("\"bulk\"");
    assert!(values[0] < Some(0.1), "{values:?}");
}

#[test]
fn what_is_sampled_is_what_the_series_says() {
    let p = "path = { rate = \"20mbit\", rtt = \"40ms\", buffer = \"4bdp\" }\n";
    let text = format!("cc = \"bbr3\"\nduration = \"8s\"\ninterval = \"10ms\"\n{p}");
    let metrics = ["inflight_bytes.max", "inflight_bytes.p50", "srtt_ms.last", "max_bw_mbps.mean"];
    let (o, values) = asked(&metrics, &text);
    let inflight = |row: &SeriesRow| row.inflight_bytes.expect("ours says it");
    assert_eq!(values[0], o.series.iter().map(inflight).max().map(|b| b as f64));
    let mut sorted: Vec<u64> = o.series.iter().map(inflight).collect();
    sorted.sort_unstable();
    assert_eq!(values[1], Some(sorted[(sorted.len() - 1) / 2] as f64));
    assert_eq!(values[2], o.series.last().and_then(|r| r.srtt_ms));
    let bw: Vec<f64> = o.series.iter().filter_map(|r| r.max_bw_mbps).collect();
    let mean = bw.iter().sum::<f64>() / bw.len() as f64;
    assert!((values[3].expect("a mean") - mean).abs() < 1e-9);
    // States are all of the time, and windows their parts.
    let states = ["Startup", "Drain", "ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL"];
    let states = states.into_iter().chain(["ProbeBW_UP", "ProbeRTT"]);
    let shares: Vec<String> = states.map(|s| format!("state_share.{s}")).collect();
    let names: Vec<&str> = shares.iter().map(String::as_str).collect();
    let (_, values) = asked(&names, &text);
    let sum: f64 = values.iter().flatten().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{values:?}");
    assert!(values[3] > Some(0.5) && values[6] > Some(0.0), "{values:?}");
}

#[test]
fn until_counts_from_the_windows_beginning() {
    let text = "cc = \"bbr3\"\nduration = \"12s\"\ninterval = \"10ms\"\n[path]\nrate = \"10mbit\"\n\
                rtt = \"40ms\"\nbuffer = \"16bdp\"\nsteps = [{ at = \"6s\", rate = \"20mbit\" }]\n";
    let metrics = [
        "until_s(state != Startup)",
        "until_rounds(state != Startup)",
        "until_cycles(state == ProbeBW_UP)",
        "until_s(max_bw_mbps >= 30)",
    ];
    let (o, values) = asked(&metrics, text);
    let first = o.series.iter().find(|r| r.state.as_deref() != Some("Startup")).expect("its end");
    assert_eq!(values[0], Some(first.t_s));
    assert_eq!(values[1], first.rounds.map(|n| n as f64));
    // Startup's own gain is above 1 too.
    assert_eq!((values[2], values[3]), (Some(2.0), None));
    let expect = "until_s(max_bw_mbps >= 18) < 6 after 6s\", \"until_cycles(max_bw_mbps >= 18) <= 1 after 6s";
    let p = plan(&text.replacen("cc =", &format!("expect = [\"{expect}\"]\ncc ="), 1));
    let o = outcomes(&p).remove(0);
    let seen = o.series.iter().find(|r| r.t_s > 6.0 && r.max_bw_mbps >= Some(18.0)).expect("seen");
    assert!((o.probes[0].expect("seen") - (seen.t_s - 6.0)).abs() < 1e-9);
    assert!(o.probes[1] <= Some(1.0), "{:?}", o.probes);
}
