use std::path::Path;
use std::sync::atomic::AtomicBool;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;

use super::*;
use crate::file::Plan;

fn plan(text: &str) -> Plan {
    Plan::parse(text, "x.toml", "x", Path::new("")).unwrap_or_else(|e| panic!("{e}"))
}

fn outcomes(plan: &Plan) -> Vec<Outcome> {
    let stop = AtomicBool::new(false);
    let all = (0..plan.runs.len()).map(|i| run(plan, i, Series::Asked, None, &stop));
    all.map(|o| o.expect("it runs")).collect()
}

fn figure(figures: &Figures, name: &str) -> f64 {
    figures.get(name).copied().flatten().unwrap_or_else(|| panic!("no {name}: {figures:?}"))
}

const PATH: &str =
    "path = { rate = \"20mbit\", rtt = \"40ms\", buffer = \"2bdp\", loss = \"1%\" }\n";

#[test]
fn the_figures_are_those_that_compare_prints() {
    let p =
        plan(&format!("cc = \"cubic\"\nduration = \"4s\"\nseed = 3\n{PATH}[[flow]]\ncount = 2\n"));
    let ours = &outcomes(&p)[0];
    let scenario = crate::Scenario {
        over: crate::Over::Sim,
        rate: fullpipe_cc::Rate::from_bits_per_sec(20_000_000),
        buffer: crate::units::Buffer::Bdp(2.0),
        loss: fullpipe_path::Probability::new(0.01).expect("one"),
        flows: 2,
        amount: crate::Amount::Duration(fullpipe_cc::Duration::from_secs(4)),
        seed: 3,
        ..crate::Scenario::default()
    };
    let stop = AtomicBool::new(false);
    let theirs = crate::run(&scenario, scenario.cc[1], &stop, &mut |_| {}).expect("it runs");
    let rtt = theirs.rtt_ms.expect("samples");
    for (name, value) in [
        ("goodput_mbps", theirs.goodput_bps as f64 / 1e6),
        ("utilization", theirs.utilization),
        ("queue_ms.mean", theirs.queue_ms.mean),
        ("queue_ms.p95", theirs.queue_ms.p95),
        ("queue_ms.max", theirs.queue_ms.max),
        ("rtt_ms.min", rtt.min),
        ("rtt_ms.p50", rtt.p50),
        ("loss_rate", theirs.loss_rate),
        ("retransmit_rate", theirs.retransmit_rate),
        ("jain", theirs.jain),
        ("elapsed_s", theirs.elapsed_s),
        ("completed_bytes", theirs.completed_bytes as f64),
    ] {
        assert_eq!(figure(&ours.metrics, name), value, "{name}");
    }
    let flow = figure(&ours.flows[1].metrics, "goodput_mbps");
    assert_eq!(flow, theirs.flows[1].goodput_bps as f64 / 1e6);
}

#[test]
fn windows_are_parts_of_the_whole() {
    let p = plan(&format!(
        "cc = \"bbr3\"\nduration = \"4s\"\nexpect = [\"completed_bytes > 0 before 1s\", \
         \"completed_bytes > 0 from 1s to 2500ms\", \"completed_bytes > 0 after 2500ms\", \
         \"completed_bytes > 0\", \"goodput_mbps > 0 from 1s to 2500ms\", \
         \"elapsed_s == 1.5 from 1s to 2500ms\", \"utilization > 0 after 1s\"]\n{PATH}"
    ));
    let all = &outcomes(&p)[0].probes;
    let value = |i: usize| all[i].expect("a value");
    assert_eq!(value(0) + value(1) + value(2), value(3));
    assert!((value(4) - value(1) * 8.0 / 1.5e6).abs() < 1e-5, "{all:?}");
    assert_eq!(value(5), 1.5);
    assert!(value(6) > 0.5 && value(6) <= 1.0, "{all:?}");
}

#[test]
fn a_flow_counts_while_it_is_there() {
    let p = plan(
        "cc = \"bbr3\"\nduration = \"6s\"\npath = { rate = \"20mbit\", rtt = \"20ms\" }\n\
         expect = [\"jain > 0 before 2s\", \"jain > 0 after 2s\", \"flow[1].share > 0 before 2s\", \
         \"flow[1].elapsed_s > 0\", \"flow[0].elapsed_s > 0\", \"flow[1].goodput_mbps > 0 before 1s\"]\n\
         [[flow]]\nstop = \"5s\"\n[[flow]]\nstart = \"3s\"\n",
    );
    let all = &outcomes(&p)[0].probes;
    assert_eq!(all[0], Some(1.0), "one flow alone is fair to itself");
    assert!(all[1].expect("a value") < 1.0);
    assert_eq!(all[2], Some(0.0));
    assert_eq!((all[3], all[4]), (Some(3.0), Some(5.0)));
    assert_eq!(all[5], None, "a flow that was not there had no goodput, not even 0");
}

