use super::*;
use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{ElementConfig, QueueConfig, QueueLimit, RateConfig};
use fullpipe_scenario::{Run, Scenario, Stack};
use fullpipe_sim::{ReceiveWindow, Route};
use fullpipe_traffic::Application;

fn plan(text: &str) -> Plan {
    Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(text: &str) -> String {
    let error = Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default())
        .expect_err("it is wrong");
    error.to_string()
}

fn setup(text: &str) -> Scenario {
    plan(text).grid.runs[0].scenario().clone()
}

fn values(run: &Run) -> Vec<&str> {
    run.at.iter().map(|(_, value)| value.as_str()).collect()
}

const PATH: &str = "path = { rate = \"10mbit\", rtt = \"40ms\" }\n";

#[test]
fn a_line_of_a_path_and_an_algorithm_are_a_scenario() {
    let p = plan(&format!("cc = \"bbr3\"\n{PATH}"));
    assert_eq!((p.name.as_str(), p.grid.runs.len(), p.grid.axes.len()), ("x", 1, 0));
    let s = p.grid.runs[0].scenario();
    assert_eq!((s.duration, s.seed, s.interval), (Some(Duration::from_secs(10)), 1, None));
    assert_eq!((s.flows.len(), s.flows[0].name.as_str()), (1, "bbr3"));
    let half = ElementConfig::Delay(Duration::from_millis(20));
    let rate = Rate::from_bits_per_sec(10_000_000).into();
    let queue = QueueLimit::Bytes(50_000).into();
    assert_eq!(s.config.links[0].row, [ElementConfig::Bottleneck { rate, queue }, half.clone()]);
    assert_eq!(s.config.uplink.row, [half]);
}

#[test]
fn lists_make_a_grid_whose_first_list_changes_slowest() {
    let p = plan(&format!("seed = [7, 8]\ncc = [\"bbr3\", \"cubic\", \"reno\"]\n{PATH}"));
    assert_eq!(p.grid.axes, ["seed", "cc"]);
    let all: Vec<_> = p.grid.runs.iter().map(values).collect();
    assert_eq!(all.len(), 6);
    assert_eq!(all[..4], [["7", "bbr3"], ["7", "cubic"], ["7", "reno"], ["8", "bbr3"]]);
    let s = p.grid.runs[5].scenario();
    assert_eq!((s.seed, s.flows[0].cc.to_string().as_str()), (8, "reno"));
}

#[test]
fn lists_may_stand_anywhere_and_are_called_by_their_last_word_where_that_is_clear() {
    let p = plan(
        "[path]\nrtt = \"1ms\"\nrate = [\"1mbit\", \"2mbit\"]\nbuffer = \"9kB\"\n\
         up = [{ delay = [\"1ms\", \"2ms\"] }]\n\
         [[flow]]\ncc = [\"bbr3\", \"cubic\"]\n[[flow]]\ncc = [\"bbr1\", \"reno\"]\n",
    );
    assert_eq!(p.grid.axes, ["rate", "delay", "flow[0].cc", "flow[1].cc"]);
    assert_eq!(values(&p.grid.runs[1]), ["1mbit", "1ms", "bbr3", "reno"]);
    let s = p.grid.runs[15].scenario();
    assert_eq!(
        (s.flows[0].cc.to_string().as_str(), s.flows[1].cc.to_string().as_str()),
        ("cubic", "reno")
    );
    assert_eq!(s.config.uplink.row[0], ElementConfig::Delay(Duration::from_millis(2)));
}

#[test]
fn a_grid_beyond_any_patience_is_refused() {
    let seeds: Vec<String> = (0..500).map(|i| i.to_string()).collect();
    let seeds = seeds.join(", ");
    let mss: Vec<String> = (500..701).map(|i| i.to_string()).collect();
    let mss = mss.join(", ");
    let said = wrong(&format!("cc = \"bbr3\"\nseed = [{seeds}]\n{PATH}[[flow]]\nmss = [{mss}]\n"));
    assert!(said.starts_with("x.toml:2: seed: the lists make 500 x 201 = 100500 runs"), "{said}");
}

