//! No field of a file is dropped in silence: with another value of any one the results are others,
//! or the file is refused, or the field is on the list below with its reason.
//!
//! The names come from the schema itself, so that a new field has to have its row here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

const TABLE: &str = "time,mbps,rtt_ms,loss,other\n0,8,40,0.02,3\n0.4,0,60,0,9\n0.8,16,40,0,5\n";
const RTTS: &str = "ms,rtt_us\n0,30000\n300,50000\n600,40000\n";

/// The results of a file, or why it is refused.
fn outcome(dir: &Path, text: &str) -> Result<RunResult, String> {
    let plan = Plan::parse(text, "x.toml", "x", dir, Edition::default());
    let plan = plan.map_err(|e| e.to_string())?;
    BackendChoice::SIM.check_plan(&plan, "x.toml").map_err(|e| e.to_string())?;
    let options = RunOptions { rows: Some(20), ..RunOptions::default() };
    let run = run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ());
    run.map_err(|e| e.to_string())
}

/// A table of a file: the text around it, and its fields with their values.
struct Table {
    name: &'static str,
    before: &'static str,
    after: &'static str,
    fields: Vec<(&'static str, &'static str)>,
}

impl Table {
    fn text(&self, changed: Option<(&str, &str)>) -> String {
        let mut fields: BTreeMap<&str, &str> = self.fields.iter().copied().collect();
        fields.extend(changed);
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!("{}{{ {} }}{}", self.before, fields.join(", "), self.after)
    }

    /// The fields that the schema has, as its error about another one lists them.
    fn known(&self, dir: &Path) -> Vec<String> {
        let error =
            outcome(dir, &self.text(Some(("no_such_field", "1")))).expect_err("no such field");
        let list =
            error.split_once("expected").unwrap_or_else(|| panic!("{}: {error}", self.name)).1;
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }
}

/// For each field of each table another value than it has. `silent` are those that may change
/// nothing, each with its reason.
fn check(tables: &[Table], values: &[(&str, &str)], silent: &[(&str, &str, &str)]) {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("t.csv"), TABLE).expect("a file");
    std::fs::write(dir.path().join("rtt.csv"), RTTS).expect("a file");
    let mut used = vec![false; silent.len()];
    let mut dropped = Vec::new();
    for table in tables {
        let base = outcome(dir.path(), &table.text(None));
        let base = base.unwrap_or_else(|e| panic!("{}: {e}: {}", table.name, table.text(None)));
        for field in table.known(dir.path()) {
            let Some((_, value)) = values.iter().find(|(name, _)| *name == field) else {
                panic!("{}: no value of '{field}' to try; write one here", table.name)
            };
            let text = table.text(Some((&field, value)));
            let is_same = outcome(dir.path(), &text).is_ok_and(|result| result == base);
            let reason = silent
                .iter()
                .position(|(of, name, _)| *name == field && (*of == table.name || *of == "all"));
            match (is_same, reason) {
                (true, None) => dropped.push(format!("{}: {field} = {value}", table.name)),
                (true, Some(place)) => used[place] = true,
                (false, _) => {}
            }
        }
    }
    assert!(dropped.is_empty(), "dropped in silence:\n{}", dropped.join("\n"));
    let idle = silent.iter().zip(used).filter(|(_, used)| !used).map(|(row, _)| row);
    assert_eq!(idle.collect::<Vec<_>>(), Vec::<&(&str, &str, &str)>::new(), "rows without a use");
}

const HEAD: &str = "cc = \"cubic\"\nduration = \"2s\"\npath = ";

#[test]
fn no_field_of_a_path_is_dropped_in_silence() {
    let path = |name, fields| Table { name, before: HEAD, after: "\n", fields };
    let shaper = "[{ shaper = { rate = \"5mbit\", bucket = \"30kB\", buffer = \"30kB\" } }]";
    let tables = [
        path("rate", vec![("rate", "\"10mbit\""), ("rtt", "\"40ms\"")]),
        path("trace", vec![("trace", "\"lte\""), ("rtt", "\"40ms\"")]),
        path("table", vec![("trace", "\"t.csv\"")]),
        path("rtts", vec![("trace", "\"rtt.csv\""), ("rate", "\"10mbit\"")]),
        path("shaper", vec![("down", shaper), ("rtt", "\"40ms\"")]),
        Table {
            name: "chain",
            before: HEAD,
            after: "\n[[link]]\nrate = \"10mbit\"\ndelay = \"20ms\"\n",
            fields: vec![("rtt", "\"40ms\"")],
        },
    ];
    let values = [
        ("rtt", "\"60ms\""),
        ("rate", "\"5mbit\""),
        ("steps", "[{ at = \"500ms\", rate = \"2mbit\" }]"),
        ("trace", "\"wifi\""),
        ("buffer", "\"8pkts\""),
        ("queue", "\"codel\""),
        ("loss", "\"5%\""),
        ("down", "[{ delay = \"9ms\" }]"),
        ("up", "[{ delay = \"9ms\" }]"),
    ];
    check(&tables, &values, &[]);
}

