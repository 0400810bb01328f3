//! quinn's own BBR, which is of version 1, by the draft's names where it has such a variable.

use std::fmt::Debug;

use fullpipe_cc::{Duration, Gain, Rate, Snapshot, State};

use super::fields::{read, read_text, values};
use super::{Gap, GapReason, absent, duration, number, percent, template, unreadable};
use crate::backend::RunError;

/// The name in messages and snapshots.
const NAME: &str = "quinn:bbr";

/// Variables that version 1 has not. The limit of the application is quinn's, which tells the
/// controller of it and nobody else.
pub(in crate::backend) static GAPS: [Gap; 21] = {
    let mut gaps = absent([
        "bw_shortterm",
        "inflight_shortterm",
        "inflight_longterm",
        "extra_acked",
        "max_inflight",
        "full_bw_now",
        "prev_probe_too_high",
        "prev_probe_precautionary",
        "bw_probe_wait",
        "rounds_since_probe_up",
        "probe_rtt_min_delay",
        "drain_start_round",
        "bw_latest",
        "inflight_latest",
        "bw_probe_up_rounds",
        "probe_up_acked_per_inc",
        "undo_state",
        "undo_bw_shortterm",
        "undo_inflight_shortterm",
        "undo_inflight_longterm",
        "app_limited",
    ]);
    gaps[gaps.len() - 1].reason = GapReason::Hidden;
    gaps
};

/// The largest packet with an ACK alone.
const ACK_BYTES: u64 = 128;

values!(Values {
    mode: Mode = mode,
    is_at_full_bandwidth: bool = number,
    pacing_gain: u32 = percent,
    cwnd_gain: u32 = percent,
    prev_in_flight_count: u64 = number,
    min_rtt: Duration = finite_duration,
    exiting_quiescence: bool = number,
    pacing_rate: u64 = number,
    round_count: u64 = number,
    bw_at_last_round: u64 = number,
    round_wo_bw_gain: u32 = number,
    max_bandwidth: Estimate = estimate,
});

values!(EstimateValues {
    total_acked: u64 = number,
    total_sent: u64 = number,
    max_filter: u64 = best_of_filter,
});

#[derive(Clone, Copy, Default)]
enum Mode {
    #[default]
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Clone, Copy, Default)]
struct Estimate {
    acked: u64,
    sent: u64,
    bytes_per_sec: u64,
}

/// The bytes in flight, of which quinn tells its controller with an ACK alone: what was sent since
/// then is in the count of bytes sent. Within an event a stack receives first, and then sends. So
/// few bytes as [`ACK_BYTES`] are an ACK, which is not in flight.
#[derive(Default)]
pub(in crate::backend) struct View {
    inflight: u64,
    acked: u64,
    sent: u64,
    lost: u64,
}

impl View {
    /// The model of quinn's BBR, with the window that it gives quinn, and with the bytes that quinn
    /// took for lost.
    pub(in crate::backend) fn look(
        &mut self,
        controller: &dyn Debug,
        cwnd: u64,
        lost: u64,
    ) -> Result<Snapshot, RunError> {
        let mut values = Values::default();
        read(controller, "", false, |name, text| values.take(name, text));
        if let Some(field) = values.missing() {
            return Err(unreadable(NAME, field));
        }
        let Estimate { acked, sent, bytes_per_sec } = values.max_bandwidth;
        let before = match acked == self.acked {
            true => self.inflight.saturating_sub(lost - self.lost),
            false => values.prev_in_flight_count,
        };
        let left = sent - self.sent;
        let inflight = if left > ACK_BYTES { before + left } else { before };
        *self = Self { inflight, acked, sent, lost };
        let mut to = template(NAME);
        to.state = state(values.mode, values.pacing_gain);
        to.cwnd = cwnd;
        to.inflight = inflight;
        to.pacing_rate =
            (values.pacing_rate > 0).then(|| Rate::from_bytes_per_sec(values.pacing_rate));
        to.send_quantum = 0;
        (to.delivered, to.lost) = (acked, lost);
        if let Some(bbr) = &mut to.bbr {
            bbr.max_bw = Rate::from_bytes_per_sec(bytes_per_sec);
            bbr.bw = bbr.max_bw;
            bbr.min_rtt = (values.min_rtt > Duration::ZERO).then_some(values.min_rtt);
            bbr.bdp = bbr.bw.bytes_in(values.min_rtt);
            bbr.pacing_gain = Gain::percent(values.pacing_gain);
            bbr.cwnd_gain = Gain::percent(values.cwnd_gain);
            bbr.round_count = values.round_count;
            bbr.full_bw_reached = values.is_at_full_bandwidth;
            bbr.full_bw = Rate::from_bytes_per_sec(values.bw_at_last_round);
            bbr.full_bw_count = values.round_wo_bw_gain;
            bbr.idle_restart = values.exiting_quiescence;
        }
        Ok(to)
    }
}

