//! The cycle of ProbeBW: how UP and DOWN end.

use fullpipe_cc::{Duration, Snapshot, State};

use super::bed::{
    Bed, Broken, Corner, DATAGRAM, GBIT, KBIT, Lab, MBIT, MS, Outcome, Span, Step, US,
};

/// ProbeRTT comes every 5 s and ends UP and DOWN for a reason of its own: where a round trip with its
/// queue takes a second, as five packets at 64 kbit/s do, in every cycle. A gigabyte a round trip, 10
/// Gbit/s and a second, would take long.
const PATHS: [Corner; 6] = [
    (256 * KBIT, 500 * US),
    (MBIT, 200 * MS),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 10 * MS),
    (GBIT, 100 * MS),
    (10 * MBIT, 40 * MS),
];

/// Cycles in which to wait for one that no ProbeRTT disturbs.
const CYCLES: u32 = 12;

/// "Exiting PROBE_UP on Bandwidth Plateau".
pub(super) fn up_ends_on_a_plateau(lab: &Lab<'_>) -> Outcome {
    let (mut rounds, mut inflight) = (Span::default(), Span::default());
    for corner in PATHS {
        let mut bed = lab.bed(corner, 3)?;
        let mut cycle = 0;
        let took = loop {
            bed.to(1, State::ProbeBwUp)?;
            if let Some(took) = plateau_in_up(&mut bed)? {
                break took;
            }
            cycle += 1;
            bed.check(5, cycle < CYCLES, "an UP without a ProbeRTT in it", "none")?;
        };
        rounds.add(took as f64);
        inflight.add(bed.inflight() as f64 / bed.bbr().bdp as f64);
        bed.check(2, bed.lost_packets() == 0, "no loss", bed.lost_packets())?;
    }
    Ok(format!("after {rounds} rounds at {} corners", PATHS.len()))
}

/// Follows UP to its end; `None` when that was ProbeRTT.
fn plateau_in_up(bed: &mut Bed<'_>) -> Result<Option<u64>, Broken> {
    let gains = (bed.bbr().pacing_gain.as_percent(), bed.bbr().cwnd_gain.as_percent());
    bed.check(1, gains == (125, 225), "gains of 125 and 225 %", format_args!("{gains:?}"))?;
    let (start, limit) = (bed.bbr().round_count, bed.limit(40));
    while bed.state() == State::ProbeBwUp {
        bed.step(4, "an end of UP", limit)?;
        let (before, after) = (bed.bbr_before(), bed.bbr());
        if bed.state() == State::ProbeRtt {
            return Ok(None);
        }
        bed.check(2, !bed.before.app_limited, "a sender with data", "it app-limited")?;
        if bed.is_new_round() && after.full_bw_count > 0 {
            let (rate, baseline) = (after.bw_latest, before.full_bw);
            let grown = rate.as_bytes_per_sec() * 100 >= baseline.as_bytes_per_sec() * 125;
            // DOWN begins with the loss signals reset.
            let known = bed.state() == State::ProbeBwUp;
            let seen = format_args!("{rate} beside {baseline}");
            bed.check(3, !grown || !known, "a rate under 125 % of the baseline", seen)?;
            let counted = after.full_bw_count == before.full_bw_count + 1;
            bed.check(4, counted, "one more round without growth", after.full_bw_count)?;
        }
        let over = bed.state() != State::ProbeBwUp;
        let seen =
            format_args!("{} rounds, full_bw_now {}", after.full_bw_count, after.full_bw_now);
        let plateau = after.full_bw_count == 3 && after.full_bw_now;
        bed.check(4, over == plateau, "an end with the third round without growth", seen)?;
    }
    check_down(bed, 5)?;
    Ok(Some(bed.bbr().round_count - start))
}

/// That DOWN has begun. With nothing queued it may be over within the same ACK; so may the wait for
/// the next probe, of as many rounds as the BDP has packets, where that is one.
fn check_down(bed: &Bed<'_>, step: u32) -> Step {
    let short = bed.state() == State::ProbeBwRefill && bed.bbr().bdp < 2 * DATAGRAM;
    let down = short || matches!(bed.state(), State::ProbeBwDown | State::ProbeBwCruise);
    bed.check(step, down, "DOWN", "another state")
}

