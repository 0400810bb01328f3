//! A backend refuses what it does not have before anything runs.

use std::path::Path;

use fullpipe_lab::BackendChoice;
use fullpipe_lab::run::{RunOptions, check_machine};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;
#[cfg(target_os = "linux")]
use fullpipe_scenario::{Over, Stack};

#[test]
fn a_stack_refuses_what_it_does_not_have() {
    for (backend, flow, says) in [
        (
            BackendChoice::QUINN_REAL,
            "cc = \"noq:cubic\"",
            "noq:cubic does not run over quinn (real clock); write --stack noq",
        ),
        (
            BackendChoice::NOQ_REAL,
            "cc = \"quinn:bbr\"",
            "quinn:bbr does not run over noq (real clock); write --stack quinn",
        ),
        (
            BackendChoice::QUINN_REAL,
            "cc = \"s2n:bbr\"",
            "s2n:bbr does not run over quinn (real clock); write --stack s2n",
        ),
        (
            BackendChoice::S2N,
            "cc = \"quinn:bbr\"",
            "quinn:bbr does not run over s2n (real clock); write --stack quinn",
        ),
    ] {
        let text = format!("path = {{ rate = \"10mbit\", rtt = \"40ms\" }}\n[[flow]]\n{flow}\n");
        let plan = Plan::parse(&text, "x.toml", "x", "".as_ref(), Edition::default());
        let refusal = backend.check_plan(&plan.expect("sound"), "x.toml").expect_err(says);
        assert!(refusal.to_string().contains(says), "{refusal}");
    }
}

/// Their sockets write what the stacks say, which is ECT(0).
#[test]
fn ecn_is_that_of_backends_that_see_each_packet() {
    for backend in [BackendChoice::NOQ_REAL, BackendChoice::QUINN_REAL, BackendChoice::S2N] {
        for ecn in ["classic", "l4s"] {
            let text = format!(
                "path = {{ rate = \"10mbit\", rtt = \"40ms\" }}\n[[flow]]\ncc = \"prague\"\necn = \"{ecn}\"\n"
            );
            let plan = Plan::parse(&text, "x.toml", "x", "".as_ref(), Edition::default());
            let refusal = backend.check_plan(&plan.expect("sound"), "x.toml").expect_err(ecn);
            let (refusal, says) = (
                refusal.to_string(),
                format!(
                    "x.toml:4: flow[0].ecn: ecn does not run over {backend}; write --stack sim or \
                     --stack noq or --stack quinn or --stack tcp"
                ),
            );
            let has_all = refusal.starts_with(&says) && refusal.contains("--stack quinn");
            assert!(has_all && !refusal.contains('\n'), "{refusal}");
        }
    }
}

/// Packets that are marked to no effect are the simulator's alone.
#[test]
fn marks_are_ignored_where_the_packets_can_be_marked_all_the_same() {
    let plan = |flow: &str| {
        let text = format!("path = {{ rate = \"10mbit\", rtt = \"40ms\" }}\n[[flow]]\n{flow}\n");
        Plan::parse(&text, "x.toml", "x", "".as_ref(), Edition::default()).expect("sound")
    };
    let ignored = plan("cc = \"cubic\"\necn = \"ignored\"");
    for backend in [BackendChoice::NOQ, BackendChoice::TCP] {
        let refusal = backend.check_plan(&ignored, "x.toml").expect_err("not there").to_string();
        let says = format!(
            "x.toml:4: flow[0].ecn: ecn = \"ignored\" does not run over {backend}; write --stack sim"
        );
        assert_eq!(refusal, says);
    }
    for (cc, ecn, runs) in [
        ("bbr1", "classic", false),
        ("bbr3-linux", "classic", false),
        ("bbr3-linux", "l4s", true),
        ("cubic", "classic", true),
        ("bbr1", "off", true),
    ] {
        let plan = plan(&format!("cc = \"{cc}\"\necn = \"{ecn}\""));
        let over = |backend| check_machine(&plan, &RunOptions { backend, ..RunOptions::default() });
        over(BackendChoice::SIM).expect(cc);
        over(BackendChoice::NOQ).expect(cc);
        let tcp = over(BackendChoice::TCP).map_err(|error| error.to_string());
        let refused = format!(
            "{cc} answers no such marks, and tcp then sends no packets that can be marked; write --stack \
             sim, or leave ecn out"
        );
        assert_eq!(tcp, if runs { Ok(()) } else { Err(refused) }, "{cc} {ecn}");
    }
}