#[test]
fn a_variant_is_the_file_with_other_fields() {
    let p = plan(
        "cc = [\"bbr3\", \"cubic\"]\n[path]\nrate = \"10mbit\"\nrtt = \"40ms\"\n\
         [[variant]]\nname = \"as it is\"\n\
         [[variant]]\nname = \"fast\"\npath.rate = [\"20mbit\", \"40mbit\"]\npath.buffer = \"9kB\"\n\
         [[variant]]\nname = \"alone\"\ncc = \"reno\"\n",
    );
    assert_eq!(p.grid.axes, ["variant", "cc", "rate"]);
    let all: Vec<_> = p.grid.runs.iter().map(values).collect();
    assert_eq!(all.len(), 2 + 4 + 1);
    assert_eq!(all[1], ["as it is", "cubic"]);
    assert_eq!(all[3], ["fast", "bbr3", "40mbit"]);
    assert_eq!(all[6], ["alone"]);
    let s = p.grid.runs[3].scenario();
    let rate = Rate::from_bits_per_sec(40_000_000).into();
    let queue = QueueLimit::Bytes(9_000).into();
    assert_eq!(s.config.links[0].row[0], ElementConfig::Bottleneck { rate, queue });
    let said = wrong(&format!("cc = \"bbr3\"\n{PATH}[[variant]]\ncc = \"reno\"\n"));
    assert!(said.starts_with("x.toml:3: variant[0]: no name"), "{said}");
    let twice = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"a\"\n";
    let said = wrong(&format!("cc = \"bbr3\"\n{PATH}{twice}"));
    assert!(said.starts_with("x.toml:6: variant[1].name: 'a' is named twice"), "{said}");
}

#[test]
fn every_element_can_be_said() {
    let s = setup(
        "cc = \"bbr3\"\n[path]\nrtt = \"40ms\"\nrate = \"10mbit\"\nloss = \"1%\"\n\
         buffer = \"2bdp\"\nqueue = { codel = { target = \"1ms\", ecn = false } }\n\
         steps = [{ at = \"20s\", rate = \"20mbit\" }, { at = \"40s\", rate = \"10mbit\" }]\n\
         down = [\n\
         { gilbert_elliott = { to_bad = \"1%\", to_good = \"10%\" } },\n\
         { loss_list = { listed = [3, 5] } },\n\
         { loss_bursts = { every = 100, length = 5 } },\n\
         { blackhole = [{ from = \"1s\", to = \"2s\" }] },\n\
         { corruption = \"1%\" },\n\
         { duplication = 0.01 },\n\
         { policer = { rate = \"25mbit\", bucket = \"100kB\" } },\n\
         { shaper = { rate = \"25mbit\", bucket = \"100kB\", buffer = \"1bdp\" } },\n\
         { bottleneck = { rate = \"50mbit\", buffer = \"100pkts\", queue = \"fq_codel\" } },\n\
         { delay = \"1ms\" },\n\
         { delay_steps = [{ at = \"0s\", delay = \"1ms\" }, { at = \"5s\", delay = \"2ms\" }] },\n\
         { jitter = \"3ms\" },\n\
         { reordering = { every = 50, delay = \"5ms\" } },\n\
         { aggregation = { interval = \"4ms\", burst = \"64kB\", keep_one_in = 2 } },\n\
         ]\n\
         up = [{ aggregation = { interval = \"10ms\" } }]\n",
    );
    let row = &s.config.links[0].row;
    assert_eq!(row.len(), 14 + 3);
    assert_eq!(s.config.uplink.row.len(), 2);
    let ElementConfig::Bottleneck { rate: RateConfig::Steps(steps), queue } = &row[15] else {
        panic!("{row:?}")
    };
    assert_eq!(
        steps.iter().map(|s| s.0.as_nanos() / 1_000_000_000).collect::<Vec<_>>(),
        [0, 20, 40]
    );
    let QueueConfig::CoDel(codel) = queue else { panic!("{queue:?}") };
    assert_eq!((codel.target, codel.ecn), (Duration::from_millis(1), false));
    assert_eq!(
        (codel.interval, codel.limit),
        (Duration::from_millis(100), QueueLimit::Bytes(100_000))
    );
    for queue in ["tail_drop", "codel", "fq_codel", "pie", "dualpi2"] {
        setup(&format!(
            "cc = \"bbr3\"\n[path]\nrate = \"9mbit\"\nrtt = \"9ms\"\nqueue = {queue:?}\n"
        ));
    }
    for queue in ["step = { mark_above = \"20pkts\" }", "red = { min = \"20kB\", max = \"60kB\" }"]
    {
        let path =
            format!("path = {{ rate = \"99mbit\", rtt = \"9ms\", queue = {{ {queue} }} }}\n");
        setup(&format!("cc = \"bbr3\"\n{path}"));
    }
}

