//! Reasons for which a state was entered, from the snapshots before and after.

use fullpipe_cc::{BbrSnapshot, Duration, Snapshot, State};

use super::Truth;
use super::render::{bytes, mbit, ms};

/// About the size of a full packet: a snapshot does not tell it.
const FULL_PACKET: u64 = 1500;

/// The rounds without growth that end UP in the draft. With fewer an amendment of
/// `bbr3x` did.
const PLATEAU: u32 = 3;

/// The flavour with Swift's law, which ends Startup and UP by delays.
const SWIFT: &str = "bbr-swift";

/// The number of rounds at which it probes.
const SWIFT_PROBE_ROUNDS: u64 = 63;

/// A change of state.
pub(super) struct StateChange<'a> {
    /// Just before.
    pub(super) before: &'a Snapshot,
    /// Just after.
    pub(super) after: &'a Snapshot,
    /// Snapshot at the entry into the state that is left.
    pub(super) entered: &'a Snapshot,
    /// Duration of that state.
    pub(super) lasted: Duration,
}

/// Description of a flow's start.
pub(super) fn began(first: &Snapshot) -> String {
    match first.algorithm {
        "fixed" => "the flow begins, with a rate and no window".to_owned(),
        _ => format!("the flow begins, with a window of {}", bytes(first.cwnd)),
    }
}

/// Description of a handshake whose packets were lost.
pub(super) fn connected(tries: u32) -> String {
    format!(
        "its packets were lost: the first was sent {tries} times, and each time there was longer no answer"
    )
}

/// Reason why the state changed.
pub(super) fn changed(c: &StateChange<'_>, truth: &Truth) -> String {
    match (c.before.bbr, c.after.bbr) {
        (Some(before), Some(after)) => bbr(c, &before, &after, truth),
        _ => window(c),
    }
}

fn bbr(c: &StateChange<'_>, before: &BbrSnapshot, after: &BbrSnapshot, truth: &Truth) -> String {
    let inflight = bytes(c.after.inflight);
    match (c.before.state, c.after.state) {
        (State::Startup, State::Drain) => startup_ended(c, before, after, truth),
        (_, State::ProbeRtt) => {
            let rtt = before.min_rtt.map_or_else(String::new, |rtt| format!(" than {}", ms(rtt)));
            format!(
                "no round trip shorter{rtt} was seen for a while: look at the path without a queue"
            )
        }
        (State::ProbeRtt, _) => {
            let rtt = after.min_rtt.map_or_else(|| "nothing".to_owned(), ms);
            format!("200 ms and a round trip with little in flight are over; min_rtt is {rtt}")
        }
        (State::Drain, _) => {
            let rounds = after.round_count.saturating_sub(after.drain_start_round);
            // Only the draft's Drain gives up, after three rounds. Linux's does not, nor does
            // BBRv1's.
            if matches!(c.after.algorithm, "bbr3" | "bbr3x" | SWIFT) && rounds > 3 {
                format!(
                    "{inflight} are still in flight after {rounds} rounds: the bandwidth was overestimated"
                )
            } else {
                format!("the queue is empty: {inflight} in flight, a BDP is {}", bytes(after.bdp))
            }
        }
        (State::ProbeBwDown, State::ProbeBwCruise) => {
            let headroom = match after.inflight_longterm {
                Some(bound) => format!(
                    ", and the headroom under inflight_longterm of {} is free",
                    bytes(bound)
                ),
                None => String::new(),
            };
            format!(
                "the probe's queue is gone: {inflight} in flight, a BDP is {}{headroom}",
                bytes(after.bdp)
            )
        }
        (State::ProbeBwDown, State::ProbeBwRefill)
            if before.prev_probe_precautionary && !before.prev_probe_too_high =>
        {
            "the careful probe met no excess loss: probe again, without its limit".to_owned()
        }
        (_, State::ProbeBwRefill) => time_to_probe(c, after),
        (_, State::ProbeBwUp) => {
            "one round at the full rate has filled the pipe: now faster than it delivered"
                .to_owned()
        }
        (State::ProbeBwUp, State::ProbeBwDown) => probe_ended(c, before, after),
        (_, State::Startup) => {
            "the pipe was never full: go on looking for its bandwidth".to_owned()
        }
        (_, to) => format!("{} follows", to.name()),
    }
}

fn time_to_probe(c: &StateChange<'_>, after: &BbrSnapshot) -> String {
    let rounds = after.rounds_since_probe_up;
    // It counts from a random number on, so that it is 63 after 32 to 63 rounds.
    if c.after.algorithm == SWIFT && rounds >= SWIFT_PROBE_ROUNDS {
        return "time for a probe: 32 to 63 rounds since the last one, by chance, are over"
            .to_owned();
    }
    // The draft's 63 rounds, or as many as there are packets in a BDP.
    let window = after.bdp.min(c.before.cwnd) / FULL_PACKET;
    if rounds >= window.min(63) {
        return format!(
            "time for a probe: {rounds} rounds since the last one, as many as Reno would take"
        );
    }
    format!("time for a probe: the wait of {} is over", ms(after.bw_probe_wait))
}

