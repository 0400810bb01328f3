//! The cycle of ProbeBW: how UP and DOWN end.

use fullpipe_cc::{Duration, State};

use super::fixture::{
    Broken, Corner, DATAGRAM, Fixture, GBIT, KBIT, Lab, MBIT, MS, Outcome, Span, Step, US,
};
use super::model::Seen;

/// ProbeRTT comes every 5 s and ends UP and DOWN for a reason of its own: where a round trip with
/// its queue takes a second, as five packets at 64 kbit/s do, in every cycle. A gigabyte a round
/// trip, 10 Gbit/s and a second, would take long.
const PATHS: [Corner; 6] = [
    (256 * KBIT, 500 * US),
    (MBIT, 200 * MS),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 10 * MS),
    (GBIT, 100 * MS),
    (10 * MBIT, 40 * MS),
];

/// Cycles in which to wait for one that no ProbeRTT disturbs.
const CYCLES: u32 = 40;

/// "Exiting PROBE_UP on Bandwidth Plateau".
pub(super) fn up_ends_on_a_plateau(lab: &Lab<'_>) -> Outcome {
    let (mut rounds, mut inflight) = (Span::default(), Span::default());
    let corners = lab.corners(&PATHS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 3)?;
        let mut cycle = 0;
        let took = loop {
            fixture.to(1, State::ProbeBwUp)?;
            if let Some(took) = plateau_in_up(&mut fixture)? {
                break took;
            }
            cycle += 1;
            fixture.check(5, cycle < CYCLES, "an UP without a ProbeRTT in it", "none")?;
        };
        rounds.add(took as f64);
        inflight.add(fixture.inflight() as f64 / fixture.bbr().bdp() as f64);
        fixture.check(2, fixture.lost_packets() == 0, "no loss", fixture.lost_packets())?;
    }
    Ok(format!("after {rounds} rounds at {} corners", corners.len()))
}

/// Follows UP to its end; `None` when that was ProbeRTT.
fn plateau_in_up(fixture: &mut Fixture<'_>) -> Result<Option<u64>, Broken> {
    fixture.check_gains(1, fixture.version.up)?;
    let (start, limit) = (fixture.bbr().round_count(), fixture.limit(40));
    while fixture.state() == State::ProbeBwUp {
        fixture.step(4, "an end of UP", limit)?;
        let (before, after) = (fixture.bbr_before(), fixture.bbr());
        if fixture.state() == State::ProbeRtt {
            return Ok(None);
        }
        fixture.check_seen(
            2,
            !fixture.before.app_limited(),
            "a sender with data",
            "it app-limited",
        )?;
        if fixture.is_new_round() && after.full_bw_count() > 0 {
            let (rate, baseline) = (after.bw_latest(), before.full_bw());
            let grown = rate.as_bytes_per_sec() * 100 >= baseline.as_bytes_per_sec() * 125;
            // DOWN begins with the loss signals reset.
            let known = fixture.state() == State::ProbeBwUp;
            let seen = format_args!("{rate} beside {baseline}");
            fixture.check(3, !grown || !known, "a rate under 125 % of the baseline", seen)?;
            let counted = after.full_bw_count() == before.full_bw_count() + 1;
            fixture.check(4, counted, "one more round without growth", after.full_bw_count())?;
        }
        let over = fixture.state() != State::ProbeBwUp;
        let seen =
            format_args!("{} rounds, full_bw_now {}", after.full_bw_count(), after.full_bw_now());
        let plateau = after.full_bw_count() == 3 && after.full_bw_now();
        fixture.check(4, over == plateau, "an end with the third round without growth", seen)?;
    }
    check_down(fixture, 5)?;
    Ok(Some(fixture.bbr().round_count() - start))
}

/// Checks that DOWN has begun. With nothing queued it may be over within the same ACK; so may the
/// wait for the next probe, of as many rounds as the BDP has packets, where that is one.
fn check_down(fixture: &Fixture<'_>, step: u32) -> Step {
    let short = fixture.state() == State::ProbeBwRefill && fixture.bbr().bdp() < 2 * DATAGRAM;
    let down = short || matches!(fixture.state(), State::ProbeBwDown | State::ProbeBwCruise);
    fixture.check(step, down, "DOWN", "another state")
}