#[test]
fn no_field_of_what_begins_again_is_dropped_in_silence() {
    let before = "cc = \"cubic\"\nduration = \"4s\"\npath = { rate = \"8mbit\", rtt = \"20ms\", ";
    let table = |name, before: String, list, after| Table {
        name,
        before: Box::leak(before.into_boxed_str()),
        after,
        fields: vec![("every", "\"1s\""), ("list", list)],
    };
    let spread = vec![("spread", "\"2ms\"")];
    let tables = [
        table(
            "steps",
            format!("{before}steps = "),
            "[{ at = \"500ms\", rate = \"2mbit\" }]",
            " }\n",
        ),
        Table {
            name: "jitter",
            before: Box::leak(format!("{before}down = [{{ jitter = ").into_boxed_str()),
            after: " }] }\n",
            fields: spread,
        },
    ];
    let values = [
        ("every", "\"2s\""),
        ("repeat", "2"),
        ("list", "[{ at = \"300ms\", rate = \"2mbit\" }]"),
        ("spread", "\"4ms\""),
        ("distribution", "\"normal\""),
        ("correlation", "\"50%\""),
    ];
    check(&tables, &values, &[]);
}

#[test]
fn no_field_of_a_link_is_dropped_in_silence() {
    let before = "cc = \"cubic\"\nduration = \"2s\"\nlink = [";
    let link = |name, fields| Table { name, before, after: "]\n", fields };
    let policer = "[{ policer = { rate = \"5mbit\", bucket = \"30kB\" } }]";
    let tables = [
        link("rate", vec![("rate", "\"10mbit\""), ("delay", "\"20ms\"")]),
        link("trace", vec![("trace", "\"lte\""), ("delay", "\"20ms\"")]),
        link("policer", vec![("down", policer), ("delay", "\"20ms\"")]),
        Table {
            name: "before another",
            before,
            after: ", { rate = \"9mbit\", delay = \"10ms\" }]\n",
            fields: vec![("rate", "\"10mbit\""), ("delay", "\"20ms\"")],
        },
    ];
    let values = [
        ("delay", "\"30ms\""),
        ("rate", "\"5mbit\""),
        ("steps", "[{ at = \"500ms\", rate = \"2mbit\" }]"),
        ("trace", "\"wifi\""),
        ("buffer", "\"8pkts\""),
        ("queue", "\"codel\""),
        ("loss", "\"5%\""),
        ("down", "[{ delay = \"9ms\" }]"),
        ("from", "\"a\""),
        ("to", "\"a\""),
        ("fails", "[{ at = \"500ms\", until = \"900ms\" }]"),
    ];
    check(&tables, &values, &[]);
}

