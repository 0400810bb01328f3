use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::{ScenarioReport, page};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

use super::*;
use crate::run::{RunOptions, run_point};

fn plan(text: &str) -> Plan {
    Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

const TOY: BackendChoice = BackendChoice(&toy::Toy);

const PATH: &str = "path = { rate = \"10mbit\", rtt = \"40ms\" }\n";

#[test]
fn a_backend_is_a_file_and_a_line_of_the_registry() {
    let p = plan(&format!(
        "cc = \"linux:bbr\"\nexpect = [\"goodput_mbps == 10\", \"share == 0.5 after 5s\"]\n{PATH}[[flow]]\ncount = 2\n"
    ).replace("share", "flow[0].share"));
    TOY.check_plan(&p, "x.toml").expect("it has all of this");
    let options = RunOptions { backend: TOY, ..RunOptions::default() };
    let run = run_point(&p, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs");
    assert_eq!(run.metrics["utilization"], Some(1.0));
    assert_eq!(
        (run.stack, run.clock, run.flows[1].cc.as_str()),
        (Stack::Sim, Clock::Real, "linux:bbr")
    );
    assert!(p.judge(&[&run.probes]).iter().all(|v| v.met), "{:?}", run.probes);
}

#[test]
fn a_run_that_starts_too_late_begins_anew_twice_and_says_so() {
    let p = plan(&format!("cc = \"bbr3\"\n{PATH}"));
    let options = RunOptions { backend: TOY, ..RunOptions::default() };
    let run = |late_starts| {
        toy::LATE_STARTS.set(late_starts);
        run_point(&p, 0, &options, &AtomicBool::new(false), &mut |_| ())
    };
    let usual = run(0).expect("it runs");
    assert_eq!((usual.late_starts, usual.note()), (0, None));
    for late_starts in [1, 2] {
        let late = run(late_starts).expect("it runs");
        let note = late.note().expect("a note");
        assert!(note.contains("begun anew") && note.contains("too late"), "{note}");
        let mut report = ScenarioReport::of(&p, None, None);
        report.runs.push(late.clone());
        assert!(page::render(&[report]).expect("a page").contains(&note));
        assert_eq!(late.late_starts, late_starts);
        assert_eq!(RunResult { late_starts: 0, ..late }, usual);
    }
    let error = run(3).expect_err("three starts are enough");
    assert!(matches!(error, RunError::LateStart(_)) && error.is_transient(), "{error}");
    assert_eq!(toy::LATE_STARTS.get(), 0);
    assert!(!RunError::Lost.is_transient());
}

#[test]
fn what_a_backend_lacks_is_refused_with_its_line_and_with_those_that_have_it() {
    for (over, text, says) in [
        (
            TOY,
            "link = [{ rate = \"10mbit\", delay = \"5ms\" }, { rate = \"20mbit\", delay = \"5ms\" }]\n",
            "x.toml:2: link[1]: more than one link does not run over sim (real clock); write --stack sim or --stack noq",
        ),
        (
            TOY,
            "path = { rate = \"10mbit\", rtt = \"40ms\" }\n[[flow]]\nmss = 1200\n",
            "x.toml:4: flow[0].mss: mss does not run over sim (real clock); write --stack sim",
        ),
        (
            BackendChoice::NOQ_REAL,
            "path = { rate = \"10mbit\", rtt = \"40ms\" }\n[[cross]]\nrate = \"1mbit\"\nroute = \"0\"\n",
            "x.toml:5: cross[0].route: a route does not run over noq (real clock); write --stack sim",
        ),
        (
            TOY,
            "path = { rate = \"10mbit\", rtt = \"40ms\" }\n[[cross]]\nrate = \"1mbit\"\n",
            "x.toml:3: cross: cross traffic does not run over sim (real clock); write --stack sim or --stack noq",
        ),
        (
            BackendChoice::NOQ_REAL,
            "path = { rate = \"10mbit\", rtt = \"40ms\" }\n[[flow]]\ncc = \"linux:bbr\"\n",
            "x.toml:4: flow[0].cc: linux:bbr does not run over noq (real clock)",
        ),
        (
            BackendChoice::SIM,
            "path = { rate = \"10mbit\", rtt = \"40ms\" }\n[[flow]]\ncc = \"noq:bbr3\"\n",
            "x.toml:4: flow[0].cc: noq:bbr3 does not run over sim (virtual clock); write --stack noq",
        ),
        (
            BackendChoice::NOQ_REAL,
            "expect = [\"latency_ms.p95 < 9\"]\npath = { rate = \"10mbit\", rtt = \"40ms\" }\n",
            "x.toml:2: expect[0]: latency_ms.p95 is not measured over noq (real clock)",
        ),
    ] {
        let text = format!("cc = \"bbr3\"\n{text}");
        let error = over.check_plan(&plan(&text), "x.toml").expect_err(says).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn algorithms_have_the_names_that_a_backend_knows() {
    let on = |over: BackendChoice, cc: &str| {
        over.get().algorithm(cc.parse().expect(cc)).map(|cc| cc.to_string())
    };
    assert_eq!(on(BackendChoice::SIM, "bbr3").as_deref(), Some("bbr3"));
    assert_eq!(on(BackendChoice::NOQ_REAL, "noq:cubic").as_deref(), Some("noq:cubic"));
    #[cfg(target_os = "linux")]
    for (cc, there) in [
        ("bbr3", "bbr3-linux"),
        ("bbr3x", "bbr3x-linux"),
        ("cubic", "linux:cubic"),
        ("linux:bbr", "linux:bbr"),
    ] {
        assert_eq!(on(BackendChoice::LINUX, cc).as_deref(), Some(there));
    }
    assert_eq!(
        (on(BackendChoice::LINUX, "bbr1"), on(BackendChoice::SIM, "linux:bbr")),
        (None, None)
    );
}

#[test]
fn a_link_that_a_backend_does_not_have_is_refused() {
    assert_eq!(BackendChoice::NOQ_REAL.link(None), Ok(Some(LinkKind::Udp)));
    assert_eq!(BackendChoice::SIM.link(None), Ok(None));
    for (over, link, says) in [
        (
            BackendChoice::SIM,
            LinkKind::Udp,
            "leave --link udp out, or write --stack noq --clock real",
        ),
        (BackendChoice::NOQ_REAL, LinkKind::Netem, "--link udp or --link tun"),
    ] {
        let why = over.link(Some(link)).expect_err(says);
        assert!(why.contains(says), "{why}");
    }
}
