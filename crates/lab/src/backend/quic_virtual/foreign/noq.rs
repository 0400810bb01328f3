//! noq's own BBRv3, by the draft's names.

use std::fmt::Debug;

use fullpipe_cc::{Duration, Gain, Rate, Snapshot, State};

use super::fields::{read, values};
use super::{
    Gap, absent, duration, finite_rate, number, percent, rate, template, unreadable, volume,
};
use crate::backend::RunError;

/// The name in messages and snapshots.
const NAME: &str = "noq:bbr3";

/// Variables of newer drafts.
pub(in crate::backend) static GAPS: [Gap; 2] =
    absent(["prev_probe_too_high", "prev_probe_precautionary"]);

/// The queue of packets in flight, which is a field: its text is thousands of times as long as all
/// others. What stands before it is read after each event.
const QUEUE: &str = "packets";

values!(Early {
    smss: u64 = number,
    delivered: u64 = number,
    inflight: u64 = number,
    is_cwnd_limited: bool = number,
    cwnd: u64 = number,
    pacing_rate: Rate = finite_rate,
    send_quantum: u64 = number,
    pacing_gain: u32 = percent,
    cwnd_gain: u32 = percent,
    state: Option<State> = state,
    undo_state: Option<State> = state,
    round_count: u64 = number,
    round_start: bool = number,
    idle_restart: bool = number,
    max_bw: Rate = finite_rate,
    bw_shortterm: Option<Rate> = rate,
    undo_bw_shortterm: Option<Rate> = rate,
    bw: Rate = finite_rate,
    min_rtt: Option<Duration> = duration,
    bdp: u64 = number,
    extra_acked: u64 = number,
    max_inflight: u64 = number,
    inflight_longterm: Option<u64> = volume,
    undo_inflight_longterm: Option<u64> = volume,
    inflight_shortterm: Option<u64> = volume,
    undo_inflight_shortterm: Option<u64> = volume,
    bw_latest: Rate = finite_rate,
    inflight_latest: u64 = number,
    full_bw_reached: bool = number,
    full_bw_now: bool = number,
    full_bw: Rate = finite_rate,
    full_bw_count: u32 = number,
    probe_rtt_min_delay: Option<Duration> = duration,
    app_limited: u64 = number,
    lost: u64 = number,
});

values!(Late {
    rounds_since_bw_probe: u64 = number,
    bw_probe_wait: Duration = finite_duration,
    bw_probe_up_rounds: u32 = number,
    probe_up_cnt: Option<u64> = volume,
    drain_start_round: u64 = number,
});

/// The variables behind the queue, as of the last time they were read.
#[derive(Default)]
pub(in crate::backend) struct View {
    late: Late,
    /// The state and the round of that time: these fields change with one of the two.
    read_at: Option<(State, u64)>,
}

impl View {
    /// The model of noq's BBRv3.
    pub(in crate::backend) fn look(
        &mut self,
        controller: &dyn Debug,
    ) -> Result<Snapshot, RunError> {
        let mut early = Early::default();
        read(controller, QUEUE, true, |name, text| early.take(name, text));
        let (None, Some(state)) = (early.missing(), early.state) else {
            return Err(unreadable(NAME, early.missing().unwrap_or("state")));
        };
        if self.read_at != Some((state, early.round_count)) {
            self.late = Late::default();
            read(controller, QUEUE, false, |name, text| self.late.take(name, text));
            if let Some(field) = self.late.missing() {
                return Err(unreadable(NAME, field));
            }
            self.read_at = Some((state, early.round_count));
        }
        Ok(snapshot(state, &early, &self.late))
    }
}