#[test]
fn a_buffer_in_time_follows_steps_and_no_other_does() {
    let queue = |buffer: &str, steps: &str| {
        let path = format!("rate = \"10mbit\"\nrtt = \"40ms\"\nbuffer = \"{buffer}\"\n{steps}");
        let s = setup(&format!("cc = \"bbr3\"\n[path]\n{path}\n"));
        let ElementConfig::Bottleneck { queue, .. } = &s.config.links[0].row[0] else { panic!() };
        queue.limit()
    };
    let steps = "steps = [{ at = \"1s\", rate = \"0mbit\" }, { at = \"2s\", rate = \"1mbit\" }]";
    assert_eq!(queue("30ms", steps), QueueLimit::Time(Duration::from_millis(30)));
    assert_eq!(queue("30ms", ""), QueueLimit::Bytes(37_500));
    assert_eq!(queue("1bdp", steps), QueueLimit::Bytes(50_000));
    let short = "cc = \"bbr3\"\npath = { rate = \"10mbit\", rtt = \"40ms\", buffer = \"5ms\", steps = [{ at = \"1s\", rate = \"1mbit\" }] }\n";
    let error = Plan::parse(short, "x.toml", "x", Path::new(""), Edition::default());
    let error = error.expect_err("625 bytes").to_string();
    assert!(error.contains("path.buffer: '5ms' is 625 bytes here (of 1mbit)"), "{error}");
    let [full, empty] = ["", ", tokens = \"0B\""].map(|tokens| {
        let policer = format!("policer = {{ rate = \"9mbit\", bucket = \"90kB\"{tokens} }}");
        let path = format!("path = {{ rtt = \"9ms\", down = [{{ {policer} }}] }}");
        let s = setup(&format!("cc = \"bbr3\"\n{path}\n"));
        let ElementConfig::Policer { initial_bytes, .. } = s.config.links[0].row[0] else {
            panic!()
        };
        initial_bytes
    });
    assert_eq!((full, empty), (90_000, 0));
}

