//! The sender's model as the cases read it. A controller of another stack may not have a variable,
//! or not show it: no check that reads one may pass.

use std::cell::{Cell, RefCell};
use std::fmt;

use fullpipe_cc::{BbrSnapshot, Duration, Gain, Rate, Snapshot, State};
use fullpipe_lab::backend::{Gap, GapReason};

use super::outcome::Broken;

/// The variables that a case could not read.
#[derive(Default)]
pub(super) struct Gaps {
    /// Those of the flow's controller.
    known: Cell<&'static [Gap]>,
    /// Those of them that were read since the last check: a bit for each.
    read: Cell<u32>,
    /// The checks that were left out, by the step of the text.
    left_out: RefCell<Vec<(u32, Gap)>>,
}

impl Gaps {
    pub(super) fn set(&self, known: &'static [Gap]) {
        self.known.set(known);
    }

    /// True if the controller shows this variable.
    pub(super) fn shows(&self, variable: &str) -> bool {
        self.known.get().iter().all(|gap| gap.variable != variable)
    }

    fn reads(&self, variable: &str) {
        let place = self.known.get().iter().position(|gap| gap.variable == variable);
        if let Some(bit) = place.and_then(|place| 1_u32.checked_shl(place as u32)) {
            self.read.set(self.read.get() | bit);
        }
    }

    /// The gaps that were read since the last call.
    fn take(&self) -> impl Iterator<Item = Gap> + use<> {
        let read = self.read.take();
        self.known
            .get()
            .iter()
            .enumerate()
            .filter(move |(i, _)| read >> i & 1 == 1)
            .map(|(_, g)| *g)
    }

    /// An error if a gap was read since the last look: the case cannot go on.
    pub(super) fn stop_at(&self, step: u32) -> Result<(), Broken> {
        match self.read.get() {
            0 => Ok(()),
            _ => Err(Broken::Unseen { step, gaps: self.take().collect() }),
        }
    }

    /// An error if the controller does not show this variable.
    pub(super) fn need(&self, step: u32, variable: &str) -> Result<(), Broken> {
        self.reads(variable);
        self.stop_at(step)
    }

    /// Notes the gaps that were read since the last look: true if there are any, so that this check
    /// is left out.
    pub(super) fn leave_out(&self, step: u32) -> bool {
        let mut is_any = false;
        for gap in self.take() {
            is_any = true;
            let mut left_out = self.left_out.borrow_mut();
            if !left_out.contains(&(step, gap)) {
                left_out.push((step, gap));
            }
        }
        is_any
    }

    /// Notes that a step is left out, because the controller does not have this variable.
    pub(super) fn leave_out_for(&self, step: u32, variable: &str) {
        self.reads(variable);
        self.leave_out(step);
    }

    /// The checks that were left out.
    pub(super) fn left_out(&self) -> Vec<(u32, Gap)> {
        // Whatever was read for a figure that nothing checked.
        self.leave_out(0);
        self.left_out.borrow().clone()
    }
}

/// Names of variables and the steps that read them, for people.
pub(super) fn in_words(gaps: &[(u32, Gap)]) -> String {
    let of = |reason| {
        let mut names = Vec::new();
        for (step, _) in gaps.iter().filter(|(_, gap)| gap.reason == reason) {
            let at = gaps.iter().filter(|(at, gap)| at == step && gap.reason == reason);
            let variables: Vec<&str> = at.map(|(_, gap)| gap.variable).collect();
            let variables = variables.join(", ");
            let name = match step {
                0 => variables,
                step => format!("{variables} (step {step})"),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    };
    let (absent, hidden) = (of(GapReason::Absent), of(GapReason::Hidden));
    match (absent.as_str(), hidden.as_str()) {
        (absent, "") => format!("no such variable: {absent}"),
        ("", hidden) => format!("not shown: {hidden}"),
        (absent, hidden) => format!("no such variable: {absent}; not shown: {hidden}"),
    }
}

/// A sender after an event.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) state: State,
    pub(super) cwnd: u64,
    pub(super) inflight: u64,
    pub(super) pacing_rate: Option<Rate>,
    pub(super) send_quantum: u64,
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) is_cwnd_limited: bool,
    app_limited: bool,
    model: Model<'a>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(snapshot: &Snapshot, gaps: &'a Gaps) -> Self {
        let all = match snapshot.bbr {
            Some(bbr) => bbr,
            // Every subject is a BBR, which always has one.
            None => unreachable!("a BBR has a model"),
        };
        Self {
            state: snapshot.state,
            cwnd: snapshot.cwnd,
            inflight: snapshot.inflight,
            pacing_rate: snapshot.pacing_rate,
            send_quantum: snapshot.send_quantum,
            delivered: snapshot.delivered,
            lost: snapshot.lost,
            is_cwnd_limited: snapshot.is_cwnd_limited,
            app_limited: snapshot.app_limited,
            model: Model { all, gaps },
        }
    }

    pub(super) fn app_limited(&self) -> bool {
        self.model.gaps.reads("app_limited");
        self.app_limited
    }

    pub(super) const fn bbr(&self) -> Model<'a> {
        self.model
    }
}