/// "Exiting PROBE_UP on Loss When Application-Limited".
pub(super) fn up_ends_on_loss_when_application_limited(lab: &Lab<'_>) -> Outcome {
    let mut lost = Span::default();
    let corners = lab.corners(&PATHS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 3)?;
        // In version 1 what is in flight ends the phase.
        fixture.need(4, "full_bw_now")?;
        let before = loop {
            if let Some(before) = loses_in_limited_up(&mut fixture)? {
                break before;
            }
            // ProbeRTT came first: another cycle leaves more time before it.
            fixture.set_loss(0.0, 3)?;
            fixture.resume();
            fixture.check(
                1,
                fixture.bbr().round_count() < 10_000,
                "an UP without a ProbeRTT in it",
                "none",
            )?;
        };
        let bbr = fixture.bbr();
        let (lost_now, delivered) =
            (fixture.after.lost - before.lost, fixture.after.delivered - before.delivered);
        let share = lost_now as f64 / (lost_now + delivered) as f64;
        fixture.check(3, share > 0.02, "more than 2 % lost", share)?;
        lost.add(share * 100.0);
        fixture.check_seen(4, bbr.prev_probe_too_high(), "prev_probe_too_high", "it not")?;
        fixture.check(
            4,
            !bbr.full_bw_now(),
            "an end by loss and not by a plateau",
            "full_bw_now",
        )?;
        check_down(&fixture, 5)?;
        // What little an application sends says nothing of what the path can hold.
        let bound = bbr.inflight_longterm();
        fixture.check(
            5,
            bound.is_none(),
            "no long-term bound from limited samples",
            format_args!("{bound:?}"),
        )?;
    }
    Ok(format!("with {lost:.0} % lost at {} corners, inflight_longterm left alone", corners.len()))
}

/// Limits the application in UP, then loses packets until UP ends: the snapshot from before the
/// losses, or `None` when it was ProbeRTT that ended it.
fn loses_in_limited_up<'a>(fixture: &mut Fixture<'a>) -> Result<Option<Seen<'a>>, Broken> {
    fixture.to(1, State::ProbeBwUp)?;
    fixture.pause();
    // Until all that is in flight left after the application fell silent.
    for _ in 0..6 {
        fixture.trickle_on(2)?;
    }
    if fixture.state() == State::ProbeRtt {
        return Ok(None);
    }
    fixture.check_limited(2)?;
    fixture.check(2, fixture.state() == State::ProbeBwUp, "UP", "another state")?;
    let before = fixture.after;
    fixture.set_loss(0.3, 3)?;
    for _ in 0..60 {
        fixture.trickle_on(4)?;
        match fixture.state() {
            State::ProbeBwUp => {}
            State::ProbeRtt => return Ok(None),
            _ => return Ok(Some(before)),
        }
    }
    fixture.check(4, false, "an end of UP within 20 rounds of loss", "none")?;
    Ok(None)
}

/// "Exiting PROBE_DOWN on Inflight".
pub(super) fn down_ends_on_inflight(lab: &Lab<'_>) -> Outcome {
    let mut rounds = Span::default();
    let corners = lab.corners(&PATHS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 3)?;
        rounds.add(drained_down(&mut fixture, |fixture| fixture.to(1, State::ProbeBwUp))? as f64);
    }
    // The same under a long-term bound, which a lossy probe leaves behind.
    for corner in lab.corners(&[(100 * MBIT, 40 * MS), (GBIT, 10 * MS)])? {
        let mut fixture = lab.fixture(corner, 3)?;
        if !fixture.shows(3, "inflight_longterm") {
            break;
        }
        rounds.add(drained_down(&mut fixture, set_long_term_bound)? as f64);
        let bound = fixture.bbr().inflight_longterm();
        fixture.check(3, bound.is_some(), "a long-term bound", "none")?;
    }
    Ok(format!("on the very ACK at {} corners, after {rounds} rounds", corners.len() + 2))
}

/// A probe that loses a packet in five, which sets inflight_longterm.
pub(super) fn set_long_term_bound(fixture: &mut Fixture<'_>) -> Step {
    fixture.to(1, State::ProbeBwUp)?;
    fixture.set_loss(0.2, 3)?;
    fixture
        .until(1, "inflight_longterm", 20, |fixture| fixture.bbr().inflight_longterm().is_some())?;
    fixture.set_loss(0.0, 3)
}

