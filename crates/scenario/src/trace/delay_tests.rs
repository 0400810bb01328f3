//! One-way delays, in a column and in a file of their own.

use super::tests::{plain, rate, read};
use super::*;
use crate::document::TraceField;

fn mean_rtt_ms(trace: &Trace) -> Option<f64> {
    trace.summary().rtt_ms.map(|spread| spread.mean)
}

#[test]
fn a_one_way_delay_counts_for_both_directions() {
    for header in ["delay_ms", "owd", "one-way delay (ms)", "DL_OWD_MS"] {
        let trace = plain(format!("time,mbps,{header}\n0,5,20\n1,5,30\n"));
        assert_eq!(mean_rtt_ms(&trace), Some(50.0), "{header}");
    }
    let round_trip = plain("time,round_trip_delay\n0,50\n1,50\n");
    assert_eq!(mean_rtt_ms(&round_trip), Some(50.0));
    let trace = plain("time,delay_us,rtt\n0,9,40\n1,9,40\n");
    assert_eq!(mean_rtt_ms(&trace), Some(40.0));
    assert_eq!(trace.notes.unused, ["delay_us"]);
    let trace = plain("time,mbps,queue_delay_ms\n0,5,20\n");
    assert!(trace.rtt.is_none(), "a wait in a queue is no distance");
    let named = |rtt: Option<&str>| TraceOptions {
        columns: Columns {
            time: Some("1".into()),
            rtt: rtt.map(str::to_owned),
            delay: Some("2".into()),
            ..Columns::default()
        },
        rtt_unit: Some(TimeUnit::Micros),
        ..TraceOptions::default()
    };
    let trace = read("0 20000\n1 30000\n", &named(None)).expect("a trace");
    assert_eq!(mean_rtt_ms(&trace), Some(50.0));
    assert_eq!(trace.notes.columns[1], "2 (delay, us in each direction)");
    let error = read("0 1\n", &named(Some("2"))).expect_err("both").to_string();
    assert!(error.contains("leave out columns.delay"), "{error}");
}