/// The core would cut a longer one at 4.29 s.
#[test]
fn a_target_of_bbr_swift_is_at_most_four_seconds() {
    for field in ["swift_target", "swift_range", "swift_endpoint"] {
        let parse = |time: &str| {
            let text = format!(
                "path = {{ rate = \"10mbit\", rtt = \"1s\" }}\n[[flow]]\ncc = \"bbr-swift\"\n\
                 {field} = \"{time}\"\n"
            );
            Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default())
        };
        assert!(parse("4s").is_ok());
        let says = format!("x.toml:4: flow[0].{field}: above 4s, which is the longest target");
        let error = parse("5s").expect_err(&says).to_string();
        assert!(error.starts_with(&says) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn a_handshake_is_not_asked_to_wait_for_a_flow_of_half_a_minute() {
    let path = "path = { rate = \"9mbit\", rtt = \"1s\" }\n";
    let chain = |second: &str| {
        format!(
            "link = [{{ rate = \"9mbit\", delay = \"1s\" }}, {{ rate = \"9mbit\", delay = \"{second}\" }}]\n"
        )
    };
    let nodes = |second: &str| {
        format!(
            "node = [{{ name = \"a\" }}, {{ name = \"b\" }}, {{ name = \"c\" }}]\n\
             network.rtt = \"1s\"\nlink = [{{ from = \"a\", to = \"b\", rate = \"9mbit\", delay = \"1s\" }}, \
             {{ from = \"a\", to = \"c\", rate = \"9mbit\", delay = \"{second}\" }}, \
             {{ from = \"c\", to = \"b\", rate = \"9mbit\" }}]\n"
        )
    };
    let refused = |text: &str, field: &str| {
        let text = format!("cc = \"bbr3\"\n{text}");
        let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
        let plan = plan.unwrap_or_else(|e| panic!("{e}"));
        BackendChoice::SIM.check_plan(&plan, "x.toml").expect("the simulator waits");
        for backend in [BackendChoice::NOQ, BackendChoice::TCP] {
            let error = backend.check_plan(&plan, "x.toml").expect_err("too long").to_string();
            let says = format!(
                "{field}: a round trip above 25s does not run over {backend}; write --stack sim"
            );
            assert!(error.ends_with(&says) && error.starts_with("x.toml:"), "{error}: {field}");
        }
    };
    let flow = |fields: &str| format!("[[flow]]\n{fields}\n");
    refused(&format!("{path}{}", flow("extra_rtt = \"25s\"")), "flow[0].extra_rtt");
    refused("path = { rate = \"9mbit\", rtt = \"26s\" }\n", "path.rtt");
    refused(
        "path = { rate = \"9mbit\", rtt = \"1s\", down = [{ delay = \"26s\" }] }\n",
        "path.rtt",
    );
    refused(&chain("13s"), "link[0].delay");
    let access = "access = { delay = \"13s\" }";
    refused(&format!("{path}{}", flow(access)), "flow[0].access.delay");
    let direct = "from = \"a\"\nto = \"b\"\n";
    refused(&format!("{}{}", nodes("13s"), flow("route = \"a, c, b\"")), "flow[0]");
    let reroute = format!("{direct}reroute = [{{ at = \"1s\", route = \"a, c, b\" }}]");
    refused(&format!("{}{}", nodes("13s"), flow(&reroute)), "flow[0].reroute");
    let near = format!("cc = \"bbr3\"\n{}{}", nodes("13s"), flow(direct));
    let near = Plan::parse(&near, "x.toml", "x", Path::new(""), Edition::default());
    let near = near.unwrap_or_else(|e| panic!("{e}"));
    BackendChoice::NOQ.check_plan(&near, "x.toml").expect("no flow goes the long way");
}

#[test]
#[cfg(target_os = "linux")]
fn tcp_on_a_device_refuses_what_it_does_not_have() {
    for (flow, says) in [
        ("mss = 1000", "mss does not run over tcp (real clock)"),
        ("cc = \"noq:bbr3\"", "noq:bbr3 does not run over tcp (real clock); write --stack noq"),
    ] {
        let text = format!(
            "path = {{ rate = \"9mbit\", rtt = \"9ms\" }}\ncc = \"bbr3\"\n[[flow]]\n{flow}\n"
        );
        let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
        let plan = plan.unwrap_or_else(|e| panic!("{e}"));
        let backend = BackendChoice::of(Over::in_real_time(Stack::Tcp)).expect("a backend");
        let error = backend.check_plan(&plan, "x.toml").expect_err(says).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

/// The files for Linux's own algorithms, which need root to run.
#[test]
fn the_kernel_runs_the_files_for_linux() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/linux");
    let files = std::fs::read_dir(dir).expect("a directory").map(|file| file.expect("a file"));
    let mut seen = 0;
    for file in files {
        let plan = Plan::load(&file.path(), Edition::default()).expect("a scenario file");
        BackendChoice::LINUX.check_plan(&plan, "a file").expect("the kernel's TCP runs it");
        seen += 1;
    }
    assert_eq!(seen, 6);
}

#[test]
fn media_that_makes_no_sense_is_refused_in_one_line() {
    for (field, says) in [
        ("fps = 0", "fps: 0 frames a second; write 1 to 1000"),
        ("fps = 1001", "fps: 1001 frames a second; write 1 to 1000"),
        ("keyframe_size = 0", "keyframe_size: 0 frames; write 1 to 1000"),
        ("keyframe_size = 4", "keyframe_size: there are no keyframes; write keyframes = \"2s\""),
        ("keyframes = \"50ms\"", "keyframes: less than two frames; write 67ms or more"),
        ("min = \"1mbit\"", "min: without adapt the bitrate stays; write adapt = true"),
        ("probe = true", "probe: without adapt the bitrate stays; write adapt = true"),
        ("adapt = true, min = \"3mbit\"", "min: the bitrate is not between min and max"),
        ("adapt = true, max = \"1mbit\"", "max: the bitrate is not between min and max"),
    ] {
        let text = format!(
            "path = {{ rate = \"10mbit\", rtt = \"40ms\" }}\n[[flow]]\n\
             cc = \"bbr3\"\napp = {{ media = {{ bitrate = \"2mbit\", {field} }} }}\n"
        );
        let error = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
        let error = error.expect_err(says).to_string();
        let says = format!("x.toml:4: flow[0].app.media.{says}");
        assert!(error.starts_with(&says) && error.lines().count() == 1, "{error}");
    }
}

/// Its encoder and its player are one machine with one clock, which two hosts have not.
#[test]
fn media_is_refused_where_it_does_not_run() {
    let of = |backend: BackendChoice, media: &str, says: &str| {
        let text = format!(
            "path = {{ rate = \"10mbit\", rtt = \"40ms\" }}\n[[flow]]\n\
             cc = \"bbr3\"\napp = {{ media = {{ {media} }} }}\n"
        );
        let plan = Plan::parse(&text, "x.toml", "x", "".as_ref(), Edition::default());
        let refusal = backend.check_plan(&plan.expect("sound"), "x.toml").expect_err(says);
        let refusal = refusal.to_string();
        assert!(refusal.contains(says) && refusal.lines().count() == 1, "{refusal}");
    };
    for backend in [BackendChoice::NOQ_REAL, BackendChoice::QUINN_REAL, BackendChoice::S2N] {
        let says = format!("flow[0].app: app media does not run over {backend}; write --stack sim");
        of(backend, "bitrate = \"2mbit\"", &says);
    }
}

/// A stack's own algorithm takes neither a request for a probe nor saved parameters.
#[test]
fn what_a_stacks_own_algorithm_does_not_take_is_refused() {
    let media =
        |probe| format!("app = {{ media = {{ bitrate = \"2mbit\", adapt = true{probe} }} }}");
    let (no_probe, probe) = (media(""), media(", probe = true"));
    let resume = "resume = { cwnd = \"1bdp\", rtt = \"40ms\" }";
    let check = |backend, cc: &str, flow: &str| {
        let text = format!(
            "path = {{ rate = \"10mbit\", rtt = \"40ms\" }}\n[[flow]]\ncc = \"{cc}\"\n{flow}\n"
        );
        let plan = Plan::parse(&text, "x.toml", "x", "".as_ref(), Edition::default());
        check_machine(&plan.expect("sound"), &RunOptions { backend, ..RunOptions::default() })
    };
    for (backend, cc) in [
        (BackendChoice::NOQ, "noq:bbr3"),
        (BackendChoice::NOQ, "noq:cubic"),
        (BackendChoice::QUINN, "quinn:bbr"),
    ] {
        assert!(check(backend, cc, &no_probe).is_ok(), "{cc}");
        for (flow, says) in [
            (probe.as_str(), "takes no requests for probes; take probe out of app.media"),
            (resume, "does not resume; take resume out"),
        ] {
            assert!(check(backend, "cubic", flow).is_ok(), "{flow}");
            let error = check(backend, cc, flow).expect_err(says).to_string();
            assert!(error.starts_with(&format!("{cc} {says}")), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