/// The phases of the gain cycle have the names of the draft's states with such a gain.
fn state(mode: Mode, gain_percent: u32) -> State {
    match mode {
        Mode::Startup => State::Startup,
        Mode::Drain => State::Drain,
        Mode::ProbeRtt => State::ProbeRtt,
        Mode::ProbeBw => match gain_percent {
            ..100 => State::ProbeBwDown,
            100 => State::ProbeBwCruise,
            _ => State::ProbeBwUp,
        },
    }
}

fn mode(text: &str) -> Option<Mode> {
    Some(match text {
        "Startup" => Mode::Startup,
        "Drain" => Mode::Drain,
        "ProbeBw" => Mode::ProbeBw,
        "ProbeRtt" => Mode::ProbeRtt,
        _ => return None,
    })
}

fn finite_duration(text: &str) -> Option<Duration> {
    duration(text)?
}

fn estimate(text: &str) -> Option<Estimate> {
    let mut values = EstimateValues::default();
    read_text(text, |name, text| values.take(name, text));
    let EstimateValues { total_acked, total_sent, max_filter, .. } = values;
    let estimate = Estimate { acked: total_acked, sent: total_sent, bytes_per_sec: max_filter };
    values.missing().is_none().then_some(estimate)
}

/// The largest of a filter's three samples, which is the first.
fn best_of_filter(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("value: ")?;
    let (value, _) = after.split_once(' ')?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use quinn_proto::congestion::{Bbr, BbrConfig, Controller};

    use super::*;

    #[test]
    fn a_controller_is_read_to_its_last_field() {
        let mut bbr = Bbr::new(Arc::new(BbrConfig::default()), 1_452);
        bbr.on_sent(Instant::now(), 2_904, 1);
        let seen = View::default().look(&bbr, bbr.window(), 7).expect("a snapshot");
        let model = seen.bbr.expect("a model");
        assert_eq!((seen.state, seen.inflight, seen.cwnd), (State::Startup, 2_904, 240_000));
        assert_eq!((seen.delivered, seen.lost, model.min_rtt), (0, 7, None));
        assert_eq!((model.pacing_gain.as_percent(), model.max_bw.as_bytes_per_sec()), (288, 0));
    }

    #[test]
    fn what_leaves_with_an_ack_is_in_flight_after_it() {
        let mut view = View::default();
        let mut inflight = |acked: u64, sent: u64, at_ack: u64, lost: u64| {
            let text = format!(
                "Bbr {{ mode: ProbeBw, is_at_full_bandwidth: true, pacing_gain: 0.75, \
                 cwnd_gain: 2.0, prev_in_flight_count: {at_ack}, min_rtt: 9ms, \
                 exiting_quiescence: false, pacing_rate: 0, round_count: 1, bw_at_last_round: 1, \
                 round_wo_bw_gain: 3, max_bandwidth: Estimation {{ total_acked: {acked}, \
                 total_sent: {sent}, max_filter: MinMax {{ samples: [S {{ time: 1, value: 8 }}] }} }} }}"
            );
            let seen = view.look(&format_args!("{text}"), 0, lost).expect("a snapshot");
            assert_eq!(seen.state, State::ProbeBwDown);
            seen.inflight
        };
        assert_eq!(inflight(0, 5_000, 0, 0), 5_000);
        assert_eq!(inflight(1_000, 7_000, 4_000, 0), 6_000);
        assert_eq!(inflight(1_000, 7_000, 4_000, 500), 5_500, "a timer found a loss");
        assert_eq!(inflight(1_000, 7_100, 4_000, 500), 5_500, "an ACK");
        assert_eq!(inflight(1_000, 8_100, 4_000, 500), 6_500);
        assert_eq!(inflight(2_000, 8_100, 4_300, 800), 4_300, "the ACK's count has the loss");
    }

    #[test]
    fn another_text_is_an_error_that_names_the_field() {
        let error = View::default().look(&format_args!("Bbr {{ mode: Elsewhere }}"), 0, 0);
        let error = error.expect_err("none").to_string();
        assert!(error.contains("no readable field mode"), "{error}");
    }

    #[test]
    fn the_best_sample_of_a_filter_is_its_first() {
        let text = "MinMax { window: 10, samples: [MinMaxSample { time: 4, value: 120 }, \
                    MinMaxSample { time: 5, value: 80 }] }";
        assert_eq!(best_of_filter(text), Some(120));
    }
}