#[test]
fn every_flow_can_be_said() {
    let s = setup(
        "cc = \"bbr3\"\nduration = \"1min\"\nlink = [\n\
         { rate = \"10mbit\", delay = \"10ms\" }, { rate = \"20mbit\", delay = \"5ms\" } ]\n\
         [[flow]]\ncount = 3\nstart = \"1s\"\nevery = \"2s\"\nstop = \"50s\"\nroute = \"1\"\n\
         [[flow]]\ncc = \"fixed:100mbit\"\nreceive_window = \"0.5bdp\"\n\
         [[flow]]\ntransport = \"tcp\"\nreceive_window = \"1MB\"\nreceive_window_initial = \"64kB\"\n\
         mss = 1400\nack_every = 1\nack_delay = \"5ms\"\nextra_rtt = \"9ms\"\nsend_buffer = \"6MiB\"\n\
         [[flow]]\napp = { bytes = \"8MB\" }\n\
         [[flow]]\napp = { rate_limited = { rate = \"1mbit\" } }\n\
         [[flow]]\napp = { on_off = { on = \"1s\", off = \"2s\" } }\n\
         [[flow]]\napp = { request_response = { response = \"8MB\", think = \"1min\" } }\n\
         [[flow]]\napp = { short_flows = { bytes = \"50kB\", every = \"100ms\" } }\n\
         [[flow]]\napp = \"bulk\"\necn = \"l4s\"\n\
         [[cross]]\nrate = \"1mbit\"\narrivals = \"poisson\"\nroute = \"0\"\nstop = \"9s\"\n",
    );
    let flows = &s.config.flows;
    assert_eq!(flows.len(), 11);
    assert_eq!(flows[2].start, Duration::from_secs(5));
    let route = |there, back| Route { there, back };
    assert_eq!(*s.config.route(&flows[2]), route(vec![1], vec![2]));
    assert_eq!(*s.config.route(&flows[3]), route(vec![0, 1], vec![2]));
    let seed = |flow| fullpipe_traffic::stream_seed(1, fullpipe_traffic::Stream::Controller, flow);
    assert_eq!((flows[0].cc.seed, flows[2].cc.seed), (seed(0), seed(2)));
    // Half of 10 Mbit/s in twice 15 ms.
    assert_eq!(flows[3].receive_window, ReceiveWindow::Fixed(18_750));
    assert_eq!(flows[4].receive_window, ReceiveWindow::Auto { initial: 64_000, max: 1_000_000 });
    assert_eq!((flows[4].cc.smss, flows[4].acks.every), (1400, 1));
    assert_eq!(flows[4].send_buffer, Some(6 << 20));
    assert_eq!(flows[5].application, Application::Bytes(8_000_000));
    assert_eq!((flows[10].ecn, flows[10].cc.ecn), (fullpipe_path::Ecn::Ect1, true));
    assert_eq!(s.flows[3].name, "fixed:100mbit");
    assert_eq!(*s.config.cross_route(&s.config.cross[0]), route(vec![0], vec![2]));
    let delays: u64 = s.config.uplink.least_delay().as_nanos();
    assert_eq!(delays, 15_000_000);
}

#[test]
fn a_quic_flow_may_have_the_pacer_of_noq() {
    let paced_by =
        |flow: &str| setup(&format!("cc = \"bbr3\"\n{PATH}[[flow]]\n{flow}")).config.flows[0].pacer;
    assert_eq!(paced_by(""), fullpipe_sim::PacedBy::Core);
    assert_eq!(paced_by("pacer = \"core\""), fullpipe_sim::PacedBy::Core);
    assert_eq!(paced_by("pacer = \"noq\""), fullpipe_sim::PacedBy::Noq);
    let on_tcp =
        "cc = \"bbr3\"\n".to_owned() + PATH + "[[flow]]\ntransport = \"tcp\"\npacer = \"noq\"\n";
    let refusal = wrong(&on_tcp);
    assert!(refusal.contains("flow[0].pacer: \"noq\" is a QUIC stack's"), "{refusal}");
}