fn snapshot(state: State, early: &Early, late: &Late) -> Snapshot {
    let mut to = template(NAME);
    to.state = state;
    to.cwnd = early.cwnd;
    to.inflight = early.inflight;
    to.pacing_rate = Some(early.pacing_rate);
    to.send_quantum = early.send_quantum;
    to.delivered = early.delivered;
    to.lost = early.lost;
    to.is_cwnd_limited = early.is_cwnd_limited;
    to.app_limited = early.app_limited != 0;
    if let Some(bbr) = &mut to.bbr {
        bbr.max_bw = early.max_bw;
        bbr.bw = early.bw;
        bbr.bw_shortterm = early.bw_shortterm;
        bbr.inflight_shortterm = early.inflight_shortterm;
        bbr.inflight_longterm = early.inflight_longterm;
        bbr.min_rtt = early.min_rtt;
        bbr.bdp = early.bdp;
        bbr.extra_acked = early.extra_acked;
        bbr.max_inflight = early.max_inflight;
        bbr.pacing_gain = Gain::percent(early.pacing_gain);
        bbr.cwnd_gain = Gain::percent(early.cwnd_gain);
        bbr.round_count = early.round_count;
        bbr.round_start = early.round_start;
        bbr.full_bw_reached = early.full_bw_reached;
        bbr.full_bw_now = early.full_bw_now;
        bbr.full_bw = early.full_bw;
        bbr.full_bw_count = early.full_bw_count;
        bbr.idle_restart = early.idle_restart;
        bbr.bw_probe_wait = late.bw_probe_wait;
        bbr.rounds_since_probe_up = late.rounds_since_bw_probe;
        bbr.probe_rtt_min_delay = early.probe_rtt_min_delay;
        bbr.drain_start_round = late.drain_start_round;
        bbr.bw_latest = early.bw_latest;
        bbr.inflight_latest = early.inflight_latest;
        bbr.bw_probe_up_rounds = late.bw_probe_up_rounds;
        // noq counts the bytes for one byte more.
        bbr.probe_up_acked_per_inc = late.probe_up_cnt.map(|each| each * early.smss);
        // noq has no None: it is the state of the last loss, and Startup before there was one.
        bbr.undo_state = (early.lost > 0).then_some(early.undo_state).flatten();
        bbr.undo_bw_shortterm = early.undo_bw_shortterm;
        bbr.undo_inflight_shortterm = early.undo_inflight_shortterm;
        bbr.undo_inflight_longterm = early.undo_inflight_longterm;
    }
    to
}

fn state(text: &str) -> Option<Option<State>> {
    Some(Some(match text {
        "Startup" => State::Startup,
        "Drain" => State::Drain,
        "ProbeBw(Down)" => State::ProbeBwDown,
        "ProbeBw(Cruise)" => State::ProbeBwCruise,
        "ProbeBw(Refill)" => State::ProbeBwRefill,
        "ProbeBw(Up)" => State::ProbeBwUp,
        "ProbeRtt" => State::ProbeRtt,
        _ => return None,
    }))
}

fn finite_duration(text: &str) -> Option<Duration> {
    duration(text)?
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noq_proto::congestion::{Bbr3Config, Controller, ControllerFactory};

    use super::*;

    fn bbr3() -> Box<dyn Controller> {
        Arc::new(Bbr3Config::default()).build(std::time::Instant::now(), 1_452)
    }

    #[test]
    fn a_new_controller_is_read_to_its_last_field() {
        let mut controller = bbr3();
        controller.on_packet_sent(std::time::Instant::now(), 1_300, 0);
        let seen = View::default().look(&controller).expect("a snapshot");
        let bbr = seen.bbr.expect("a model");
        assert_eq!((seen.state, seen.inflight, seen.cwnd), (State::Startup, 1_300, 12_000));
        assert_eq!(bbr.pacing_gain.as_percent(), 277);
        assert_eq!((bbr.min_rtt, bbr.inflight_longterm, bbr.bw_shortterm), (None, None, None));
        assert_eq!((bbr.probe_rtt_min_delay, bbr.undo_state), (None, None));
        assert_eq!((bbr.bw_probe_wait, bbr.drain_start_round), (Duration::ZERO, 0));
    }

    #[test]
    fn another_text_is_an_error_that_names_the_field() {
        for (text, field) in
            [("Bbr3 { delivered: 1 }", "smss"), ("Bbr3 { smss: 1, delivered: x }", "delivered")]
        {
            let error = View::default().look(&format_args!("{text}")).expect_err("none");
            let words = format!("the text of noq:bbr3 has no readable field {field}");
            assert_eq!(error.to_string(), words);
        }
    }
}
