//! Graphs of links in scenario files: what they give, and what is wrong with them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

fn plan(text: &str) -> Result<Plan, String> {
    Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default()).map_err(|e| e.to_string())
}

fn run(text: &str) -> RunResult {
    run_over(BackendChoice::SIM, text)
}

fn run_over(backend: BackendChoice, text: &str) -> RunResult {
    let plan = plan(text).expect("a sound file");
    backend.check_plan(&plan, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, ..RunOptions::default() };
    run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("a run")
}

/// The backends with whole stacks under a virtual clock.
fn stacks() -> impl Iterator<Item = BackendChoice> {
    let all = [
        BackendChoice::NOQ,
        #[cfg(feature = "quinn")]
        BackendChoice::QUINN,
        BackendChoice::TCP,
    ];
    all.into_iter()
}

fn goodput(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].metrics["goodput_mbps"].expect("a figure")
}

/// `a` and `b` behind a bottleneck to `c`.
const TWO_IN: &str = "cc = \"bbr3\"\nduration = \"4s\"\nnetwork = { rtt = \"20ms\" }
node = [{ name = \"a\" }, { name = \"b\" }, { name = \"m\" }, { name = \"c\" }]
link = [
    { from = \"m\", to = \"c\", rate = \"20mbit\", delay = \"5ms\", buffer = \"1bdp\" },
    { from = \"a\", to = \"m\", rate = \"6mbit\", delay = \"5ms\", buffer = \"1bdp\" },
    { from = \"b\", to = \"m\", rate = \"40mbit\", delay = \"5ms\", buffer = \"1bdp\" },
]
";

#[test]
fn two_access_links_share_a_bottleneck_by_any_way_to_say_it() {
    let flows = "[[flow]]\nfrom = \"a\"\nto = \"c\"\n[[flow]]\nfrom = \"b\"\nto = \"c\"\n";
    let by_ends = run(&format!("{TWO_IN}{flows}"));
    let (slow, fast) = (goodput(&by_ends, 0), goodput(&by_ends, 1));
    assert!((4.0..6.0).contains(&slow) && (11.0..15.0).contains(&fast), "{slow} and {fast}");
    let flows = "[[flow]]\nroute = \"a, m, c\"\n[[flow]]\nroute = \"b,m,c\"\nto = \"c\"\n";
    assert_eq!(run(&format!("{TWO_IN}{flows}")), by_ends);
    // One link in each direction: three of the file, and their other directions.
    assert_eq!(by_ends.links.len(), 6);
}

/// The shared bottleneck, and ACKs that come back over the links' other directions.
#[test]
fn whole_stacks_share_a_bottleneck_of_a_graph() {
    let flows = "[[flow]]\nfrom = \"a\"\nto = \"c\"\n[[flow]]\nfrom = \"b\"\nto = \"c\"\n";
    for backend in stacks() {
        let result = run_over(backend, &format!("{TWO_IN}{flows}"));
        let (slow, fast) = (goodput(&result, 0), goodput(&result, 1));
        assert!(
            (4.0..6.0).contains(&slow) && (11.0..15.0).contains(&fast),
            "{backend}: {slow} and {fast}"
        );
        let acks = result.links[3]["utilization"];
        assert!(acks > Some(0.001), "{backend}: {acks:?}");
    }
}

/// A short connection goes where its flow goes, and so do its ACKs and the answers to requests.
#[test]
fn every_application_of_a_whole_stack_runs_between_nodes() {
    for app in [
        "{ bytes = \"300kB\" }",
        "{ request_response = { response = \"20kB\", think = \"50ms\" } }",
        "{ short_flows = { bytes = \"10kB\", every = \"50ms\" } }",
    ] {
        let flow = format!("flow = [{{ from = \"a\", to = \"c\", app = {app} }}]\n");
        for backend in stacks() {
            let result = run_over(backend, &format!("{TWO_IN}{flow}"));
            assert!(goodput(&result, 0) > 0.5, "{backend}, {app}: {}", goodput(&result, 0));
        }
    }
}

/// A sender's own link, in front of a path without nodes.
#[test]
fn whole_stacks_have_links_of_their_own() {
    let text = "cc = \"cubic\"\nduration = \"3s\"\npath = { rate = \"20mbit\", rtt = \"20ms\" }\n\
                flow = [{ access = { rate = \"4mbit\", delay = \"10ms\" } }]\n";
    for backend in stacks() {
        let result = run_over(backend, text);
        assert!((3.0..4.0).contains(&goodput(&result, 0)), "{backend}: {}", goodput(&result, 0));
        let rtt = result.flows[0].metrics["rtt_ms.p50"];
        assert!(rtt >= Some(40.0), "{backend}: {rtt:?}");
    }
}

#[test]
fn a_run_is_the_same_each_time_and_another_with_another_seed() {
    let text = |seed: u32| {
        format!(
            "cc = \"cubic\"\nseed = {seed}\nduration = \"100ms\"\n\
             network = {{ fat_tree = {{ k = 4 }}, core = {{ rate = \"50mbit\", delay = \"20us\", buffer = \"30pkts\" }}, \
             edge = {{ rate = \"50mbit\", delay = \"20us\", buffer = \"30pkts\" }} }}\n\
             flow = [{{ from = \"h*\", to = \"h*\", pairs = \"permutation\" }}]\n"
        )
    };
    let once = run(&text(1));
    assert_eq!(once.flows.len(), 16);
    assert_eq!(run(&text(1)), once);
    assert_ne!(run(&text(2)).flows, once.flows);
}

/// The long way has half the rate; the failure is known 200 ms later.
#[test]
fn flows_go_around_a_link_that_fails_and_come_back() {
    let text = "cc = \"bbr3\"\nduration = \"4s\"\nnetwork = { reroute_after = \"200ms\", rtt = \"20ms\" }
node = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }]
flow = [{ from = \"a\", to = \"b\" }]
expect = [
    \"link[0].utilization >= 0.8 from 500ms to 1s\",
    \"link[0].loss_rate >= 0.5 from 1010ms to 1200ms\",
    \"link[1].utilization == 0 before 1190ms\",
    \"link[1].utilization >= 0.7 from 1800ms to 2500ms\",
    \"link[0].utilization >= 0.3 from 3s to 4s\",
]
link = [
    { from = \"a\", to = \"b\", rate = \"20mbit\", delay = \"5ms\", buffer = \"1bdp\", fails = [{ at = \"1s\", until = \"2500ms\" }] },
    { from = \"a\", to = \"c\", rate = \"10mbit\", delay = \"5ms\", buffer = \"1bdp\" },
    { from = \"c\", to = \"b\", rate = \"10mbit\", delay = \"5ms\", buffer = \"1bdp\" },
]
";
    for backend in stacks().chain([BackendChoice::SIM]) {
        let probes = run_over(backend, text).probes;
        let [before, lost, unused, around, back] = probes[..] else { panic!("{probes:?}") };
        let is = |value: Option<f64>, least: f64| value.is_some_and(|value| value >= least);
        assert!(is(before, 0.8) && is(lost, 0.5) && unused == Some(0.0), "{backend}: {probes:?}");
        assert!(is(around, 0.7) && is(back, 0.3), "{backend}: {probes:?}");
    }
}

/// The route of the start is found before anything is known to have failed.
#[test]
fn flows_go_around_a_link_that_fails_at_once() {
    let result = run("cc = \"bbr3\"\nduration = \"3s\"\nnetwork = { rtt = \"20ms\" }
node = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }]
flow = [{ from = \"a\", to = \"b\" }]
[[link]]
from = \"a\"
to = \"b\"
rate = \"20mbit\"
delay = \"5ms\"
buffer = \"1bdp\"
fails = [{ at = \"0s\", until = \"2500ms\" }]
[[link]]
from = \"a\"
to = \"c\"
rate = \"10mbit\"
delay = \"5ms\"
buffer = \"1bdp\"
[[link]]
from = \"c\"
to = \"b\"
rate = \"10mbit\"
delay = \"5ms\"
buffer = \"1bdp\"
");
    assert!(goodput(&result, 0) > 5.0, "{}", goodput(&result, 0));
}

/// The limits are of nodes and of links.
#[test]
fn a_shape_may_be_as_large_as_a_graph() {
    let with = |shape: &str| {
        let edge = "{ rate = \"10mbit\", delay = \"1ms\", buffer = \"1bdp\" }";
        plan(&format!(
            "cc = \"bbr3\"\nduration = \"1ms\"\nflow = [{{ from = \"h0\", to = \"h1\" }}]\n\
             [network]\nrtt = \"20ms\"\n{shape}\ncore = {edge}\nedge = {edge}\n"
        ))
    };
    for shape in ["fat_tree = { k = 22 }", "leaf_spine = { leaves = 100, spines = 40, hosts = 20 }"]
    {
        with(shape).expect(shape);
    }
    for shape in [
        "fat_tree = { k = 24 }",
        "fat_tree = { k = 0 }",
        "leaf_spine = { leaves = 100, spines = 90, hosts = 20 }",
        "leaf_spine = { leaves = 0, spines = 40, hosts = 20 }",
    ] {
        assert!(with(shape).expect_err(shape).contains("too small or too large"), "{shape}");
    }
}

#[test]
fn what_is_wrong_with_a_graph_is_told_in_one_line() {
    let graph = |rest: &str| format!("{TWO_IN}{rest}");
    let shape = |network: &str| {
        format!(
            "cc = \"bbr3\"\nflow = [{{ from = \"h0\", to = \"h1\" }}]\nnetwork = {{ {network} }}\n"
        )
    };
    let both = "core = { rate = \"1gbit\", buffer = \"9pkts\" }, edge = { rate = \"1gbit\", buffer = \"9pkts\" }";
    let flow = |fields: &str| graph(&format!("flow = [{{ {fields} }}]\n"));
    let nodes = |names: &str, links: &str| {
        format!(
            "cc = \"bbr3\"\nnode = [{names}]\nlink = [{links}]\nflow = [{{ from = \"a\", to = \"b\" }}]\n"
        )
    };
    let ab = "{ name = \"a\" }, { name = \"b\" }";
    let link = "{ from = \"a\", to = \"b\", rate = \"9mbit\", buffer = \"9pkts\" }";
    let rows = [
        (flow("from = \"a\", to = \"d\""), "x.toml:10: flow[0].to: no node is called 'd'"),
        (flow("from = \"a\""), "x.toml:10: flow[0].to: no such field, and there are nodes"),
        (flow("from = \"a\", to = \"a\""), "flow[0].to: a flow from a node to itself"),
        (flow("from = \"z*\", to = \"a\""), "flow[0].from: no node is like 'z*'"),
        (
            flow("from = \"*\", to = \"*\", pairs = \"in_order\""),
            "flow[0].to: a flow from a node to itself",
        ),
        (
            flow("from = \"a\", to = \"b\", pairs = \"permutation\""),
            "flow[0].pairs: from and to are not the same",
        ),
        (flow("route = \"a, m, a, c\""), "flow[0].route: passes 'a' twice"),
        (flow("route = \"a, c\""), "flow[0].route: there is no link from 'a' to 'c'"),
        (flow("route = \"a\""), "flow[0].route: one node is no route"),
        (flow("route = \"a, x\""), "flow[0].route: no node is called 'x'"),
        (flow("from = \"b\", route = \"a, m\""), "flow[0].from: the route has another end"),
        (
            flow("from = \"a\", to = \"c\", reroute = [{ at = \"1s\", route = \"b, m, c\" }]"),
            "reroute[0].route: not from 'a' to 'c'",
        ),
        (
            flow("from = \"a\", to = \"c\", direction = \"up\""),
            "flow[0].direction: nodes say the direction",
        ),
        (
            flow("from = \"a\", to = \"c\", access = { buffer = \"9pkts\" }"),
            "flow[0].access: neither rate nor delay",
        ),
        (
            graph("path = { rate = \"1mbit\", rtt = \"1ms\" }\n"),
            "x.toml:10: path: a path is one link, and there are nodes",
        ),
        (
            nodes(&format!("{ab}, {{ name = \"a\" }}"), link),
            "x.toml:2: node[2].name: 'a' is named twice",
        ),
        (nodes(&format!("{ab}, {{ name = \"c\" }}"), link), "x.toml:2: node[2]: 'c' has no link"),
        (nodes(ab, "").replace("link = []\n", ""), "x.toml:2: node: no link"),
        (
            nodes(ab, &link.replace("to = \"b\"", "to = \"c\"")),
            "x.toml:3: link[0].to: no node is called 'c'",
        ),
        (
            nodes(ab, &link.replace("to = \"b\"", "to = \"a\"")),
            "x.toml:3: link[0].to: a link from a node to itself",
        ),
        (
            nodes(ab, &link.replace("to = \"b\",", "")),
            "x.toml:3: link[0]: no to, and there are nodes",
        ),
        (nodes(ab, &format!("{link}, {link}")), "x.toml:3: link[1]: a second link from 'a' to 'b'"),
        (
            nodes(
                &format!("{ab}, {{ name = \"c\" }}, {{ name = \"d\" }}"),
                &format!("{}, {}", link.replace("\"b\"", "\"c\""), link.replace("\"a\"", "\"d\"")),
            ),
            "x.toml:4: flow[0]: there is no way from 'a' to 'b'",
        ),
        (
            nodes(ab, &link.replace("buffer", "fails = [{ at = \"2s\", until = \"1s\" }], buffer")),
            "link[0].fails[0]: each failure",
        ),
        (format!("cc = \"bbr3\"\nlink = [{link}]\n"), "x.toml:2: link[0]: there are no nodes"),
        (
            "cc = \"bbr3\"\npath = { rate = \"1mbit\", rtt = \"40ms\" }\nflow = [{ to = \"a\" }]\n"
                .to_owned(),
            "x.toml:3: flow[0].to: there are no nodes",
        ),
        (
            shape(&format!("fat_tree = {{ k = 3 }}, {both}")),
            "network.fat_tree.k: switches have an even number",
        ),
        (
            shape(&format!("fat_tree = {{ k = 100 }}, {both}")),
            "network.fat_tree: too small or too large",
        ),
        (
            shape(&format!("dumbbell = {{ pairs = 2 }}, incast = {{ senders = 2 }}, {both}")),
            "there is dumbbell too",
        ),
        (shape("parking_lot = { hops = 2 }"), "network.parking_lot: no core"),
        (shape(both), "network.core: there is no shape"),
    ];
    for (text, wanted) in rows {
        let error = plan(&text).map(|_| ()).expect_err(wanted);
        assert!(error.contains(wanted), "{error}, not {wanted}");
        assert!(error.starts_with("x.toml:") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_chain_has_routes_in_any_order_and_those_that_go_up() {
    let chain = "cc = \"cubic\"\nduration = \"2s\"
path = { rtt = \"30ms\", up = [{ bottleneck = { rate = \"10mbit\", buffer = \"60pkts\" } }] }
link = [
    { rate = \"10mbit\", delay = \"5ms\", buffer = \"60pkts\" },
    { rate = \"10mbit\", delay = \"5ms\", buffer = \"60pkts\" },
    { rate = \"10mbit\", delay = \"5ms\", buffer = \"60pkts\" },
]
";
    let flows = "flow = [{ route = \"0,2\" }, { route = \"2-0\" }, { direction = \"up\", route = \"1\" }]\n";
    let result = run(&format!("{chain}{flows}"));
    assert!((0..3).all(|i| goodput(&result, i) > 1.0), "{:?}", result.flows);
    let wrong = |route: &str| {
        let text = format!("{chain}flow = [{{ route = \"{route}\" }}]\n");
        plan(&text).map(|_| ()).expect_err("no route")
    };
    assert!(
        wrong("3").contains("x.toml:9: flow[0].route: '3' is no route: links count from 0 to 2")
    );
    assert!(wrong("0-2,1").contains("it passes link 1 twice"));
}

#[test]
fn backends_without_a_graph_say_so_with_the_line() {
    let flow = "flow = [{ from = \"a\", to = \"c\" }]\n";
    let chain = "cc = \"cubic\"\nlink = [{ rate = \"9mbit\", delay = \"5ms\" }, { rate = \"9mbit\", delay = \"5ms\" }]\n";
    for (text, line) in [
        (
            format!("{TWO_IN}{flow}"),
            "x.toml:3: network: a graph of links does not run over noq (real clock)",
        ),
        (
            format!("{chain}flow = [{{ route = \"1-0\" }}]\n"),
            "x.toml:3: flow[0].route: a graph of links does not run",
        ),
    ] {
        let plan = plan(&text).expect("a sound file");
        let error =
            BackendChoice::NOQ_REAL.check_plan(&plan, "x.toml").expect_err("refused").to_string();
        assert!(error.starts_with(line), "{error}");
        assert!(BackendChoice::SIM.check_plan(&plan, "x.toml").is_ok());
    }
}

/// Their queues may hold most of what is under way: the shared link is never full.
#[test]
fn what_waits_at_own_links_is_counted_as_memory() {
    let flows = "flow = [{ count = 100, access = { rate = \"50mbit\", delay = \"1ms\", buffer = \"2500pkts\" } }]\n";
    let path = "path = { rate = \"10gbit\", rtt = \"5ms\", buffer = \"100pkts\" }\n";
    let text = format!("cc = \"reno\"\nduration = \"1500ms\"\n{path}{flows}");
    let plan = plan(&text).expect("a sound file");
    // Each of 250,000 packets takes some 400 bytes.
    let error = plan.jobs_within(100_000_000, 1, None, "x.toml").expect_err("too much").to_string();
    assert!(error.contains("access") && error.lines().count() == 1, "{error}");
    let took = crate::hostile::peak_of(|| drop(run(&text)));
    assert!(plan.jobs_within(took, 1, None, "x.toml").is_err(), "{took} bytes are not enough");
}

/// Their own links let a hundred times more through than the shared one: their queues are empty.
#[test]
fn own_links_that_are_never_full_need_little_memory() {
    let flows = "flow = [{ count = 100, access = { rate = \"1gbit\", delay = \"1ms\", buffer = \"10000pkts\" } }]\n";
    let path = "path = { rate = \"1gbit\", rtt = \"5ms\", buffer = \"100pkts\" }\n";
    let text = format!("cc = \"reno\"\nduration = \"100ms\"\n{path}{flows}");
    plan(&text).expect("a sound file").jobs_within(50_000_000, 1, None, "x.toml").expect("room");
}

/// 301 nodes in a row, and 11 states of the links between them.
#[test]
fn routes_around_many_failures_are_found_in_little_memory() {
    let fails = |i: u32| match i {
        i if i % 30 == 7 => format!(", fails = [{{ at = \"{i}ms\", until = \"{}ms\" }}]", i + 10),
        _ => String::new(),
    };
    let nodes: Vec<String> = (0..=300).map(|i| format!("{{ name = \"n{i}\" }}")).collect();
    let link = |i: u32| {
        let (next, fails) = (i + 1, fails(i));
        format!(
            "{{ from = \"n{i}\", to = \"n{next}\", rate = \"100mbit\", delay = \"1ms\", buffer = \"100pkts\"{fails} }}"
        )
    };
    let links: Vec<String> = (0..300).map(link).collect();
    let text = format!(
        "cc = \"reno\"\nduration = \"1s\"\nnode = [{}]\nlink = [{}]\n\
         flow = [{{ from = \"n*\", to = \"n*\", pairs = \"permutation\" }}]\n",
        nodes.join(", "),
        links.join(", ")
    );
    let took = crate::hostile::peak_of(|| drop(plan(&text).expect("a sound file")));
    assert!(took < 40_000_000, "{took} bytes");
}

/// Of two routes with as many links one is longer in time; with this seed the flow's hash chooses
/// each of them for some flow, and `1bdp` is of the longest that is used.
#[test]
fn a_bdp_is_of_the_round_trip_over_the_routes_that_flows_take() {
    let queue_ms = |ecmp: bool| {
        let text = format!(
            "cc = \"cubic\"\nduration = \"2s\"\nnetwork = {{ ecmp = {ecmp} }}
node = [{{ name = \"a\" }}, {{ name = \"near\" }}, {{ name = \"far\" }}, {{ name = \"m\" }}, {{ name = \"b\" }}]
flow = [{{ from = \"a\", to = \"b\", count = 8 }}]
link = [
    {{ from = \"m\", to = \"b\", rate = \"20mbit\", delay = \"1ms\", buffer = \"1bdp\" }},
    {{ from = \"a\", to = \"near\", rate = \"1gbit\", delay = \"1ms\", buffer = \"1000pkts\" }},
    {{ from = \"near\", to = \"m\", rate = \"1gbit\", delay = \"1ms\", buffer = \"1000pkts\" }},
    {{ from = \"a\", to = \"far\", rate = \"1gbit\", delay = \"20ms\", buffer = \"1000pkts\" }},
    {{ from = \"far\", to = \"m\", rate = \"1gbit\", delay = \"20ms\", buffer = \"1000pkts\" }},
]
"
        );
        run(&text).links[0]["queue_ms.p95"].expect("a queue")
    };
    // The queue of 1 BDP is full at times: 6 ms by the near route alone, 44 or 82 ms otherwise.
    let (first, hashed) = (queue_ms(false), queue_ms(true));
    assert!(first < 7.0 && hashed > 20.0, "{first} and {hashed} ms");
}

#[test]
fn the_empty_round_trip_has_the_first_flows_own_link_in_it() {
    let empty = |access: &str| {
        let path = "path = { rate = \"12mbit\", rtt = \"20ms\", buffer = \"1bdp\" }";
        let flow = format!("flow = [{{ {access} }}]");
        run(&format!("cc = \"reno\"\nduration = \"200ms\"\n{path}\n{flow}\n")).empty_rtt_ms
    };
    // 1500 bytes take 1 ms at 12 Mbit/s and 2 ms at 6 Mbit/s.
    assert_eq!(empty(""), 21.0);
    assert_eq!(empty("access = { delay = \"5ms\" }"), 31.0);
    assert_eq!(empty("access = { rate = \"6mbit\", delay = \"5ms\" }"), 33.0);
}