#[test]
fn a_transfer_ends_with_its_last_byte_and_the_run_with_the_last_transfer() {
    let p = plan(
        "cc = \"bbr3\"\nduration = \"60s\"\npath = { rate = \"8mbit\", rtt = \"20ms\" }\n\
         [[flow]]\napp = { bytes = \"1MB\" }\n",
    );
    let o = &outcomes(&p)[0];
    let elapsed = figure(&o.metrics, "elapsed_s");
    // 1 MB at 8 Mbit/s is a second, headers and the start come on top.
    assert!((1.0..1.3).contains(&elapsed), "{elapsed}");
    assert_eq!(figure(&o.metrics, "completed_bytes"), 1e6);
    assert_eq!(figure(&o.flows[0].metrics, "elapsed_s"), elapsed);
}

#[test]
fn utilization_knows_the_steps_of_a_rate() {
    let p = plan(
        "cc = \"fixed:40mbit\"\nduration = \"4s\"\n\
         path = { rate = \"10mbit\", rtt = \"2ms\", buffer = \"20kB\", steps = [{ at = \"2s\", rate = \"20mbit\" }] }\n",
    );
    let o = &outcomes(&p)[0];
    let utilization = figure(&o.metrics, "utilization");
    assert!((0.998..=1.0).contains(&utilization), "{utilization}");
}

#[test]
fn the_tables_say_what_the_outcomes_do() {
    let p = plan(&format!(
        "cc = [\"bbr3\", \"cubic\"]\nduration = \"1s\"\ninterval = \"100ms\"\n{PATH}[[flow]]\ncount = 2\n"
    ));
    let all = outcomes(&p);
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &p, &all).expect("written");
    let rows = |name: &str| {
        let file = std::fs::File::open(dir.path().join(name)).expect("a file");
        let reader = SerializedFileReader::new(file).expect("Parquet");
        let rows = reader.get_row_iter(None).expect("rows");
        rows.map(|row| row.expect("a row").into_columns()).collect::<Vec<_>>()
    };
    let cell = |row: &[(String, Field)], name: &str| {
        row.iter().find(|(column, _)| column == name).expect("a column").1.clone()
    };
    let summary = rows("summary.parquet");
    assert_eq!(summary.len(), 2);
    for (row, outcome) in summary.iter().zip(&all) {
        assert_eq!(cell(row, "cc"), Field::Str(outcome.at[0].1.clone()));
        assert_eq!(cell(row, "run"), Field::Long(outcome.run as i64));
        for (name, value) in &outcome.metrics {
            assert_eq!(cell(row, name), value.map_or(Field::Null, Field::Double), "{name}");
        }
    }
    let flows = rows("flows.parquet");
    assert_eq!(flows.len(), 4);
    let goodput = figure(&all[1].flows[0].metrics, "goodput_mbps");
    assert_eq!(cell(&flows[2], "goodput_mbps"), Field::Double(goodput));
    assert_eq!(rows("links.parquet").len(), 2);
    let series = rows("series.parquet");
    assert_eq!(series.len(), 2 * 2 * 10);
    assert_eq!(cell(&series[39], "t_s"), Field::Double(1.0));
    assert_eq!(cell(&series[39], "max_bw_mbps"), Field::Null);
    let text = std::fs::read_to_string(dir.path().join("scenario.toml")).expect("a file");
    assert_eq!(text, p.text);
}

/// The records of a JSON-SEQ file: a header, and events.
fn records(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut records = text.split('\u{1e}');
    assert_eq!(records.next(), Some(""), "a record begins with its separator");
    let ends = records.clone().all(|record| record.ends_with("}\n"));
    assert!(ends, "a record ends with its line");
    records.map(|record| serde_json::from_str(record).expect("JSON")).collect()
}

#[test]
fn a_qlog_says_what_the_course_does() {
    let p = plan(&format!(
        "cc = [\"bbr3\", \"cubic\"]\nduration = \"3s\"\ninterval = \"50ms\"\n{PATH}\
         [[flow]]\nname = \"../a b\"\n[[flow]]\nstart = \"700ms\"\ntransport = \"tcp\"\n[[flow]]\nstart = \"2990ms\"\n"
    ));
    let base = tempfile::tempdir().expect("a directory");
    let dir = QlogDir::create(&base.path().join("new/one")).expect("a directory");
    let stop = AtomicBool::new(false);
    let quiet = outcomes(&p);
    let logged: Vec<Outcome> =
        (0..2).map(|i| run(&p, i, Series::Asked, Some(&dir), &stop).expect("it runs")).collect();
    assert_eq!(logged, quiet, "who is watched does the same");
    assert_eq!(std::fs::read_dir(base.path().join("new/one")).expect("files").count(), 6);
    for (o, flow) in logged.iter().flat_map(|o| [(o, 0), (o, 1), (o, 2)]) {
        let name = ["___a_b", &o.flows[1].cc, &o.flows[2].cc][flow];
        let file = format!("new/one/x-run{}-flow{flow}-{name}.sqlog", o.run);
        let records = records(&base.path().join(file));
        let (head, events) = records.split_first().expect("a header");
        assert_eq!(
            (&head["qlog_version"], &head["qlog_format"]),
            (&"0.3".into(), &"JSON-SEQ".into())
        );
        assert_eq!(head["trace"]["vantage_point"]["type"], "server");
        let common = &head["trace"]["common_fields"];
        assert_eq!(common["protocol_type"][0], ["QUIC", "TCP", "QUIC"][flow]);
        assert_eq!(
            (&common["time_format"], &common["reference_time"]),
            (&"relative".into(), &0.0.into())
        );
        let times: Vec<f64> = events.iter().map(|e| e["time"].as_f64().expect("a time")).collect();
        assert!(times.is_sorted(), "times go back: {times:?}");
        assert_eq!(times[0], [0.0, 700.0, 2990.0][flow]);
        assert_eq!(events[0]["name"], "recovery:parameters_set");
        check_events(&events[1..], o.series.iter().filter(|row| row.flow == flow));
    }
}

