use std::sync::atomic::AtomicBool;

use fullpipe_report::plan::{Options, Plan};
use fullpipe_scenario::{Edition, LinkKind};

use super::*;
use crate::backend::BackendChoice;

const SIM: (BackendChoice, Option<LinkKind>) = (BackendChoice::SIM, None);

fn of_options(options: &Options, stop: bool) -> Story {
    let plan = options.plan().expect("sound options");
    tell(&plan, 0, 0, SIM, &AtomicBool::new(stop)).expect("a story")
}

fn story(cc: &str, buffer: f64, loss: f64) -> Story {
    let options = Options {
        cc: vec![cc.parse().expect(cc)],
        rate: Some("50mbit".to_owned()),
        buffer: format!("{buffer}bdp"),
        loss: loss.to_string(),
        duration: "12s".to_owned(),
        ..Options::default()
    };
    of_options(&options, false)
}

fn find<'a>(s: &'a Story, state: &str) -> &'a Chapter {
    s.chapters.iter().find(|c| c.state == state).unwrap_or_else(|| panic!("{state} of {}", s.cc))
}

#[test]
fn bbr3_tells_of_every_state_and_knows_the_path() {
    let s = story("bbr3", 4.0, 0.0);
    let order: Vec<_> = s.chapters.iter().take(3).map(|c| c.state).collect();
    assert_eq!(order, ["Startup", "Drain", "ProbeBW_CRUISE"]);
    assert!(find(&s, "Drain").why.contains("three rounds brought no 25 % more"));
    assert!(find(&s, "ProbeBW_CRUISE").why.contains("the queue is empty"));
    let after_probe = s.chapters.windows(2).find(|w| w[0].state == "ProbeBW_DOWN").expect("DOWN");
    assert!(after_probe[1].why.contains("the probe's queue is gone"), "{}", after_probe[1].why);
    assert!(find(&s, "ProbeRTT").why.contains("no round trip shorter than 40."));
    let probe = s.chapters.windows(2).find(|w| w[0].state == "ProbeBW_UP").expect("a probe");
    assert!(probe[1].why.contains("the bandwidth is still 4"), "{}", probe[1].why);
    let last = s.chapters.last().expect("chapters");
    let believed = last.max_bw_bps.expect("a model") as f64 / s.truth.carries_bps as f64;
    assert!((0.98..1.02).contains(&believed), "{believed}");
    assert!((last.min_rtt_ms.expect("a model") - s.truth.min_rtt_ms).abs() < 0.5);
}

/// Three lost packets of a handshake cost 7 s of timeouts (RFC 6298), and Startup begins after them.
#[test]
fn lost_packets_of_the_handshake_are_not_startup() {
    let text = "cc = \"bbr3\"\nduration = \"12s\"\n\
                path = { rate = \"10mbit\", rtt = \"30ms\", buffer = \"1bdp\", down = [{ loss_list = { listed = [0, 1, 2] } }] }\n";
    let s = tell(&plan(text), 0, 0, SIM, &AtomicBool::new(false)).expect("a story");
    let [handshake, startup] = [&s.chapters[0], &s.chapters[1]];
    assert_eq!((handshake.state, startup.state), ("Handshake", "Startup"));
    assert!((7.0..7.2).contains(&handshake.lasted_s), "{handshake:?}");
    assert!(startup.lasted_s < 0.5, "{startup:?}");
    assert!(s.to_text().contains("the first was sent 4 times"), "{}", s.to_text());
}

/// A window of half a BDP is the limit most of the time, one of four is none.
#[test]
fn a_full_window_of_the_receiver_is_named() {
    for (window, least, most) in [("125kB", 0.5, 1.0), ("1MB", 0.0, 0.0)] {
        let text = format!(
            "path = {{ rate = \"50mbit\", rtt = \"40ms\", buffer = \"8bdp\" }}\nduration = \"12s\"\n\
             flow = [{{ cc = \"bbr3\", receive_window = \"{window}\" }}]\n"
        );
        let stop = AtomicBool::new(false);
        let s = tell(&plan(&text), 0, 0, SIM, &stop).expect("a story");
        let share = s.window_limited_share.expect("the simulator shows it");
        assert!((least..=most).contains(&share), "{window}: {share}");
        let is_named = s.to_text().contains("The receiver's window was full for");
        assert_eq!(is_named, share > 0.0, "{}", s.to_text());
    }
}