#[test]
fn a_flow_says_how_its_host_and_its_tcp_behave() {
    let text = format!(
        "cc = \"cubic\"\n{PATH}[[flow]]\ntransport = \"tcp\"\njitter = \"1ms\"\nhandshake = false\n\
         quick_acks = 0\nreordering = \"threshold\"\nrto_min = \"1s\"\nidle_restart = false\nprr = false\n\
         cubic = \"rfc9438\"\n"
    );
    let flow = setup(&text).config.flows[0];
    assert_eq!(
        (flow.jitter, flow.handshake, flow.acks.quick),
        (Duration::from_millis(1), false, 0)
    );
    let tcp = fullpipe_sim::TcpConfig {
        reordering: fullpipe_sim::Reordering::Threshold,
        rto_min: Duration::from_secs(1),
        idle_restart: false,
        prr: false,
    };
    assert_eq!(flow.tcp, tcp);
    let rules_of = |flow: fullpipe_sim::FlowConfig| match flow.algorithm {
        fullpipe_cc::Algorithm::Cubic(options) => options.rules(flow.cc.transport),
        other => panic!("{other}"),
    };
    let rules = |flow: &str| {
        rules_of(setup(&format!("cc = \"cubic\"\n{PATH}[[flow]]\n{flow}")).config.flows[0])
    };
    assert_eq!(rules_of(flow), fullpipe_cc::CubicRules::Rfc9438);
    assert_eq!(rules("transport = \"tcp\"\n"), fullpipe_cc::CubicRules::Linux);
    assert_eq!(rules(""), fullpipe_cc::CubicRules::Rfc9438);
    assert_eq!(rules("cubic = \"linux\"\n"), fullpipe_cc::CubicRules::Linux);
    let said = wrong(&format!("cc = \"cubic\"\n{PATH}[[flow]]\nprr = true\n"));
    assert!(said.contains("flow[0].prr: only tcp has it"), "{said}");
}

/// Links, way back and controllers of 20 seeds draw 100 different sequences: no seed's link draws
/// what another seed's other link does.
#[test]
fn runs_of_two_seeds_have_no_random_sequence_in_common() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..20 {
        let link = "[[link]]\nrate = \"10mbit\"\ndelay = \"5ms\"\n";
        let flow = "[[flow]]\ncount = 2\n";
        let config = setup(&format!("cc = \"bbr3\"\nseed = {seed}\n{link}{link}{flow}")).config;
        let links = config.links.iter().chain([&config.uplink]).map(|link| link.seed);
        seen.extend(links.chain(config.flows.iter().map(|flow| flow.cc.seed)));
    }
    assert_eq!(seen.len(), 100);
}

#[test]
fn one_link_is_the_one_that_compare_makes() {
    let text = "cc = \"bbr3\"\nseed = 5\n\
                path = { rate = \"100mbit\", rtt = \"41ms\", buffer = \"2bdp\", loss = \"1%\" }\n";
    let ours = setup(text).config;
    let options = Options {
        cc: vec!["bbr3".parse().expect("a name")],
        rtt: Some("41ms".to_owned()),
        buffer: "2bdp".to_owned(),
        loss: "1%".to_owned(),
        seed: 5,
        ..Options::default()
    };
    let theirs = options.plan().expect("sound").grid.runs[0].scenario().config.clone();
    assert_eq!((&ours.links, &ours.uplink), (&theirs.links, &theirs.uplink));
    let link = fullpipe_path::Link {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: Duration::from_micros(20_500),
        queue: QueueLimit::Bytes(1_025_000),
        loss: fullpipe_path::Probability::new(0.01).expect("one"),
        seed: fullpipe_traffic::stream_seed(5, fullpipe_traffic::Stream::Link, 0),
    };
    assert_eq!(ours.links, [fullpipe_path::PathConfig::from(link)]);
}

#[test]
fn what_is_wrong_with_an_option_names_it_on_one_line() {
    let says = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        options.plan().expect_err("it is wrong")
    };
    for (said, wanted) in [
        (says(|o| o.cc.clear()), "--cc: "),
        (says(|o| o.cc.push(o.cc[0])), "--cc: 'bbr3' is named twice"),
        (says(|o| o.rate = Some("0".to_owned())), "--rate: '0' carries nothing"),
        (says(|o| o.buffer = "1499B".to_owned()), "--buffer: "),
        (
            says(|o| o.buffer = "0.002bdp".to_owned()),
            "--buffer: '0.002bdp' is 1000 bytes here (100mbit x 40ms)",
        ),
        (says(|o| o.rtt = Some("0s".to_owned())), "is 0 bytes here (100mbit x 0ns)"),
        (says(|o| o.buffer = "0pkts".to_owned()), "--buffer: "),
        (says(|o| o.flows = 0), "--flows: 0 flows are none"),
        (
            says(|o| o.flows = 10_001),
            "--flows: 10001 flows are more than a run can have; write 10000 or fewer",
        ),
        (says(|o| o.duration = "0s".to_owned()), "--duration: must be greater than 0"),
        (says(|o| o.bytes = Some("0".to_owned())), "--bytes: bytes must be greater than 0"),
        (says(|o| (o.flows, o.stagger) = (11, "1s".to_owned())), "--stagger: a flow starts at 10s"),
    ] {
        assert!(said.starts_with("--") && said.contains(wanted) && !said.contains('\n'), "{said}");
    }
}