/// Every row has its metrics, to the precision of both; states and packets are news each time.
fn check_events<'a>(events: &[serde_json::Value], rows: impl Iterator<Item = &'a SeriesRow>) {
    let (mut rows, mut state, mut sent, mut lost) = (rows.peekable(), None, None, 0);
    let near = |value: &serde_json::Value, row: Option<f64>| match (value.as_f64(), row) {
        (Some(value), Some(row)) => (value - row).abs() <= 0.0006,
        (value, row) => value.is_none() && row.is_none(),
    };
    for event in events {
        let data = &event["data"];
        let row = *rows.peek().expect("a row for each sample");
        let is_now = near(&event["time"], Some(row.t_s * 1e3));
        match event["name"].as_str() {
            Some("recovery:metrics_updated") => {
                assert!(is_now, "{event} at {row:?}");
                assert_eq!(data["congestion_window"], row.cwnd_bytes);
                assert_eq!(data["bytes_in_flight"], row.inflight_bytes);
                let rate = data["pacing_rate"].as_u64().map(|rate| rate as f64 / 1e6);
                assert_eq!(rate, row.pacing_mbps);
                assert!(near(&data["latest_rtt"], row.rtt_ms), "{event} at {row:?}");
                assert!(near(&data["min_rtt"], row.min_rtt_ms), "{event} at {row:?}");
                let smoothed = data["smoothed_rtt"].as_f64();
                assert_eq!(smoothed.is_some(), row.rtt_ms.is_some());
                assert!(smoothed.is_none_or(|rtt| rtt > 39.0), "{event}");
                assert_eq!(state.as_deref(), Some(row.state.as_str()));
                let count = |name: &str| data[name].as_u64().expect("a count");
                assert_eq!(sent, count("sent_packets").checked_sub(1), "the newest packet");
                assert!(count("lost_packets") >= lost);
                lost = count("lost_packets");
                rows.next();
            }
            Some("recovery:congestion_state_updated") => {
                assert!(is_now, "{event} at {row:?}");
                assert_eq!(data["old"].as_str(), state.as_deref());
                assert_ne!(data["new"], data["old"]);
                state = data["new"].as_str().map(str::to_owned);
            }
            Some("transport:packet_sent") => {
                let number = data["header"]["packet_number"].as_u64();
                assert!(number > sent, "{event} after {sent:?}");
                assert!(data["raw"]["length"].as_u64().is_some_and(|bytes| bytes >= 1200));
                sent = number;
            }
            name => panic!("{name:?}"),
        }
    }
    assert_eq!(rows.next(), None, "a sample for each row");
    assert!(lost > 0 || sent.is_none_or(|n| n < 100), "this path loses");
}

#[test]
fn a_qlog_of_a_stopped_run_holds_whole_records() {
    let p = plan(&format!("cc = \"bbr3\"\nduration = \"1s\"\ninterval = \"1ms\"\n{PATH}"));
    let base = tempfile::tempdir().expect("a directory");
    let dir = QlogDir::create(base.path()).expect("a directory");
    let stopped = run(&p, 0, Series::Asked, Some(&dir), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(ExperimentError::Interrupted)));
    assert_eq!(records(&base.path().join("x-run0-flow0-bbr3.sqlog")).len(), 2);
}

#[test]
fn an_outcome_survives_its_line() {
    let p = plan(&format!("cc = \"bbr3\"\nduration = \"1s\"\ninterval = \"70ms\"\n{PATH}"));
    let outcome = outcomes(&p).remove(0);
    let line = serde_json::to_string(&outcome).expect("a line");
    let back: Outcome = serde_json::from_str(&line).expect("an outcome");
    assert_eq!(back, outcome);
}

#[test]
fn every_metric_has_its_formula_in_the_documentation() {
    use crate::expect::{Level, Metric};
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
    let docs = std::fs::read_to_string(docs).expect("docs/results.md");
    for level in [Level::Run, Level::Flow, Level::Link] {
        for metric in Metric::of(level) {
            let name = metric.to_string();
            let family = name.split('.').next().unwrap_or(&name);
            assert!(docs.contains(&format!("| `{family}")), "{family} is not in docs/results.md");
        }
    }
}
