//! Marks over the stacks: those that the path made are those that congestion control hears of.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fullpipe_cc::{
    Algorithm, Config, Congestion, CongestionControl, Conn, CustomAlgorithm, RateSample, Snapshot,
    State,
};
use fullpipe_noq::CongestionControl as Of;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

use super::super::*;
use crate::observe::Sampling;

/// Packets of which an algorithm heard that they were marked.
static HEARD: AtomicU64 = AtomicU64::new(0);

/// A window of 60 packets, whatever happens.
#[derive(Clone, Debug)]
struct Listener;

impl Listener {
    fn hold(conn: &mut Conn) {
        conn.set_cwnd(60 * conn.smss());
    }
}

impl CongestionControl for Listener {
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if let Some(marks) = &congestion.marks {
            HEARD.fetch_add(marks.newly_marked / conn.smss(), Ordering::Relaxed);
        }
        Self::hold(conn);
    }
    fn on_ack(&mut self, conn: &mut Conn, _: &RateSample) {
        Self::hold(conn);
    }
    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "listener", State::CongestionAvoidance)
    }
}

static LISTENER: CustomAlgorithm = CustomAlgorithm {
    name: "listener",
    new: &|conn: &mut Conn, _, _: &Config| {
        Listener::hold(conn);
        Box::new(Listener)
    },
};

/// Packets that the path marked, and of which the sender's congestion control heard.
fn marked_and_heard(backend: &dyn Backend, ecn: &str, elements: &str) -> (u64, u64) {
    let text = format!(
        "cc = \"cubic\"\n[path]\nrate = \"50mbit\"\nrtt = \"20ms\"\nbuffer = \"1MB\"\n{elements}\n\
         [[flow]]\necn = \"{ecn}\"\napp = {{ bytes = \"20MB\" }}\n"
    );
    let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let mut scenario = plan.grid.runs[0].scenario().clone();
    scenario.flows[0].cc = Cc::Program(Of::Fullpipe(Algorithm::Custom(&LISTENER)));
    let request = Request {
        moments: &[],
        sampling: Sampling::Asked,
        arrivals: 0,
        link: None,
        stop: &AtomicBool::new(false),
        watch: &mut |_| (),
        on_sample: &mut |_, _, _| Ok(()),
    };
    HEARD.store(0, Ordering::Relaxed);
    let seen = backend.run(&scenario, request).expect("it runs");
    let marked = seen.marks.last().map_or(0, |end| end.links[0].marked.packets);
    (marked, HEARD.load(Ordering::Relaxed))
}

/// From one packet in a hundred to all of them, and where ACKs are lost or come late: what the core
/// hears is what the path did, but for what is under way when the last byte arrives.
#[test]
fn each_mark_of_l4s_is_heard_of() {
    let stacks: &[&dyn Backend] = &[
        &NOQ,
        #[cfg(feature = "quinn")]
        &QUINN,
    ];
    for stack in stacks {
        for (share, up) in [
            ("1%", ""),
            ("10%", ""),
            ("50%", ""),
            ("100%", ""),
            ("50%", "up = [{ loss = \"30%\" }]"),
            ("50%", "up = [{ reordering = { chance = \"20%\", delay = \"1ms\" } }]"),
        ] {
            let elements = format!("down = [{{ marking = \"{share}\" }}]\n{up}");
            let (marked, heard) = marked_and_heard(*stack, "l4s", &elements);
            println!("{} {share} {up}: of {marked} marks {heard} were heard of", stack.stack());
            assert!(marked > 100, "{} {share}: {marked}", stack.stack());
            let late = marked.saturating_sub(heard);
            assert!(heard <= marked && late <= 60, "{} {share}: {heard}/{marked}", stack.stack());
            // Without L4S an ACK counts as one packet: it is for two or more.
            let (marked, heard) = marked_and_heard(*stack, "classic", &elements);
            println!("{} {share} {up}: as classic ECN {heard} of {marked}", stack.stack());
            assert!(heard <= marked && heard > 0);
        }
    }
}