#[test]
fn a_file_of_rates_and_one_of_delays_are_one_trace() {
    let dir = std::env::temp_dir().join(format!("fullpipe-delays-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let traces = crate::input::Traces::of(&dir);
    for (name, text) in [
        ("rates.csv", "time,mbps\n0,5\n1,6\n2,7\n3,8\n"),
        ("mahimahi", "10\n20\n900\n2500\n3500\n"),
        ("both.csv", "time,mbps,rtt\n0,5,40\n1,5,40\n"),
        ("delays.csv", "time,mbps,delay_ms\n0,9,20\n1.5,9,30\n"),
        ("bare", "0 20\n1.5 30\n"),
        ("late.csv", "time,mbps\n0,0\n9,5\n"),
        ("column", "20\n30\n"),
    ] {
        std::fs::write(dir.join(name), text).expect("a file");
    }
    let get = |text: &str| traces.get(&text.parse().expect(text));
    let trace = get("{ file = \"rates.csv\", delay_trace = \"delays.csv\" }").expect("a trace");
    // The shorter one ends both.
    assert_eq!(rate(&trace), (vec![(0, 5000), (1000, 6000), (2000, 7000)], Some(3000)));
    let rtts = trace.rtt.as_ref().expect("delays");
    let ms = |ms| Duration::from_millis(ms);
    assert_eq!(rtts.steps(), [(ms(0), ms(40)), (ms(1500), ms(60))]);
    assert_eq!((rtts.period(), trace.notes.length), (Some(ms(3000)), ms(3000)));
    assert_eq!(trace.notes.columns[3], "delay_ms (delay, ms in each direction)");
    let bare = get("{ file = \"rates.csv\", delay_trace = \"bare\" }").expect("a trace");
    assert_eq!(bare.rtt, trace.rtt);
    let column =
        "{ file = \"rates.csv\", delay_trace = { file = \"column\", interval = \"1500ms\" } }";
    assert_eq!(get(column).expect("a trace").rtt, trace.rtt);
    let mahimahi = get("{ file = \"mahimahi\", delay_trace = \"bare\" }").expect("a trace");
    assert_eq!((&mahimahi.rtt.is_some(), mahimahi.notes.length), (&true, ms(2500)));
    assert_eq!(mahimahi.rate, plain("10\n20\n900\n2500\n").rate);
    // Rates that hold for ever do not end with the delays, and need one above 0 before that.
    let once = get("{ file = \"rates.csv\", repeat = false, delay_trace = \"bare\" }");
    let once = once.expect("a trace");
    assert_eq!((rate(&once).0.len(), once.notes.length), (4, ms(4000)));
    for (text, says) in [
        ("{ file = \"late.csv\", delay_trace = \"bare\" }", "before the end of the delays is 0"),
        ("{ file = \"both.csv\", delay_trace = \"bare\" }", "leave out delay_trace"),
        ("{ file = \"rates.csv\", delay_trace = \"column\" }", "delay_trace: one column"),
        (
            "{ file = \"rates.csv\", delay_trace = { file = \"rates.csv\", columns = { time = 1, rate = 2 } } }",
            "delay_trace has no delays",
        ),
        ("{ file = \"rates.csv\", delay_trace = \"rates.csv\" }", "delay_trace: no column"),
        ("{ file = \"rates.csv\", delay_trace = \"none\" }", "delay_trace: No such file"),
        (
            "{ file = \"rates.csv\", delay_trace = { file = \"bare\", delay_trace = \"bare\" } }",
            "no delay_trace of its own",
        ),
    ] {
        let error = get(text).expect_err(text);
        assert!(error.contains(says), "{says}: {error}");
    }
    // Of what a cluster sends to its workers, and written again, it has both.
    let files = traces.files();
    assert!(
        ["bare", "column", "delays.csv", "rates.csv"]
            .iter()
            .all(|name| files.contains(&(*name).to_owned()))
    );
    let field: TraceField = column.parse().expect("a field");
    let again = toml::Value::try_from(&field).expect("TOML").to_string();
    assert_eq!(again.parse::<TraceField>().expect("a field"), field);
    assert!(field.rate_alone(&trace).delay_trace.is_none());
    std::fs::remove_dir_all(&dir).expect("it was there");
}

#[test]
fn two_files_that_say_the_time_since_1970_begin_when_the_later_one_does() {
    let table = |name: &str, begin: u64, values: &[u64]| {
        let rows = values.iter().zip(begin..).map(|(value, at)| format!("{at},{value}\n"));
        plain(format!("timestamp,{name}\n{}", rows.collect::<String>()))
    };
    let (begin, ms) = (1_700_000_000, Duration::from_millis);
    let rates = || table("mbps", begin, &[5, 6, 6, 7, 8]);
    let trace = rates().with_delays(table("rtt_ms", begin + 2, &[40, 50, 60, 70])).expect("one");
    assert_eq!(rate(&trace), (vec![(0, 6000), (1000, 7000), (2000, 8000)], Some(3000)));
    let rtts = trace.rtt.expect("delays");
    assert_eq!(rtts.steps(), [(ms(0), ms(40)), (ms(1000), ms(50)), (ms(2000), ms(60))]);
    let delays = table("rtt_ms", begin - 1, &[30, 40, 50]);
    let trace = rates().with_delays(delays).expect("one");
    assert_eq!(trace.rtt.expect("delays").steps(), [(ms(0), ms(40)), (ms(1000), ms(50))]);
    assert_eq!(trace.notes.length, ms(2000));
    let error = rates().with_delays(table("rtt_ms", begin + 30, &[40, 50])).expect_err("apart");
    assert!(error.to_string().contains("delay_trace begins 30 s after it"), "{error}");
    // Times of a clock that began with the machine say nothing about another one's.
    let trace = rates().with_delays(table("rtt_ms", 5000, &[40, 50])).expect("one");
    assert_eq!(trace.notes.length, ms(2000));
}