/// Follows DOWN from after `lead` to CRUISE: the rounds it took.
fn drained_down(
    fixture: &mut Fixture<'_>,
    lead: impl Fn(&mut Fixture<'_>) -> Step,
) -> Result<u64, Broken> {
    for _ in 0..CYCLES {
        lead(fixture)?;
        fixture.until(1, "an end of UP", 100, |fixture| fixture.state() != State::ProbeBwUp)?;
        if fixture.state() == State::ProbeRtt {
            continue;
        }
        check_down(fixture, 1)?;
        let (start, limit) = (fixture.bbr().round_count(), fixture.limit(100));
        while fixture.state() == State::ProbeBwDown {
            fixture.check_pacing_gain(2, fixture.version.down_pacing_percent)?;
            fixture.step(5, "an end of DOWN", limit)?;
            if !fixture.is_ack() {
                continue;
            }
            let bound = match fixture.shows(3, "inflight_longterm") {
                true => fixture.bbr().inflight_longterm(),
                false => None,
            };
            let headroom =
                bound.map_or(u64::MAX, |v| (v - (v * 15 / 100).max(DATAGRAM)).max(4 * DATAGRAM));
            let target = fixture.inflight_1(fixture.bbr().max_bw()).min(headroom);
            let inflight = fixture.inflight_on_ack();
            let seen = format_args!("{inflight} of {target} bytes in flight");
            let cruise = fixture.state() == State::ProbeBwCruise;
            let time = fixture.state() == State::ProbeBwRefill;
            let ok = cruise == (inflight <= target) || time || fixture.state() == State::ProbeRtt;
            fixture.check(4, ok, "CRUISE on the ACK that reaches both bounds", seen)?;
        }
        if fixture.state() == State::ProbeBwCruise {
            return Ok(fixture.bbr().round_count() - start);
        }
    }
    fixture.check(5, false, "CRUISE", "ProbeRTT or REFILL in every cycle")?;
    Ok(0)
}

/// "Exiting PROBE_DOWN After Max Time".
pub(super) fn down_ends_after_its_longest_time(lab: &Lab<'_>) -> Outcome {
    let mut waits = Span::default();
    // A queue outlasts bw_probe_wait of 2 s where a round trip is long; where it is short, the 63
    // rounds of "Time Scale for Bandwidth Probing" are the longest time.
    let corners = lab.corners(&[
        (100 * MBIT, 100 * MS),
        (10 * GBIT, 500 * US),
        (MBIT, 100 * MS),
        (GBIT, 50 * MS),
        (100 * MBIT, 10 * MS),
    ])?;
    for corner in &corners {
        let mut fixture = lab.fixture(*corner, 30)?;
        waits.add(waited_in_down(&mut fixture)?.as_nanos() as f64 / 1e9);
    }
    Ok(format!("DOWN to REFILL after {waits:.1} s at {} corners", corners.len()))
}

fn waited_in_down(fixture: &mut Fixture<'_>) -> Result<Duration, Broken> {
    let full = fixture.rate.as_bits_per_sec();
    for _ in 0..CYCLES {
        fixture.to(1, State::ProbeBwUp)?;
        fixture.to(1, State::ProbeBwDown)?;
        // With the 10 % of the text a gain of 0.9 and the margin still drain 1 % a round trip.
        fixture.set_rate(full / 100 * 85)?;
        let (entered, limit) = (fixture.now(), fixture.limit(100));
        while fixture.state() == State::ProbeBwDown {
            fixture.step(4, "an end of DOWN", limit)?;
            if !fixture.is_ack() {
                continue;
            }
            let bbr = fixture.bbr();
            let waited = fixture.now().since(entered);
            let before = fixture.bbr_before();
            let packets = before.bdp().min(fixture.before.cwnd) / DATAGRAM;
            let rounds = before.rounds_since_probe_up() + u64::from(fixture.is_new_round());
            let due = waited > before.bw_probe_wait() || rounds >= packets.clamp(1, 63);
            let ok = due == (fixture.state() == State::ProbeBwRefill)
                || fixture.state() == State::ProbeRtt;
            let seen = format_args!("{waited} of {}, {rounds} rounds", bbr.bw_probe_wait());
            fixture.check(3, ok, "REFILL when bw_probe_wait or the rounds are over", seen)?;
        }
        match fixture.state() {
            State::ProbeBwRefill => return Ok(fixture.now().since(entered)),
            State::ProbeRtt => {}
            _ => fixture.check(4, false, "REFILL straight from DOWN", "CRUISE between")?,
        }
        // ProbeRTT came first: let the model recover, and try the next cycle.
        fixture.set_rate(full)?;
        fixture.pass(Duration::from_secs(12))?;
    }
    fixture.check(4, false, "REFILL", "ProbeRTT in every DOWN")?;
    Ok(Duration::ZERO)
}