/// "Exiting PROBE_UP on Loss When Application-Limited".
pub(super) fn up_ends_on_loss_when_application_limited(lab: &Lab<'_>) -> Outcome {
    let mut lost = Span::default();
    for corner in PATHS {
        let mut bed = lab.bed(corner, 3)?;
        let before = loop {
            if let Some(before) = loses_in_limited_up(&mut bed)? {
                break before;
            }
            // ProbeRTT came first: another cycle leaves more time before it.
            bed.set_loss(0.0, 3)?;
            bed.resume();
            bed.check(1, bed.bbr().round_count < 10_000, "an UP without a ProbeRTT in it", "none")?;
        };
        let bbr = bed.bbr();
        let (lost_now, delivered) =
            (bed.after.lost - before.lost, bed.after.delivered - before.delivered);
        let share = lost_now as f64 / (lost_now + delivered) as f64;
        bed.check(3, share > 0.02, "more than 2 % lost", share)?;
        lost.add(share * 100.0);
        bed.check(4, bbr.prev_probe_too_high, "prev_probe_too_high", "it not")?;
        bed.check(4, !bbr.full_bw_now, "an end by loss and not by a plateau", "full_bw_now")?;
        check_down(&bed, 5)?;
        // What little an application sends says nothing of what the path can hold.
        let bound = bbr.inflight_longterm;
        bed.check(
            5,
            bound.is_none(),
            "no long-term bound from limited samples",
            format_args!("{bound:?}"),
        )?;
    }
    Ok(format!("with {lost:.0} % lost at {} corners, inflight_longterm left alone", PATHS.len()))
}

/// Limits the application in UP, then loses packets until UP ends: the snapshot from before the
/// losses, or `None` when it was ProbeRTT that ended it.
fn loses_in_limited_up(bed: &mut Bed<'_>) -> Result<Option<Snapshot>, Broken> {
    bed.to(1, State::ProbeBwUp)?;
    bed.pause();
    // Until all that is in flight left after the application fell silent.
    for _ in 0..6 {
        bed.trickle_on(2)?;
    }
    if bed.state() == State::ProbeRtt {
        return Ok(None);
    }
    bed.check(2, bed.after.app_limited, "an application-limited flow", "one that is not")?;
    bed.check(2, bed.state() == State::ProbeBwUp, "UP", "another state")?;
    let before = bed.after;
    bed.set_loss(0.3, 3)?;
    for _ in 0..60 {
        bed.trickle_on(4)?;
        match bed.state() {
            State::ProbeBwUp => {}
            State::ProbeRtt => return Ok(None),
            _ => return Ok(Some(before)),
        }
    }
    bed.check(4, false, "an end of UP within 20 rounds of loss", "none")?;
    Ok(None)
}

/// "Exiting PROBE_DOWN on Inflight".
pub(super) fn down_ends_on_inflight(lab: &Lab<'_>) -> Outcome {
    let mut rounds = Span::default();
    for corner in PATHS {
        let mut bed = lab.bed(corner, 3)?;
        rounds.add(drained_down(&mut bed, |bed| bed.to(1, State::ProbeBwUp))? as f64);
    }
    // The same under a long-term bound, which a lossy probe leaves behind.
    for corner in [(100 * MBIT, 40 * MS), (GBIT, 10 * MS)] {
        let mut bed = lab.bed(corner, 3)?;
        rounds.add(drained_down(&mut bed, set_long_term_bound)? as f64);
        let bound = bed.bbr().inflight_longterm;
        bed.check(3, bound.is_some(), "a long-term bound", "none")?;
    }
    Ok(format!("on the very ACK at {} corners, after {rounds} rounds", PATHS.len() + 2))
}

/// A probe that loses a packet in five, which sets inflight_longterm.
pub(super) fn set_long_term_bound(bed: &mut Bed<'_>) -> Step {
    bed.to(1, State::ProbeBwUp)?;
    bed.set_loss(0.2, 3)?;
    bed.until(1, "inflight_longterm", 20, |bed| bed.bbr().inflight_longterm.is_some())?;
    bed.set_loss(0.0, 3)
}