/// The model of the path.
#[derive(Clone, Copy)]
pub(super) struct Model<'a> {
    all: BbrSnapshot,
    gaps: &'a Gaps,
}

impl fmt::Debug for Model<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

macro_rules! variables {
    ($($name:ident: $type:ty,)*) => {
        impl Model<'_> {
            $(pub(super) fn $name(&self) -> $type {
                self.gaps.reads(stringify!($name));
                self.all.$name
            })*
        }
    };
}

variables! {
    max_bw: Rate,
    bw: Rate,
    bw_shortterm: Option<Rate>,
    inflight_shortterm: Option<u64>,
    inflight_longterm: Option<u64>,
    min_rtt: Option<Duration>,
    bdp: u64,
    extra_acked: u64,
    max_inflight: u64,
    pacing_gain: Gain,
    cwnd_gain: Gain,
    round_count: u64,
    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: Rate,
    full_bw_count: u32,
    idle_restart: bool,
    prev_probe_too_high: bool,
    bw_probe_wait: Duration,
    rounds_since_probe_up: u64,
    probe_rtt_min_delay: Option<Duration>,
    drain_start_round: u64,
    bw_latest: Rate,
    inflight_latest: u64,
    bw_probe_up_rounds: u32,
    probe_up_acked_per_inc: Option<u64>,
    undo_state: Option<State>,
    undo_bw_shortterm: Option<Rate>,
    undo_inflight_shortterm: Option<u64>,
    undo_inflight_longterm: Option<u64>,
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::{Algorithm, Config, Controller, Instant};

    use super::*;

    static KNOWN: [Gap; 3] = [
        Gap { variable: "prev_probe_too_high", reason: GapReason::Absent },
        Gap { variable: "app_limited", reason: GapReason::Hidden },
        Gap { variable: "undo_state", reason: GapReason::Absent },
    ];

    fn seen(gaps: &Gaps) -> Seen<'_> {
        let ours = Controller::new(Algorithm::BBR3, Config::new(0), Instant::default());
        Seen::new(&ours.snapshot(), gaps)
    }

    #[test]
    fn a_check_that_reads_a_gap_is_told_and_others_are_not() {
        let gaps = Gaps::default();
        let _all = (seen(&gaps).app_limited(), seen(&gaps).bbr().undo_state());
        assert!(gaps.stop_at(1).is_ok() && gaps.left_out().is_empty(), "nothing is known yet");
        gaps.set(&KNOWN);
        let _seen = seen(&gaps).bbr().max_bw();
        assert!(gaps.stop_at(1).is_ok() && !gaps.leave_out(1));
        let _missing = seen(&gaps).bbr().prev_probe_too_high();
        let error = gaps.stop_at(4).expect_err("it reads a gap").to_string();
        assert_eq!(error, "no such variable: prev_probe_too_high (step 4)");
        assert!(gaps.stop_at(5).is_ok(), "told once");
        let _missing = (seen(&gaps).app_limited(), seen(&gaps).bbr().undo_state());
        assert!(gaps.leave_out(2));
        let _missing = seen(&gaps).app_limited();
        assert!(gaps.leave_out(2) && !gaps.leave_out(2));
        let words = in_words(&gaps.left_out());
        assert_eq!(words, "no such variable: undo_state (step 2); not shown: app_limited (step 2)");
    }

    #[test]
    fn a_figure_that_reads_a_gap_is_left_out_as_well() {
        let gaps = Gaps::default();
        gaps.set(&KNOWN);
        let _figure = seen(&gaps).bbr().undo_state();
        assert_eq!(gaps.left_out(), [(0, KNOWN[2])]);
    }
}
