//! Traces in scenario files, and as options.

use std::path::Path;

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{ElementConfig, LossConfig, PathConfig, QueueConfig, QueueLimit, RateConfig};
use fullpipe_scenario::{Edition, Scenario};

use super::{Options, PathExtras, Plan};

const TABLE: &str = "time,mbps,rtt_ms,loss\n0,8,40,0.02\n1,0,60,0\n2,16,40,0\n";

/// A folder with files of these names and texts.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

fn plan(dir: &Path, path: &str) -> Result<Plan, String> {
    let text = format!("cc = \"cubic\"\n{path}\n");
    Plan::parse(&text, "x.toml", "x", dir, Edition::default()).map_err(|e| e.to_string())
}

fn scenario(dir: &Path, path: &str) -> Scenario {
    let plan = plan(dir, path).unwrap_or_else(|e| panic!("{path}: {e}"));
    plan.grid.runs[0].scenario().clone()
}

fn rate(path: &PathConfig) -> (&RateConfig, &QueueConfig) {
    let found = path.row.iter().find_map(|element| match element {
        ElementConfig::Bottleneck { rate, queue } => Some((rate, queue)),
        _ => None,
    });
    found.expect("a bottleneck")
}

#[test]
fn a_table_is_the_rate_the_loss_and_half_the_rtt_in_each_direction() {
    let dir = folder(&[("t.csv", TABLE)]);
    let s = scenario(dir.path(), "path = { trace = \"t.csv\", buffer = \"1bdp\" }");
    let [loss, bottleneck, delay] = s.config.links[0].row.as_slice() else {
        panic!("{:?}", s.config.links[0].row)
    };
    assert!(matches!(loss, ElementConfig::Loss(LossConfig::Series(_))), "{loss:?}");
    let ElementConfig::Bottleneck { rate: RateConfig::Series(rate), queue } = bottleneck else {
        panic!("{bottleneck:?}")
    };
    assert_eq!(rate.steps()[1].1, Rate::ZERO);
    assert_eq!(rate.period(), Some(Duration::from_secs(3)));
    // 8 Mbit/s times 46.666 ms, both means.
    let wanted = Rate::from_bits_per_sec(8_000_000).bytes_in(Duration::from_nanos(46_666_666));
    assert_eq!(*queue, QueueConfig::TailDrop(QueueLimit::Bytes(wanted)));
    let halves = |element: &ElementConfig| {
        let ElementConfig::DelaySeries(series) = element else { panic!("{element:?}") };
        series.steps().iter().map(|(_, d)| d.as_nanos() / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(
        (halves(delay), halves(&s.config.uplink.row[0])),
        (vec![20, 30, 20], vec![20, 30, 20])
    );
}

#[test]
fn a_trace_of_rtts_stands_beside_a_rate_and_its_steps() {
    let dir = folder(&[("rtt.csv", "seq,rtt_us,lost\n0,30000,0\n1,40000,1\n")]);
    let trace = "trace = { file = \"rtt.csv\", interval = \"10ms\" }";
    let s = scenario(dir.path(), &format!("path = {{ rate = \"10mbit\", {trace} }}"));
    assert_eq!(*rate(&s.config.links[0]).0, Rate::from_bits_per_sec(10_000_000).into());
    let steps = "steps = [{ at = \"1s\", rate = \"5mbit\" }]";
    let s = scenario(dir.path(), &format!("path = {{ rate = \"10mbit\", {steps}, {trace} }}"));
    assert!(matches!(rate(&s.config.links[0]).0, RateConfig::Steps(_)));
}

#[test]
fn the_way_back_and_the_links_of_a_chain_have_traces_too() {
    let dir = folder(&[("t.csv", TABLE), ("r.csv", "t,mbps\n0,8\n1,4\n")]);
    let alone = "{ file = \"t.csv\", columns = { time = \"time\", rate = \"mbps\" } }";
    let up = format!(
        "path = {{ rate = \"9mbit\", rtt = \"40ms\", up = [{{ bottleneck = {{ trace = {alone} }} }}] }}"
    );
    let s = scenario(dir.path(), &up);
    assert!(matches!(rate(&s.config.uplink).0, RateConfig::Series(_)));
    let chain =
        "[[link]]\ntrace = \"r.csv\"\ndelay = \"5ms\"\n[[link]]\nrate = \"9mbit\"\ndelay = \"5ms\"";
    let s = scenario(dir.path(), chain);
    assert!(matches!(rate(&s.config.links[0]).0, RateConfig::Series(_)));
}

#[test]
fn what_a_trace_cannot_be_beside_is_told_with_its_line() {
    let files = [("t.csv", TABLE), ("r.csv", "t,mbps\n0,8\n1,4\n"), ("m.trace", "1\n\u{1b}[31m\n")];
    let dir = folder(&files);
    for (path, says) in [
        (
            "path = { trace = \"t.csv\", rtt = \"40ms\" }",
            "x.toml:2: path.rtt: the trace has round-trip times",
        ),
        (
            "path = { trace = \"t.csv\", loss = \"1%\" }",
            "x.toml:2: path.loss: the trace has losses too",
        ),
        (
            "path = { trace = \"t.csv\", rate = \"1mbit\" }",
            "x.toml:2: path.trace: there is a rate too",
        ),
        ("path = { trace = \"r.csv\" }", "x.toml:2: path: no rtt"),
        (
            "path = { trace = \"r.csv\", rtt = \"1ms\", steps = [{ at = \"1s\", rate = \"1mbit\" }] }",
            "x.toml:2: path.steps: they change a rate, and there is a trace",
        ),
        (
            "path = { trace = { file = \"t.csv\", columns = { time = 1, rtt = 3 } } }",
            "x.toml:2: path.trace: it has no rate",
        ),
        ("[[link]]\ntrace = \"t.csv\"", "link[0].trace: the trace has round-trip times"),
        (
            "path = { rate = \"9mbit\", rtt = \"40ms\", up = [{ bottleneck = { trace = \"t.csv\" } }] }",
            "path.up[0].bottleneck.trace: it has a column of rtt too",
        ),
        (
            "path = { trace = \"none.csv\", rtt = \"1ms\" }",
            "or one of those that are there: lte and wifi",
        ),
        (
            "path = { trace = { file = \"lte\", repeat = false }, rtt = \"1ms\" }",
            "write its name alone",
        ),
        (
            "path = { trace = { file = \"r.csv\", repeats = false }, rtt = \"1ms\" }",
            "did you mean repeat?",
        ),
        (
            "path = { trace = \"m.trace\", rtt = \"1ms\" }",
            "m.trace: line 2: \"\\u{1b}[31m\" is no time",
        ),
        ("path = { trace = \"\\u001b[2J\", rtt = \"1ms\" }", "\\u{1b}[2J: No such file"),
    ] {
        let error = plan(dir.path(), path).expect_err(path);
        assert!(error.contains(says), "{path} should tell {says}: {error}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

/// A trace that is a file of its own belongs to what a run is made of.
#[test]
fn another_table_makes_another_fingerprint() {
    let of = |table: &str| {
        let dir = folder(&[("t.csv", table)]);
        let plan = plan(dir.path(), "path = { trace = \"t.csv\" }").expect("a plan");
        assert_eq!(plan.grid.trace_files(), ["t.csv"]);
        plan.fingerprint()
    };
    let first = of(TABLE);
    assert_eq!(first, of(TABLE));
    for (old, new) in [("0,8,", "0,9,"), ("60", "61"), ("0.02", "0.03")] {
        assert_ne!(first, of(&TABLE.replace(old, new)), "{new}");
    }
}

#[test]
fn options_say_the_whole_path() {
    let dir = folder(&[("t.csv", TABLE)]);
    let file = dir.path().join("t.csv");
    let trace = || file.to_str().expect("UTF-8").parse().expect("a trace");
    let value = |text: &str| Some(text.parse().expect("a value"));
    let options = Options {
        rate: None,
        rtt: None,
        extras: PathExtras {
            trace: Some(trace()),
            queue: value("{ codel = { target = \"9ms\" } }"),
            loss_model: value("{ gilbert_elliott = { to_bad = \"1%\", to_good = \"50%\" } }"),
            policer: value("{ rate = \"9mbit\", bucket = \"90kB\" }"),
            jitter: value("\"2ms\""),
            reorder: value("{ every = 9, delay = \"3ms\" }"),
            up_rate: Some("1mbit".to_owned()),
            up_trace: None,
            up_buffer: Some("20pkts".to_owned()),
            up_loss: Some("1%".to_owned()),
        },
        ..Options::default()
    };
    let plan = options.plan().expect("a plan");
    assert_eq!(
        plan.name,
        "1bdp t.csv codel bursts of loss policer jitter 2ms reordering up 1mbit up 1%"
    );
    let config = plan.grid.runs[0].scenario().config.clone();
    let kinds = |path: &PathConfig| {
        let name = |e: &ElementConfig| format!("{e:?}").split(['(', ' ']).next().map(str::to_owned);
        path.row.iter().filter_map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        kinds(&config.links[0]),
        "Loss Policer Jitter Reordering Loss Bottleneck DelaySeries"
    );
    assert_eq!(kinds(&config.uplink), "Loss Bottleneck DelaySeries");
    let error = Options {
        extras: PathExtras { up_buffer: Some("9pkts".to_owned()), ..PathExtras::default() },
        ..Options::default()
    };
    assert!(error.plan().expect_err("no rate").starts_with("--up-buffer: "));
    let both = Options {
        rtt: None,
        extras: PathExtras { trace: Some(trace()), ..PathExtras::default() },
        ..Options::default()
    };
    assert!(both.plan().expect_err("two rates").starts_with("--trace: there is a rate too"));
}