#[test]
fn a_run_by_volume_has_no_duration_and_every_flow_has_an_end() {
    let s = setup(&format!(
        "cc = \"bbr3\"\nduration = \"until_done\"\n{PATH}flow = [{{ app = {{ bytes = \"1MB\" }} }}]\n"
    ));
    assert_eq!(s.duration, None);
    let said = wrong(&format!("cc = \"bbr3\"\nduration = \"until_done\"\n{PATH}"));
    assert!(said.contains("x.toml:2: duration: flow 0 has no end"), "{said}");
}

#[test]
fn a_buffer_that_holds_nothing_says_what_it_was_computed_from() {
    let path = |path: &str| wrong(&format!("cc = \"bbr3\"\npath = {{ {path} }}\n"));
    let said = path("rate = \"9mbit\"");
    assert!(said.starts_with("x.toml:2: path: no rtt; write rtt = "), "{said}");
    let said = path("rate = 100, rtt = \"40ms\"");
    assert!(said.starts_with("x.toml:2: path.rate: '100' has no unit"), "{said}");
    let said = path("rate = \"9mbit\", rtt = \"0ms\"");
    let computed = "x.toml:2: path.buffer: '1bdp' is 0 bytes here (9mbit x 0ns), below one packet";
    assert!(said.starts_with(computed), "{said}");
    let shaper = "shaper = { rate = \"9mbit\", bucket = \"9kB\", buffer = \"0.01bdp\" }";
    let said = path(&format!("rtt = \"9ms\", down = [{{ {shaper} }}]"));
    assert!(said.contains("'0.01bdp' is 101 bytes here (9mbit x 9ms)"), "{said}");
}

#[test]
fn an_outage_ends_and_a_table_of_the_top_stands_there() {
    let path = |rest: &str| {
        wrong(&format!("cc = \"bbr3\"\n[path]\nrate = \"9mbit\"\nrtt = \"9ms\"\n{rest}\n"))
    };
    let said = path("steps = [{ at = \"1s\", rate = \"0mbit\" }]");
    assert!(said.contains("path.steps: the last step is a rate of 0"), "{said}");
    let said = path("queue = { red = { min = \"9kB\", max = \"5kB\" } }");
    assert!(said.ends_with("path.queue: red: give a max above min"), "{said}");
    let said = path("[nonsense]");
    for field in ["`variant`", "`full`", "`over_noq`", "`over_linux`"] {
        assert!(said.contains(field), "{field}: {said}");
    }
    let said = path("[[variant]]\nname = \"a\"\nfull.seed = 3");
    assert!(said.contains("full: not inside another table"), "{said}");
}

#[test]
fn a_field_in_a_variant_has_the_line_where_it_stands() {
    let said = wrong(&format!(
        "cc = \"bbr3\"\n{PATH}\n[[variant]]\nname = \"bad\"\npath.loss = \"200%\"\n"
    ));
    assert!(said.starts_with("x.toml:6: path.loss: '200%' loses everything"), "{said}");
}