/// Two leaves, two spines, and a node of the file's own between the leaves, whose first link fails.
#[test]
fn no_field_of_a_network_is_dropped_in_silence() {
    let before = "cc = \"cubic\"\nduration = \"2s\"\nnode = [{ name = \"x\" }]\n\
                  link = [{ from = \"leaf0\", to = \"x\", rate = \"9mbit\", delay = \"1ms\", buffer = \"2bdp\", \
                  fails = [{ at = \"500ms\" }] }, \
                  { from = \"x\", to = \"leaf1\", rate = \"9mbit\", delay = \"1ms\", buffer = \"2bdp\" }]\n\
                  flow = [{ from = \"h0\", to = \"h1\", count = 6 }]\nnetwork = ";
    let tables = [Table {
        name: "leaves and spines",
        before,
        after: "\n",
        fields: vec![
            ("leaf_spine", "{ leaves = 2, spines = 2, hosts = 1 }"),
            ("core", "{ rate = \"8mbit\", delay = \"4ms\", buffer = \"1bdp\" }"),
            ("edge", "{ rate = \"90mbit\", delay = \"1ms\", buffer = \"1bdp\" }"),
        ],
    }];
    let values = [
        ("dumbbell", "{ pairs = 2 }"),
        ("parking_lot", "{ hops = 2 }"),
        ("incast", "{ senders = 2 }"),
        ("leaf_spine", "{ leaves = 2, spines = 1, hosts = 1 }"),
        ("fat_tree", "{ k = 2 }"),
        ("core", "{ rate = \"7mbit\", delay = \"4ms\", buffer = \"1bdp\" }"),
        ("edge", "{ rate = \"80mbit\", delay = \"2ms\", buffer = \"1bdp\" }"),
        ("rtt", "\"90ms\""),
        ("shortest", "\"delay\""),
        ("ecmp", "false"),
        ("reroute_after", "\"300ms\""),
    ];
    check(&tables, &values, &[]);
}