fn startup_ended(
    c: &StateChange<'_>,
    before: &BbrSnapshot,
    after: &BbrSnapshot,
    truth: &Truth,
) -> String {
    let believed = format!(
        "max_bw is {}, the link carries {}",
        mbit(after.max_bw.as_bits_per_sec()),
        mbit(truth.carries_bps)
    );
    if before.inflight_longterm.is_none() && after.inflight_longterm.is_some() {
        let lost = match c.after.lost.saturating_sub(c.entered.lost) {
            0 => "too much was marked with CE".to_owned(),
            lost => format!("too much was lost in one round, {} since Startup began", bytes(lost)),
        };
        return format!("{lost}; {believed}");
    }
    if c.after.algorithm == SWIFT && after.full_bw_count < PLATEAU {
        return format!(
            "the pipe is full: the network took longer than its target for each packet of a round; {believed}"
        );
    }
    format!(
        "the pipe is full: three rounds brought no 25 % more than {}; {believed}",
        mbit(after.full_bw.as_bits_per_sec())
    )
}

fn probe_ended(c: &StateChange<'_>, before: &BbrSnapshot, after: &BbrSnapshot) -> String {
    let lost = c.after.lost.saturating_sub(c.entered.lost);
    // Swift's law ends a probe without a bound of the long term.
    if c.after.algorithm == SWIFT
        && after.prev_probe_too_high
        && after.inflight_longterm == before.inflight_longterm
    {
        let window =
            after.inflight_shortterm.map_or_else(String::new, |w| format!(", now {}", bytes(w)));
        return format!(
            "the network took longer than its target: the probe ends after {}, and the window shrinks{window}",
            ms(c.lasted)
        );
    }
    if after.prev_probe_too_high {
        let bound = after
            .inflight_longterm
            .map_or_else(String::new, |b| format!("; inflight_longterm is now {}", bytes(b)));
        return format!("the probe lost too much, {} in {}{bound}", bytes(lost), ms(c.lasted));
    }
    if after.prev_probe_precautionary {
        let bound = before.inflight_longterm.map_or_else(String::new, bytes);
        return format!(
            "{} in flight reached inflight_longterm of {bound}, where the probe before lost too much: stop before the losses",
            bytes(c.before.inflight)
        );
    }
    let has_others = is_behind_others(c, after);
    let plateau = match (after.full_bw_count, c.after.algorithm) {
        (0..PLATEAU, _) if has_others => {
            "packets waited longer than this probe makes them wait, so that others probe too"
        }
        (0..PLATEAU, _) => "1.25 BDP in flight made a queue, and a round of that brought no more",
        (_, "bbr3x" | "bbr3x-linux") => "three rounds of probing brought no more",
        _ => "three rounds of probing brought no 25 % more",
    };
    format!("{plateau}: the bandwidth is still {}", mbit(after.max_bw.as_bits_per_sec()))
}

/// True if the RTT is beyond what a flow alone makes it with 1.25 BDP: 1.5 times min_rtt, which is
/// the threshold of bbr3x on a path whose base RTT is min_rtt.
fn is_behind_others(c: &StateChange<'_>, after: &BbrSnapshot) -> bool {
    let rtts = c.after.latest_rtt.zip(after.min_rtt);
    rtts.is_some_and(|(rtt, least)| 2 * rtt.as_nanos() > 3 * least.as_nanos())
}

/// For algorithms that have a window and no model.
fn window(c: &StateChange<'_>) -> String {
    let (before, after) = (bytes(c.before.cwnd), bytes(c.after.cwnd));
    let lost = bytes(c.after.lost.saturating_sub(c.before.lost));
    match (c.before.state, c.after.state) {
        (_, State::Recovery) if c.after.lost > c.before.lost => {
            format!("{lost} were found lost: the window goes from {before} to {after}")
        }
        (_, State::Recovery) => {
            format!("congestion was marked: the window goes from {before} to {after}")
        }
        (State::Recovery, State::SlowStart) | (State::CongestionAvoidance, State::SlowStart) => {
            format!("persistent congestion: the window goes from {before} to {after}")
        }
        (State::Recovery, _) => {
            format!("what was in flight at the loss is acknowledged; the window is {after}")
        }
        (State::SlowStart, State::ConservativeSlowStart) => {
            let rtt =
                c.after.latest_rtt.map_or_else(String::new, |rtt| format!(", now {}", ms(rtt)));
            format!(
                "round trips became longer{rtt}: grow at a quarter of the pace to see whether it is a queue"
            )
        }
        (State::ConservativeSlowStart, State::SlowStart) => {
            "round trips are short again: it was no queue".to_owned()
        }
        (State::ConservativeSlowStart, State::CongestionAvoidance) => {
            format!(
                "round trips stayed long: slow start ends without a loss, at a window of {after}"
            )
        }
        (_, State::CongestionAvoidance) => {
            format!("the window of {after} has reached the slow-start threshold")
        }
        (_, to) => format!("{} follows", to.name()),
    }
}