#[test]
fn a_file_has_one_stack_for_all_of_its_runs() {
    for (table, field) in [
        ("[[variant]]\nname = \"a\"\nstack = [\"sim\", \"noq\"]\n", "variant[0].stack"),
        ("[full]\nclock = \"real\"\n", "full.clock"),
        ("[over_noq]\nreal_link = \"tun\"\n", "over_noq.real_link"),
    ] {
        let said = wrong(&format!("cc = \"bbr3\"\n{PATH}{table}"));
        assert!(said.contains(field) && said.contains("write it above the first line"), "{said}");
    }
    let file = plan(&format!("cc = \"bbr3\"\nstack = \"noq\"\nclock = \"real\"\n{PATH}"));
    assert_eq!(file.over, Over::in_real_time(Stack::Noq));
}

#[test]
fn a_table_of_an_edition_replaces_fields_only_in_that_edition() {
    let text = format!(
        "cc = \"bbr3\"\nduration = \"20s\"\nexpect = [\"jain == 1\"]\n{PATH}[full]\nduration = \"60s\"\n\
         path.buffer = [\"1bdp\", \"2bdp\"]\n[over_noq]\nduration = \"5s\"\nexpect = []\n"
    );
    let read = |full, is_noq: bool| {
        let noq = Over::in_real_time(Stack::Noq);
        let over = if is_noq { noq } else { Over::default() };
        let edition = Edition { full, over };
        let p = Plan::parse(&text, "x.toml", "x", Path::new(""), edition).expect("a plan");
        let secs = p.grid.runs[0].scenario().duration.expect("one").as_nanos() / 1_000_000_000;
        (secs, p.grid.runs.len(), p.expectations.len(), p.shortened)
    };
    let shorter = |secs: u64| Some(format!("duration {secs}s of 60s, buffer none of 2 values"));
    assert_eq!(read(false, false), (20, 1, 1, shorter(20)));
    assert_eq!(read(true, false), (60, 2, 1, None));
    assert_eq!(read(false, true), (5, 1, 0, shorter(5)));
    let said = wrong(&format!("cc = \"bbr3\"\n{PATH}full = \"60s\"\n"));
    assert!(
        said.starts_with("x.toml: full: no table") || said.contains("full: no table"),
        "{said}"
    );
}

#[test]
fn more_than_a_run_could_get_through_is_refused() {
    for (tables, says) in [
        (
            "[[flow]]\ncc = \"bbr3\"\napp = { short_flows = { bytes = \"1B\", every = \"1ns\" } }\n",
            "flow[0].app: makes some 2000000000 connections, the most is 1000000",
        ),
        (
            "cc = \"bbr3\"\n[[cross]]\nrate = \"1tbit\"\npacket = \"1B\"\n",
            "cross[0].rate: makes 125000000000 packets a second, the most is 10000000",
        ),
        (
            "[[flow]]\ncc = \"bbr3\"\ninitial_cwnd = \"0B\"\n",
            "flow[0].initial_cwnd: must be greater than 0",
        ),
    ] {
        let said = wrong(&format!("duration = \"2s\"\n{PATH}{tables}"));
        assert!(said.contains(says), "{said}");
    }
}

/// RED's average sinks by packet times while nothing waits: also where a trace says how fast the
/// link is.
#[test]
fn red_on_a_trace_takes_the_packet_time_of_its_mean_rate() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("link.trace"), "0\n10\n30\n60\n").expect("a file");
    let text = "cc = \"bbr3\"\n[path]\nrtt = \"40ms\"\nbuffer = \"100kB\"\ntrace = \"link.trace\"\n\
                queue = { red = { min = \"20kB\", max = \"60kB\" } }\n";
    let plan = Plan::parse(text, "x.toml", "x", dir.path(), Edition::default()).expect("a plan");
    let setup = plan.grid.runs[0].scenario().clone();
    let ElementConfig::Bottleneck { queue: QueueConfig::Red(red), .. } =
        &setup.config.links[0].row[0]
    else {
        panic!("RED")
    };
    assert_eq!(red.packet_time, Duration::from_millis(15), "60 ms for four packets");
}

