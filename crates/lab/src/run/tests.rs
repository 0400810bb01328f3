use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_report::metrics::{Figures, Interval, RunResult};
use fullpipe_report::observe::SeriesRow;
use fullpipe_report::output::{QlogDir, ScenarioReport, write};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;

use super::{RunOptions, run_point};
use crate::backend::RunError;

pub(super) fn plan(text: &str) -> Plan {
    Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

pub(super) fn outcomes(plan: &Plan) -> Vec<RunResult> {
    let stop = AtomicBool::new(false);
    let all = (0..plan.grid.runs.len())
        .map(|i| run_point(plan, i, &RunOptions::default(), &stop, &mut |_| ()));
    all.map(|o| o.expect("it runs")).collect()
}

fn figure(figures: &Figures, name: &str) -> f64 {
    figures.get(name).copied().flatten().unwrap_or_else(|| panic!("no {name}: {figures:?}"))
}

const PATH: &str =
    "path = { rate = \"20mbit\", rtt = \"40ms\", buffer = \"2bdp\", loss = \"1%\" }\n";

/// Expectations, memory, what a backend lacks, the machine and the run itself look at the same
/// scenarios; a repetition has another seed, and so a scenario of its own.
#[test]
fn the_scenario_of_a_run_is_built_once() {
    let before = fullpipe_scenario::builds();
    let p = plan(&format!(
        "cc = [\"cubic\", \"reno\"]\nduration = \"1s\"\ninterval = \"100ms\"\n\
         expect = [\"flow[0].goodput_mbps >= 0\", \"latency_ms.p95 >= 0\", \"until_s(state != Startup) >= 0\"]\n\
         {PATH}[[flow]]\napp = {{ rate_limited = {{ rate = \"1mbit\" }} }}\n"
    ));
    let first = RunOptions::default();
    first.backend.check_plan(&p, "x.toml").expect("the simulator has all of it");
    p.jobs_within(1_000_000_000, 2, first.rows, "x.toml").expect("room");
    super::check_machine(&p, &first).expect("this machine runs it");
    let run = |i, options| run_point(&p, i, options, &AtomicBool::new(false), &mut |_| ());
    (0..2).for_each(|i| drop(run(i, &first).expect("it runs")));
    assert_eq!(fullpipe_scenario::builds() - before, 2);
    run(0, &RunOptions { repetition: 1, ..first }).expect("it runs");
    assert_eq!(fullpipe_scenario::builds() - before, 3);
}

/// The simulator itself, asked after the same run, is where every figure comes from.
#[test]
fn the_figures_are_what_the_simulator_counted() {
    let p =
        plan(&format!("cc = \"cubic\"\nduration = \"4s\"\nseed = 3\n{PATH}[[flow]]\ncount = 2\n"));
    let ours = &outcomes(&p)[0];
    let config = &p.grid.runs[0].scenario().config;
    let mut sim = fullpipe_sim::Sim::new(config).expect("a simulation");
    sim.run_until(fullpipe_cc::Instant::default() + fullpipe_cc::Duration::from_secs(4));
    let received: Vec<f64> = sim.flows().iter().map(|f| f.received() as f64).collect();
    let sum: f64 = received.iter().sum();
    let squares: f64 = received.iter().map(|x| x * x).sum();
    let link = sim.link(0).stats;
    let lost: u64 = (0..2).map(|i| sim.sender_stats(i).lost_bytes).sum();
    let sent: u64 = (0..2).map(|i| sim.sender_stats(i).sent_bytes).sum();
    let (queue, rtt) = (sim.queue_delay_ns(0), sim.rtt_ns());
    for (name, value) in [
        ("goodput_mbps", sum * 8.0 / 4.0 / 1e6),
        ("utilization", link.carried.bytes as f64 * 8.0 / 4.0 / 20e6),
        ("queue_ms.mean", queue.mean() / 1e6),
        ("queue_ms.p95", queue.value_at_quantile(0.95) as f64 / 1e6),
        ("queue_ms.max", queue.max() as f64 / 1e6),
        ("rtt_ms.min", rtt.min() as f64 / 1e6),
        ("rtt_ms.p50", rtt.value_at_quantile(0.5) as f64 / 1e6),
        ("loss_rate", link.dropped().packets as f64 / link.arrived.packets as f64),
        ("retransmit_rate", lost as f64 / sent as f64),
        ("jain", sum * sum / (2.0 * squares)),
        ("elapsed_s", 4.0),
        ("completed_bytes", sum),
    ] {
        let seen = figure(&ours.metrics, name);
        assert!((seen - value).abs() <= 1e-3 * value.abs().max(1e-3), "{name}: {seen} of {value}");
    }
    let flow = figure(&ours.flows[1].metrics, "goodput_mbps");
    assert!((flow - received[1] * 2.0 / 1e6).abs() < 1e-3, "{flow}");
}

/// Rows of a run whose length is not known beforehand, and its end with the last byte.
#[test]
fn a_run_by_volume_ends_with_the_last_byte() {
    let p = plan(&format!(
        "cc = \"cubic\"\nduration = \"until_done\"\n{PATH}[[flow]]\ncount = 2\nevery = \"500ms\"\napp = {{ bytes = \"2MB\" }}\n"
    ));
    let options = RunOptions { rows: Some(500), ..RunOptions::default() };
    let run = run_point(&p, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs");
    assert_eq!(figure(&run.metrics, "completed_bytes"), 4e6);
    assert_eq!(run.flows.iter().map(|f| f.start_s).collect::<Vec<_>>(), [0.0, 0.5]);
    let last = run.flows.iter().map(|f| f.end_s).fold(0.0, f64::max);
    assert_eq!(figure(&run.metrics, "elapsed_s"), last);
    assert!(last > 1.6, "4 MB take 1.6 s at 20 Mbit/s: {last}");
    assert!(run.series.windows(2).all(|w| w[0].t_s <= w[1].t_s) && run.series.len() > 100);
}

/// Nothing gets through: a run with a duration ends at it, and one without is given up.
#[test]
fn a_run_that_gets_nothing_through_ends() {
    let path = "path = { rate = \"9mbit\", rtt = \"9ms\", down = [{ blackhole = [{ from = \"0s\", to = \"900s\" }] }] }\n";
    let p = plan(&format!("cc = \"reno\"\nduration = \"40s\"\n{path}"));
    let stop = AtomicBool::new(false);
    let run = run_point(&p, 0, &RunOptions::default(), &stop, &mut |_| ()).expect("a result");
    assert_eq!(figure(&run.metrics, "goodput_mbps"), 0.0);
    let p = plan(&format!(
        "cc = \"reno\"\nduration = \"until_done\"\n{path}flow = [{{ app = {{ bytes = \"1MB\" }} }}]\n"
    ));
    let run = run_point(&p, 0, &RunOptions::default(), &stop, &mut |_| ());
    assert!(matches!(run, Err(RunError::Stalled(_))));
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

/// The values that the expectations ask for, in the order of the metrics.
pub(super) fn asked(metrics: &[&str], text: &str) -> (RunResult, Vec<Option<f64>>) {
    let expect: Vec<String> = metrics.iter().map(|m| format!("{m} >= 0")).collect();
    let p = plan(&text.replacen("cc =", &format!("expect = {expect:?}\ncc ="), 1));
    let outcome = outcomes(&p).remove(0);
    let values = outcome.probes.clone();
    (outcome, values)
}

/// The bounds come with losses, and are no numbers before.
#[test]
fn power_is_one_at_kleinrocks_optimum_and_flows_converge_when_all_have_their_share() {
    let text = "cc = \"fixed:9700kbit\"\nduration = \"9s\"\npath = { rate = \"10mbit\", rtt = \"40ms\" }\n";
    let (_, values) = asked(&["power"], text);
    assert!((0.96..=1.0).contains(&values[0].expect("a value")), "{values:?}");
    let (_, values) = asked(&["power"], &text.replace("9700kbit", "4850kbit"));
    assert!((0.48..=0.5).contains(&values[0].expect("a value")), "{values:?}");
    let path =
        "path = { rate = \"20mbit\", rtt = \"20ms\" }\ninterval = \"10ms\"\nduration = \"6s\"\n";
    let flows = |a: &str, b: &str| {
        let text = format!(
            "cc = \"bbr3\"\n{path}[[flow]]\ncc = \"fixed:{a}\"\n[[flow]]\nstart = \"2s\"\ncc = \"fixed:{b}\"\n"
        );
        asked(&["convergence_s"], &text).1[0]
    };
    assert!(flows("8mbit", "8mbit").is_some_and(|s| s < 0.2), "two that are equal are so at once");
    assert_eq!(flows("8mbit", "6mbit"), None, "and others never");
}

#[test]
fn a_probe_rtt_is_shared_when_all_flows_are_in_it_at_some_moment() {
    let text = "cc = \"bbr1\"\nduration = \"31s\"\ninterval = \"10ms\"\n\
                path = { rate = \"50mbit\", rtt = \"10ms\", buffer = \"8bdp\" }\n[[flow]]\ncount = 3\n";
    let (o, values) = asked(&["probe_rtt_shared"], text);
    let at_once = |t: f64| {
        o.series.iter().filter(|r| r.t_s == t && r.state.as_deref() == Some("ProbeRTT")).count()
    };
    let most = o.series.iter().map(|r| at_once(r.t_s)).max();
    assert_eq!((values[0], most), (Some(1.0), Some(3)));
    let alone = text.replace("count = 3\n", "\n[[flow]]\ncc = \"cubic\"\n");
    assert_eq!(asked(&["probe_rtt_shared"], &alone).1[0], Some(0.0));
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
    let options = RunOptions { qlog: Some(&dir), ..RunOptions::default() };
    let logged: Vec<RunResult> =
        (0..2).map(|i| run_point(&p, i, &options, &stop, &mut |_| ()).expect("it runs")).collect();
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
        assert_eq!(common["time_format"], "relative_to_epoch");
        assert_eq!(common["reference_time"]["clock_type"], "monotonic");
        let times: Vec<f64> = events.iter().map(|e| e["time"].as_f64().expect("a time")).collect();
        assert!(times.is_sorted(), "times go back: {times:?}");
        assert_eq!(times[0], [0.0, 700.0, 2990.0][flow]);
        assert_eq!(events[0]["name"], "quic:recovery_parameters_set");
        check_events(&events[1..], o.series.iter().filter(|row| row.flow == flow));
    }
}

/// Every row has its metrics, to the precision of both; states and packets are news each time.
fn check_events<'a>(events: &[serde_json::Value], rows: impl Iterator<Item = &'a SeriesRow>) {
    let (mut rows, mut metrics) = (rows.peekable(), None);
    let (mut state, mut sent, mut lost) = (None, None, 0);
    let near = |value: &serde_json::Value, row: Option<f64>| match (value.as_f64(), row) {
        (Some(value), Some(row)) => (value - row).abs() <= 0.0006,
        (value, row) => value.is_none() && row.is_none(),
    };
    for event in events {
        let data = &event["data"];
        let is_sent = event["name"] == "quic:packet_sent";
        assert_eq!(event["category"], if is_sent { "transport" } else { "recovery" });
        let row = *rows.peek().expect("a row for each sample");
        let is_now = near(&event["time"], Some(row.t_s * 1e3));
        match event["name"].as_str() {
            Some("quic:recovery_metrics_updated") => {
                metrics = Some(data);
                assert!(is_now, "{event} at {row:?}");
                assert_eq!(data["congestion_window"], row.cwnd_bytes);
                assert_eq!(data["bytes_in_flight"].as_u64(), row.inflight_bytes);
                let rate = data["pacing_rate"].as_u64().map(|rate| rate as f64 / 1e6);
                assert_eq!(rate, row.pacing_mbps);
                assert!(near(&data["latest_rtt"], row.rtt_ms), "{event} at {row:?}");
                assert!(near(&data["min_rtt"], row.min_rtt_ms), "{event} at {row:?}");
                let smoothed = data["smoothed_rtt"].as_f64();
                assert_eq!(smoothed.is_some(), row.rtt_ms.is_some());
                assert!(smoothed.is_none_or(|rtt| rtt > 39.0), "{event}");
                assert_eq!(state.as_deref(), row.state.as_deref());
                let count = |name: &str| data[name].as_u64().expect("a count");
                assert_eq!(sent, count("sent_packets").checked_sub(1), "the newest packet");
                assert!(count("lost_packets") >= lost);
                lost = count("lost_packets");
            }
            Some("recovery:metrics_updated") => {
                assert_eq!(metrics.take(), Some(data), "the same by its old name");
                rows.next();
            }
            Some("quic:congestion_state_updated") => {
                assert!(is_now, "{event} at {row:?}");
                assert_eq!(data["old"].as_str(), state.as_deref());
                assert_ne!(data["new"], data["old"]);
                state = data["new"].as_str().map(str::to_owned);
            }
            Some("quic:packet_sent") => {
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
    let options = RunOptions { qlog: Some(&dir), ..RunOptions::default() };
    let stopped = run_point(&p, 0, &options, &AtomicBool::new(true), &mut |_| ());
    assert!(matches!(stopped, Err(RunError::StoppedEarly)));
    assert_eq!(records(&base.path().join("x-run0-flow0-bbr3.sqlog")).len(), 2);
}

#[test]
fn an_outcome_survives_its_line() {
    let p = plan(&format!("cc = \"bbr3\"\nduration = \"1s\"\ninterval = \"70ms\"\n{PATH}"));
    let outcome = outcomes(&p).remove(0);
    let line = serde_json::to_string(&outcome).expect("a line");
    let back: RunResult = serde_json::from_str(&line).expect("an outcome");
    assert_eq!(back, outcome);
}

#[test]
fn every_metric_has_its_formula_in_the_documentation() {
    use fullpipe_report::metrics::{Level, Metric};
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
    let docs = std::fs::read_to_string(docs).expect("docs/results.md");
    for level in [Level::Run, Level::Flow, Level::Link] {
        for metric in Metric::of(level).into_iter().chain(Metric::sampled(level)) {
            let name = metric.to_string();
            let family = name.split('.').next().unwrap_or(&name);
            assert!(docs.contains(&format!("`{family}")), "{family} is not in docs/results.md");
        }
    }
}

#[test]
fn copies_that_are_dropped_make_no_loss_above_one() {
    let p = plan(
        "cc = \"bbr3\"\nduration = \"1s\"\n[path]\nrate = \"1mbit\"\nrtt = \"10ms\"\nbuffer = \"3kB\"\n\
         down = [{ duplication = \"99%\" }, { duplication = \"99%\" }, { duplication = \"99%\" }]\n",
    );
    let loss = figure(&outcomes(&p)[0].metrics, "loss_rate");
    assert!((0.5..1.0).contains(&loss), "{loss}");
}

/// Bulk flows in front, a call behind them, and one in the background.
fn mixed(call: &str, last: &str) -> Plan {
    plan(&format!(
        "cc = \"cubic\"\nduration = \"5s\"\nexpect = [{{ that = \"flow[call].latency_ms.p95 < 0\", known_failure = \"x\" }}]\n\
         {PATH}[[flow]]\nname = \"bulk\"\n[[flow]]\nname = \"call\"\n{call}\n\
         app = {{ rate_limited = {{ rate = \"1mbit\" }} }}\n[[flow]]\nname = \"last\"\n{last}\n"
    ))
}

#[test]
fn a_flow_has_its_own_round_trips_and_latency() {
    let p = mixed("extra_rtt = \"60ms\"", "");
    let run = &outcomes(&p)[0];
    let of = |flow: usize, name: &str| figure(&run.flows[flow].metrics, name);
    // The way of 40 ms, and 60 more of one of them.
    assert!((40.0..60.0).contains(&of(0, "rtt_ms.min")), "{}", of(0, "rtt_ms.min"));
    assert!((100.0..120.0).contains(&of(1, "rtt_ms.min")), "{}", of(1, "rtt_ms.min"));
    assert_eq!(run.probes[0], Some(of(1, "latency_ms.p95")));
    assert!(of(1, "latency_ms.p50") < of(0, "latency_ms.p50") + 100.0);
    let all = figure(&run.metrics, "rtt_ms.max");
    assert_eq!(all, (0..3).map(|i| of(i, "rtt_ms.max")).fold(0.0, f64::max));
}

#[test]
fn a_flow_out_of_fairness_or_in_the_background_is_left_out_of_what_it_says() {
    let goodputs = |run: &RunResult| -> Vec<f64> {
        run.flows.iter().map(|f| figure(&f.metrics, "goodput_mbps")).collect()
    };
    let jain = |all: &[f64]| {
        all.iter().sum::<f64>().powi(2)
            / (all.len() as f64 * all.iter().map(|x| x * x).sum::<f64>())
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-3 * b.abs(), "{a} and {b}");
    let plain = &outcomes(&mixed("", ""))[0];
    let all = goodputs(plain);
    near(figure(&plain.metrics, "jain"), jain(&all));
    let unfair = &outcomes(&mixed("in_fairness = false", ""))[0];
    assert_eq!(goodputs(unfair), all, "nothing else changes");
    near(figure(&unfair.metrics, "jain"), jain(&[all[0], all[2]]));
    assert_eq!(unfair.metrics["goodput_mbps"], plain.metrics["goodput_mbps"]);
    let behind = &outcomes(&mixed("", "background = true"))[0];
    assert_eq!(goodputs(behind), all, "nothing else changes");
    near(figure(&behind.metrics, "goodput_mbps"), all[0] + all[1]);
    near(figure(&behind.metrics, "jain"), jain(&all[..2]));
    near(figure(&behind.flows[0].metrics, "share"), all[0] / (all[0] + all[1]));
    let both = |name: &str| {
        (0..2).map(|i| figure(&behind.flows[i].metrics, name)).fold(f64::NEG_INFINITY, f64::max)
    };
    assert_eq!(figure(&behind.metrics, "rtt_ms.max"), both("rtt_ms.max"));
}

#[test]
fn a_trace_of_the_program_needs_no_file() {
    for name in ["lte", "wifi"] {
        let p = plan(&format!(
            "cc = \"cubic\"\nduration = \"3s\"\npath = {{ trace = \"{name}\", rtt = \"40ms\", buffer = \"200kB\" }}\n"
        ));
        let utilization = figure(&outcomes(&p)[0].metrics, "utilization");
        assert!((0.5..=1.0).contains(&utilization), "{name}: {utilization}");
    }
}

/// Of forty intervals of twenty seeds each, 38 should hold the mean that many seeds have.
#[test]
fn an_interval_over_seeds_holds_the_mean_of_others() {
    const TRIES: usize = 40;
    let seeds: Vec<String> = (1..=20 * TRIES + 200).map(|seed| seed.to_string()).collect();
    let p =
        plan(&format!("cc = \"cubic\"\nduration = \"1s\"\nseed = [{}]\n{PATH}", seeds.join(", ")));
    let goodputs: Vec<f64> =
        outcomes(&p).iter().map(|run| figure(&run.metrics, "goodput_mbps")).collect();
    let (tries, others) = goodputs.split_at(20 * TRIES);
    let mean = others.iter().sum::<f64>() / others.len() as f64;
    let holds = |seeds: &&[f64]| {
        let interval = Interval::of(seeds).expect("values");
        (interval.mean - mean).abs() <= interval.half_width.expect("several values")
    };
    let held = tries.chunks(20).filter(holds).count();
    assert!((36..TRIES).contains(&held), "{held} of {TRIES} hold {mean}");
}

#[test]
fn seeds_are_put_together_and_algorithms_compared_on_each() {
    let p = plan(&format!(
        "cc = [\"cubic\", \"bbr3\"]\nduration = \"1s\"\nseed = [1, 2, 3]\n{PATH}\
         expect = [\"half_width(goodput_mbps[bbr3] over seed) <= 0.2 * mean(goodput_mbps[bbr3] over seed)\"]\n"
    ));
    let mut report = ScenarioReport::of(&p, None, None);
    report.runs = outcomes(&p);
    report.summarize();
    assert_eq!((report.over_seeds.len(), report.paired.len()), (2, 1));
    let goodput = |of: usize| report.over_seeds[of].metrics["goodput_mbps"];
    let difference = report.paired[0].differences["goodput_mbps"];
    assert!((difference.mean - (goodput(1).mean - goodput(0).mean)).abs() < 1e-9);
    assert!(goodput(0).min < goodput(0).mean && goodput(0).mean < goodput(0).max);
    let text = fullpipe_report::output::table::runs("x", &report.rows()).to_text();
    assert_eq!(text.matches("± (95 %)").count(), 3, "{text}");
    assert!(text.contains("bbr3 - cubic"), "{text}");
    let verdict = &p.judge_runs(&report.runs)[0];
    let half = verdict.value.expect("a value");
    assert!((half - goodput(1).half_width.expect("three")).abs() < 1e-9, "{verdict:?}");
}