#[test]
fn what_an_amendment_ended_is_not_said_to_be_a_plateau_of_three_rounds() {
    let s = story("bbr3x", 4.0, 0.0);
    let up = |s: &Story| {
        s.chapters.windows(2).find(|w| w[0].state == "ProbeBW_UP").expect("a probe")[1].why.clone()
    };
    assert!(up(&s).contains("1.25 BDP in flight made a queue"), "{}", up(&s));
    let draft = "path = { rate = \"50mbit\", rtt = \"40ms\", buffer = \"4bdp\" }\nduration = \"12s\"\n\
        flow = [{ cc = \"bbr3x\", bbr3x_without = \"short_probe\" }]\n";
    let s = tell(&plan(draft), 0, 0, SIM, &AtomicBool::new(false)).expect("a story");
    assert!(find(&s, "Drain").why.contains("three rounds"), "{}", s.to_text());
    assert!(up(&s).contains("three rounds of probing"), "{}", up(&s));
    let many = "path = { rate = \"50mbit\", rtt = \"40ms\", buffer = \"4bdp\" }\nduration = \"12s\"\n\
        flow = [{ cc = \"bbr3x\", count = 16 }]\n";
    let s = tell(&plan(many), 0, 0, SIM, &AtomicBool::new(false)).expect("a story");
    assert!(s.chapters.iter().any(|c| c.why.contains("others probe too")), "{}", s.to_text());
}

#[test]
fn delays_are_the_reasons_of_bbr_swift() {
    let text = "cc = \"bbr-swift\"\nduration = \"30ms\"\n\
        path = { rate = \"1gbit\", rtt = \"25us\", buffer = \"4MB\" }\n\
        flow = [{ ack_every = 1, jitter = \"1us\" }]\n";
    let s = tell(&plan(text), 0, 0, SIM, &AtomicBool::new(false)).expect("a story");
    assert!(find(&s, "Drain").why.contains("longer than its target for each packet of a round"));
    let ends: Vec<_> = s.chapters.windows(2).filter(|w| w[0].state == "ProbeBW_UP").collect();
    assert!(ends.iter().any(|w| w[1].why.contains("the network took longer than its target: the")));
    for why in s.chapters.iter().map(|c| &c.why) {
        assert!(!why.contains("lost") && !why.contains("Reno would"), "{why}");
    }
}

#[test]
fn a_fixed_rate_has_no_window() {
    let text = story("fixed:20mbit", 4.0, 0.0).to_text();
    assert!(text.contains("a rate and no window") && !text.contains("window of"), "{text}");
    assert!(text.contains("fixed:20mbit has a rate and no model"), "{text}");
}

#[test]
fn a_story_that_was_stopped_says_so() {
    let told = |stop| {
        let cc = vec!["reno".parse().expect("a name")];
        of_options(&Options { cc, ..Options::default() }, stop)
    };
    assert!(told(true).interrupted && !told(false).interrupted);
}

#[test]
fn losses_are_given_as_the_reason_where_they_are() {
    // A quarter of a BDP: a probe loses before three rounds are over.
    let s = story("bbr3", 0.25, 0.0);
    assert!(
        s.chapters.iter().any(|c| c.why.contains("the probe lost too much")),
        "{}",
        s.to_text()
    );
    assert!(find(&s, "Drain").why.contains("too much was lost in one round"));
}

#[test]
fn a_window_has_its_own_story() {
    let s = story("cubic", 1.0, 0.001);
    assert!(find(&s, "Recovery").why.contains("were found lost: the window goes from"));
    assert!(find(&s, "CongestionAvoidance").why.contains("is acknowledged"));
    assert!(s.to_text().contains("cubic has a window and no model"));
    let s = story("reno", 4.0, 0.0);
    assert!(find(&s, "ConservativeSlowStart").why.contains("round trips became longer"));
}