/// Follows DOWN from after `lead` to CRUISE: the rounds it took.
fn drained_down(bed: &mut Bed<'_>, lead: impl Fn(&mut Bed<'_>) -> Step) -> Result<u64, Broken> {
    for _ in 0..CYCLES {
        lead(bed)?;
        bed.until(1, "an end of UP", 100, |bed| bed.state() != State::ProbeBwUp)?;
        if bed.state() == State::ProbeRtt {
            continue;
        }
        check_down(bed, 1)?;
        let (start, limit) = (bed.bbr().round_count, bed.limit(100));
        while bed.state() == State::ProbeBwDown {
            let gain = bed.bbr().pacing_gain.as_percent();
            bed.check(2, gain == 90, "a pacing gain of 90 %", gain)?;
            bed.step(5, "an end of DOWN", limit)?;
            if !bed.is_ack() {
                continue;
            }
            let bound = bed.bbr().inflight_longterm;
            let headroom =
                bound.map_or(u64::MAX, |v| (v - (v * 15 / 100).max(DATAGRAM)).max(4 * DATAGRAM));
            let target = bed.inflight_1(bed.bbr().max_bw).min(headroom);
            let inflight = bed.inflight_on_ack();
            let seen = format_args!("{inflight} of {target} bytes in flight");
            let cruise = bed.state() == State::ProbeBwCruise;
            let time = bed.state() == State::ProbeBwRefill;
            let ok = cruise == (inflight <= target) || time || bed.state() == State::ProbeRtt;
            bed.check(4, ok, "CRUISE on the ACK that reaches both bounds", seen)?;
        }
        if bed.state() == State::ProbeBwCruise {
            return Ok(bed.bbr().round_count - start);
        }
    }
    bed.check(5, false, "CRUISE", "ProbeRTT or REFILL in every cycle")?;
    Ok(0)
}

/// "Exiting PROBE_DOWN After Max Time".
pub(super) fn down_ends_after_its_longest_time(lab: &Lab<'_>) -> Outcome {
    let mut waits = Span::default();
    // A queue outlasts bw_probe_wait of 2 s where a round trip is long; where it is short, the 63
    // rounds of "Time Scale for Bandwidth Probing" are the longest time.
    for corner in [
        (100 * MBIT, 100 * MS),
        (10 * GBIT, 500 * US),
        (MBIT, 100 * MS),
        (GBIT, 50 * MS),
        (100 * MBIT, 10 * MS),
    ] {
        let mut bed = lab.bed(corner, 30)?;
        waits.add(waited_in_down(&mut bed)?.as_nanos() as f64 / 1e9);
    }
    Ok(format!("DOWN to REFILL after {waits:.1} s at 5 corners"))
}

fn waited_in_down(bed: &mut Bed<'_>) -> Result<Duration, Broken> {
    let full = bed.rate.as_bits_per_sec();
    for _ in 0..CYCLES {
        bed.to(1, State::ProbeBwUp)?;
        bed.to(1, State::ProbeBwDown)?;
        // With the 10 % of the text a gain of 0.9 and the margin still drain 1 % a round trip.
        bed.set_rate(full / 100 * 85)?;
        let (entered, limit) = (bed.now(), bed.limit(100));
        while bed.state() == State::ProbeBwDown {
            bed.step(4, "an end of DOWN", limit)?;
            if !bed.is_ack() {
                continue;
            }
            let bbr = bed.bbr();
            let waited = bed.now().since(entered);
            let before = bed.bbr_before();
            let packets = before.bdp.min(bed.before.cwnd) / DATAGRAM;
            let rounds = before.rounds_since_probe_up + u64::from(bed.is_new_round());
            let due = waited > before.bw_probe_wait || rounds >= packets.clamp(1, 63);
            let ok = due == (bed.state() == State::ProbeBwRefill) || bed.state() == State::ProbeRtt;
            let seen = format_args!("{waited} of {}, {rounds} rounds", bbr.bw_probe_wait);
            bed.check(3, ok, "REFILL when bw_probe_wait or the rounds are over", seen)?;
        }
        match bed.state() {
            State::ProbeBwRefill => return Ok(bed.now().since(entered)),
            State::ProbeRtt => {}
            _ => bed.check(4, false, "REFILL straight from DOWN", "CRUISE between")?,
        }
        // ProbeRTT came first: let the model recover, and try the next cycle.
        bed.set_rate(full)?;
        bed.pass(Duration::from_secs(12))?;
    }
    bed.check(4, false, "REFILL", "ProbeRTT in every DOWN")?;
    Ok(Duration::ZERO)
}