#[test]
fn no_field_of_a_flow_between_nodes_is_dropped_in_silence() {
    let before = "cc = \"cubic\"\nduration = \"2s\"\n\
                  node = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }]\n\
                  link = [{ from = \"a\", to = \"b\", rate = \"9mbit\", delay = \"5ms\" }, \
                  { from = \"b\", to = \"c\", rate = \"9mbit\", delay = \"5ms\" }, \
                  { from = \"a\", to = \"c\", rate = \"8mbit\", delay = \"5ms\" }]\n";
    let table = |name, before: String, after, fields| Table {
        name,
        before: Box::leak(before.into_boxed_str()),
        after,
        fields,
    };
    let flow = vec![("from", "\"a\""), ("to", "\"c\"")];
    let changes = [
        ("from", "\"b\""),
        ("to", "\"b\""),
        ("route", "\"a, b, c\""),
        ("reroute", "[{ at = \"1s\", route = \"a, b, c\" }]"),
        ("access", "{ rate = \"2mbit\" }"),
        ("count", "2"),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let of_flow = table("flow", format!("{before}flow = ["), "]\n", flow.clone());
    let base = outcome(dir.path(), &of_flow.text(None)).expect("a run");
    for change in changes {
        let other = outcome(dir.path(), &of_flow.text(Some(change))).expect("a run");
        assert!(other != base, "{change:?}");
    }
    let before = format!("{before}flow = [{{ from = \"a\", to = \"c\" }}]\ncross = [");
    let fields = [flow, vec![("rate", "\"3mbit\"")]].concat();
    let cross = [table("cross", before, "]\n", fields)];
    let values = [
        ("rate", "\"2mbit\""),
        ("packet", "\"400B\""),
        ("arrivals", "\"poisson\""),
        ("start", "\"500ms\""),
        ("stop", "\"500ms\""),
        ("route", "\"a, b\""),
        ("from", "\"b\""),
        ("to", "\"b\""),
    ];
    check(&cross, &values, &[]);
}

#[test]
fn no_field_of_a_trace_is_dropped_in_silence() {
    let before = "cc = \"cubic\"\nduration = \"2s\"\npath = { rtt = \"40ms\", trace = ";
    let named = ("columns", "{ time = \"time\", rate = \"mbps\" }");
    let trace = |name, fields| Table { name, before, after: " }\n", fields };
    let tables = [
        trace("table", vec![("file", "\"t.csv\""), named]),
        trace("in the program", vec![("file", "\"lte\"")]),
    ];
    let values = [
        ("file", "\"wifi\""),
        ("columns", "{ time = \"time\", rate = \"other\" }"),
        ("time_unit", "\"ms\""),
        ("time_format", "\"%H:%M:%S\""),
        ("rate_unit", "\"kbit/s\""),
        ("rtt_unit", "\"us\""),
        ("delay_trace", "\"rtt.csv\""),
        ("interval", "\"10ms\""),
        ("repeat", "false"),
        ("interpolation", "\"linear\""),
    ];
    check(&tables, &values, &[]);
}

#[test]
fn no_field_of_a_queue_is_dropped_in_silence() {
    let before = "cc = \"cubic\"\nduration = \"3s\"\nflow = [{ ecn = \"classic\" }, { ecn = \"l4s\", cc = \"bbr3-linux\" }]\n\
                  path = { rate = \"10mbit\", rtt = \"40ms\", buffer = \"100kB\", queue = { ";
    let queues = [
        ("codel = ", vec![]),
        ("fq_codel = ", vec![]),
        ("pie = ", vec![]),
        ("dualpi2 = ", vec![]),
        ("red = ", vec![("min", "\"5kB\""), ("max", "\"30kB\"")]),
        ("step = ", vec![("mark_above", "\"20pkts\"")]),
    ];
    let tables = queues.map(|(name, fields)| Table {
        name,
        before: Box::leak(format!("{before}{name}").into_boxed_str()),
        after: " } }\n",
        fields,
    });
    let values = [
        ("target", "\"30ms\""),
        ("interval", "\"20ms\""),
        ("ecn", "true"),
        ("ce_threshold", "\"1ms\""),
        ("queues", "1"),
        ("quantum", "300"),
        ("update", "\"30ms\""),
        ("max_burst", "\"1s\""),
        ("rtt_max", "\"400ms\""),
        ("ramp_from", "\"5ms\""),
        ("ramp_range", "\"5ms\""),
        ("min", "\"10kB\""),
        ("max", "\"60kB\""),
        ("max_probability", "\"50%\""),
        ("weight", "\"2%\""),
        ("mark_above", "\"5pkts\""),
    ];
    let silent = [
        ("codel = ", "ecn", "true is what it is"),
        ("fq_codel = ", "ecn", "true is what it is"),
        ("pie = ", "ecn", "true is what it is"),
        ("red = ", "ecn", "true is what it is"),
    ];
    check(&tables, &values, &silent);
}

#[test]
fn no_field_of_live_media_is_dropped_in_silence() {
    let before = "cc = \"bbr3\"\nduration = \"15s\"\npath = { rate = \"3mbit\", rtt = \"40ms\", buffer = \"30pkts\", \
                  steps = [{ at = \"5s\", rate = \"500kbit\" }] }\n[[flow]]\napp = { media = ";
    let media = |name, fields| Table { name, before, after: " }\n", fields };
    let tables = [
        media("constant", vec![("bitrate", "\"2mbit\""), ("keyframes", "\"1s\"")]),
        media(
            "adaptive",
            vec![
                ("bitrate", "\"1mbit\""),
                ("keyframes", "\"1s\""),
                ("adapt", "true"),
                ("min", "\"300kbit\""),
                ("max", "\"8mbit\""),
            ],
        ),
    ];
    let values = [
        ("bitrate", "\"1500kbit\""),
        ("fps", "20"),
        ("keyframes", "\"500ms\""),
        ("keyframe_size", "8"),
        ("adapt", "true"),
        ("min", "\"900kbit\""),
        ("max", "\"1200kbit\""),
        ("probe", "true"),
        ("playout", "\"50ms\""),
    ];
    let silent = [("adaptive", "adapt", "true is what it is")];
    check(&tables, &values, &silent);
}

#[test]
fn no_field_of_a_flow_is_dropped_in_silence() {
    let before = "cc = \"bbr3\"\nduration = \"3s\"\npath = { rate = \"8mbit\", rtt = \"40ms\", buffer = \"30pkts\", \
                  queue = { codel = { ecn = true } }, loss = \"0.5%\", down = [{ reordering = { every = 50, delay = \"8ms\" } }, { marking = \"1%\" }] }\n\
                  flow = [";
    let flow = |name, fields| Table { name, before, after: "]\n", fields };
    let tcp = ("transport", "\"tcp\"");
    let tables = [
        flow("bbr3", vec![]),
        flow("bbr1", vec![("cc", "\"bbr1\"")]),
        flow("bbr3x", vec![("cc", "\"bbr3x\"")]),
        flow("bbr-swift", vec![("cc", "\"bbr-swift\"")]),
        flow("slow receiver", vec![("cc", "\"bbr-swift\""), ("receiver_delay", "\"3ms\"")]),
        flow("cubic", vec![("cc", "\"cubic\"")]),
        flow("fixed", vec![("cc", "\"fixed:6mbit\"")]),
        flow("cubic over tcp", vec![("cc", "\"cubic\""), tcp]),
        flow(
            "cubic with pauses",
            vec![
                ("cc", "\"cubic\""),
                tcp,
                ("app", "{ on_off = { on = \"300ms\", off = \"700ms\" } }"),
            ],
        ),
        flow(
            "short flows",
            vec![("app", "{ short_flows = { bytes = \"90kB\", every = \"300ms\" } }")],
        ),
    ];
    let values = [
        ("name", "\"mine\""),
        ("cc", "\"reno\""),
        ("count", "2"),
        ("start", "\"300ms\""),
        ("every", "\"100ms\""),
        ("stop", "\"900ms\""),
        ("app", "{ bytes = \"500kB\" }"),
        ("program", "{ client = \"true\" }"),
        ("transport", "\"tcp\""),
        ("receiver", "\"user\""),
        ("mss", "900"),
        ("initial_cwnd", "\"60kB\""),
        ("resume", "{ cwnd = \"200kB\", rtt = \"40ms\" }"),
        ("startup", "\"rapid_start\""),
        ("paced", "false"),
        ("pacer", "\"noq\""),
        ("ack_aggregation", "false"),
        ("cubic", "\"linux\""),
        ("bbr3x_without", "\"path_loss\""),
        ("startup_pacing_gain", "4.0"),
        ("startup_cwnd_gain", "4.0"),
        ("ack_every", "8"),
        ("ack_delay", "\"3ms\""),
        ("ecn", "\"classic\""),
        ("send_buffer", "\"6kB\""),
        ("receive_window", "\"15kB\""),
        ("receive_window_initial", "\"5kB\""),
        ("extra_rtt", "\"20ms\""),
        ("jitter", "\"4ms\""),
        ("receiver_delay", "\"6ms\""),
        ("swift_target", "\"90ms\""),
        ("swift_range", "\"30ms\""),
        ("swift_endpoint", "\"20ms\""),
        ("handshake", "false"),
        ("quick_acks", "60"),
        ("reordering", "\"threshold\""),
        ("rto_min", "\"900ms\""),
        ("idle_restart", "false"),
        ("prr", "false"),
        ("route", "\"0\""),
        ("reroute", "[{ at = \"1s\", route = \"0\" }]"),
        ("from", "\"a\""),
        ("to", "\"a\""),
        ("pairs", "\"in_order\""),
        ("access", "{ rate = \"4mbit\", delay = \"3ms\" }"),
        ("direction", "\"up\""),
        ("in_fairness", "false"),
        ("background", "true"),
    ];
    let silent = [
        ("all", "every", "one flow has no next one, and a list of counts may begin with 1"),
        ("all", "route", "the only link"),
        ("all", "reroute", "the only link"),
        ("all", "in_fairness", "a flow alone is as fair with it as without"),
        ("cubic over tcp", "transport", "it is what it is"),
        ("cubic with pauses", "transport", "it is what it is"),
        ("cubic over tcp", "cubic", "TCP's is Linux's"),
        ("cubic with pauses", "cubic", "TCP's is Linux's"),
        ("fixed", "resume", "its window never limits it"),
        ("bbr-swift", "ack_delay", "no packet waits for it"),
        ("bbr-swift", "swift_endpoint", "the receiver takes no time"),
        ("slow receiver", "receive_window", "the endpoint window is smaller"),
        ("slow receiver", "swift_target", "the endpoint window is smaller"),
        (
            "cubic with pauses",
            "send_buffer",
            "in the simulator for bulk and bytes alone, as the docs say",
        ),
        ("cubic over tcp", "rto_min", "no timeout"),
        ("cubic over tcp", "idle_restart", "no pause"),
    ];
    check(&tables, &values, &silent);
}

#[test]
fn no_field_of_cross_traffic_is_dropped_in_silence() {
    let before = "cc = \"cubic\"\nduration = \"2s\"\nlink = [{ rate = \"10mbit\", delay = \"5ms\" }, \
                  { rate = \"9mbit\", delay = \"5ms\" }]\ncross = [";
    let cross = |name, fields| Table { name, before, after: "]\n", fields };
    let values = [
        ("rate", "\"2mbit\""),
        ("packet", "\"400B\""),
        ("arrivals", "\"poisson\""),
        ("start", "\"500ms\""),
        ("stop", "\"500ms\""),
        ("route", "\"1\""),
        ("from", "\"a\""),
        ("to", "\"a\""),
    ];
    check(&[cross("cross", vec![("rate", "\"3mbit\"")])], &values, &[]);
}