#[test]
fn a_bdp_of_a_trace_is_that_of_its_mean_rate() {
    let dir = tempfile::tempdir().expect("a directory");
    // Two packets in 4 ms are 6 Mbit/s, and 40 ms of that are 30 kB.
    std::fs::write(dir.path().join("t"), "1\n4\n").expect("a file");
    let text = "cc = \"bbr3\"\npath = { trace = \"t\", rtt = \"40ms\", buffer = \"2bdp\" }\n";
    let plan = Plan::parse(text, "x.toml", "x", dir.path(), Edition::default()).expect("a plan");
    let row = &plan.grid.runs[0].scenario().config.links[0].row;
    let is_60_kb = |element: &fullpipe_path::ElementConfig| {
        format!("{element:?}").contains("TailDrop(Bytes(60000))")
    };
    assert!(row.iter().any(is_60_kb), "{row:?}");
}

#[test]
fn what_only_few_flows_have_is_refused_of_many() {
    let text = |more: &str, rest: &str| {
        format!("cc = \"cubic\"\n{more}\n{PATH}[[flow]]\nname = \"a\"\ncount = 70\n{rest}")
    };
    for (text, says) in [
        (
            text("expect = [\"flow[a].rtt_ms.p50 <= 50\"]", "[[flow]]\n"),
            "expect[0]: rtt_ms.p50 of one flow is known in runs of at most 64 flows, and here are 71",
        ),
        (
            text("", "[[flow]]\nbackground = true\n"),
            "flow[1].background: a run with flows in the background has at most 64",
        ),
        (
            format!("cc = \"cubic\"\n{PATH}[[flow]]\nbackground = true\n"),
            "flow[0].background: every flow is in the background",
        ),
    ] {
        let error = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
        let error = error.expect_err(&text).to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

/// A field of the path beside its links would be in no run.
#[test]
fn a_field_that_nothing_takes_is_refused_with_its_line() {
    let links = "[[link]]\nrate = \"10mbit\"\ndelay = \"20ms\"\n";
    for (field, value) in [
        ("rate", "\"9mbit\""),
        ("steps", "[{ at = \"1s\", rate = \"5mbit\" }]"),
        ("trace", "\"lte\""),
        ("buffer", "\"8pkts\""),
        ("queue", "\"codel\""),
        ("loss", "\"5%\""),
        ("down", "[{ jitter = \"1ms\" }]"),
    ] {
        let said = wrong(&format!("cc = \"cubic\"\n[path]\n{field} = {value}\n{links}"));
        let place = format!("x.toml:3: path.{field}: describes a link");
        assert!(said.contains(&place) && !said.contains('\n'), "{said}");
    }
    let said = wrong(
        "cc = \"cubic\"\n[path]\ntrace = \"lte\"\nrtt = \"40ms\"\nbuffer = \"64kB\"\n\
         steps = [{ at = \"1s\", rate = \"5mbit\" }]\n",
    );
    assert!(said.contains("x.toml:6: path.steps: they change a rate"), "{said}");
}

/// Packets that wait in a receiver's host for 100 s are a gigabyte at 10 Gbit/s.
#[test]
fn packets_in_a_receivers_host_are_counted_as_memory() {
    for cc in ["fixed:10gbit", "bbr3", "bbr-swift"] {
        let within = |delay: &str| {
            let p = plan(&format!(
                "path = {{ rate = \"10gbit\", rtt = \"1ms\" }}\nduration = \"8s\"\n\
                 flow = [{{ cc = \"{cc}\", receiver_delay = \"{delay}\" }}]\n"
            ));
            p.jobs_within(100_000_000, 1, None, "x.toml")
        };
        assert_eq!(within("1ms"), Ok(1), "{cc}");
        let error = within("100s").expect_err(cc).to_string();
        assert!(error.starts_with("x.toml:3: flow[0].receiver_delay: some "), "{error}");
        assert!(error.contains("--max-memory") && error.lines().count() == 1, "{error}");
    }
}