#[test]
fn times_and_shares_add_up() {
    for cc in ["bbr3", "bbr1", "cubic"] {
        let s = story(cc, 2.0, 0.0);
        let time: f64 = s.chapters.iter().map(|c| c.lasted_s).sum();
        assert!((time - s.elapsed_s).abs() < 0.01, "{cc}: {time}");
        for w in s.chapters.windows(2) {
            assert!((w[0].t_s + w[0].lasted_s - w[1].t_s).abs() < 2e-4);
        }
        let sum = |of: fn(&StateTotal) -> f64| s.states.iter().map(of).sum::<f64>();
        assert!((sum(|t| t.time_share) - 1.0).abs() < 1e-4);
        assert!((sum(|t| t.waiting_share) - 1.0).abs() < 1e-4);
        let w = s.whereabouts;
        assert_eq!(w.queue_bytes + w.path_bytes, w.inflight_bytes);
        // What is on the way is what the link carries in the time that the way takes.
        let on_the_way = w.path_bytes as f64 / s.truth.bdp_bytes as f64;
        assert!((0.85..1.1).contains(&on_the_way), "{cc}: {on_the_way} BDP");
    }
}

#[test]
fn a_long_story_is_cut_in_the_middle() {
    let s = story("reno", 0.2, 0.02);
    let text = s.to_text();
    assert!(s.chapters.len() > 60 && text.contains(" more like these"), "{}", s.chapters.len());
    let last = format!("{:>8.3} s  ", s.chapters.last().expect("chapters").t_s);
    assert!(text.contains(&last));
}

fn plan(text: &str) -> Plan {
    Plan::parse(text, "x.toml", "x", "".as_ref(), Edition::default()).expect("a plan")
}

#[test]
fn a_flow_of_a_file_has_the_story_that_its_flags_would_have() {
    let flags = story("bbr3", 4.0, 0.0);
    let plan = plan(
        "cc = [\"cubic\", \"bbr3\"]\nduration = \"12s\"\n\
         path = { rate = \"50mbit\", rtt = \"40ms\", buffer = \"4bdp\" }\n",
    );
    let file = tell(&plan, 1, 0, SIM, &AtomicBool::new(false)).expect("a story");
    assert_eq!((file.cc.as_str(), file.path.as_str()), ("bbr3", "the path of x, cc bbr3"));
    assert_eq!((&file.chapters, file.truth), (&flags.chapters, flags.truth));
}

#[test]
fn a_late_flow_begins_with_its_start_and_what_is_not_there_is_said() {
    let two = "path = { rate = \"10mbit\", rtt = \"40ms\" }\nduration = \"9s\"\n\
        flow = [{ cc = \"cubic\" }, { cc = \"bbr3\", start = \"3s\" }]\n";
    let stop = AtomicBool::new(false);
    let late = tell(&plan(two), 0, 1, SIM, &stop).expect("a story");
    assert_eq!((late.chapters[0].state, late.elapsed_s), ("Startup", 6.0));
    for (run, flow, says) in [(1, 0, "run 1 of 0 to 0"), (0, 2, "flow 2 of 0 to 1")] {
        let error = tell(&plan(two), run, flow, SIM, &stop).expect_err(says).to_string();
        assert!(error.contains(says) && error.contains("; "), "{error}");
    }
}

#[test]
fn on_a_path_that_changes_what_is_true_is_the_mean_over_the_run() {
    let stop = AtomicBool::new(false);
    let told = |path: &str| {
        let text =
            format!("cc = \"bbr3\"\nduration = \"4s\"\npath = {{ {path}, rtt = \"40ms\" }}\n");
        tell(&plan(&text), 0, 0, SIM, &stop).expect(path)
    };
    let steps = told("rate = \"1mbit\", steps = [{ at = \"1s\", rate = \"2mbit\" }]");
    let share = 1452.0 / 1480.0;
    let wanted = 1.75e6 * share;
    assert!((steps.truth.carries_bps as f64 - wanted).abs() < 100.0, "{:?}", steps.truth);
    let text = steps.to_text();
    assert!(text.contains("of what bbr3 counts on average, because the path changes;"), "{text}");
    let trace = told("trace = \"lte\"");
    assert!(trace.truth.changes && trace.received_bytes > 100_000, "{:?}", trace.truth);
    let constant = told("rate = \"1mbit\"");
    assert!(!constant.truth.changes && !constant.to_text().contains("on average, because"));
}
