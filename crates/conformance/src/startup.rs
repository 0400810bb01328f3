//! Startup, and how it ends.

use fullpipe_cc::{Duration, State};

use super::fixture::{
    Broken, CORNERS, Corner, Fixture, GBIT, KBIT, Lab, MBIT, MS, Outcome, S, Span, Step, US,
};

/// Growth that says that the pipe is not full yet, in per cent.
const GROWTH: u64 = 125;

/// "Exiting STARTUP on Bandwidth Plateau".
pub(super) fn plateau(lab: &Lab<'_>) -> Outcome {
    let mut share = Span::default();
    let corners = lab.corners(&CORNERS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 3)?;
        fixture.check(1, fixture.state() == State::Startup, "Startup", "another state")?;
        fixture.check_gains(1, fixture.version.startup)?;
        let (limit, mut undisturbed) = (fixture.limit(300), true);
        while !fixture.bbr().full_bw_reached() {
            fixture.step(4, "full_bw_reached", limit)?;
            undisturbed &= fixture.state() != State::ProbeRtt;
            check_plateau_round(&fixture, undisturbed)?;
        }
        let (bbr, before) = (fixture.bbr(), fixture.bbr_before());
        fixture.check(4, bbr.full_bw_count() == 3, "full_bw_count of 3", bbr.full_bw_count())?;
        fixture.check_seen(
            4,
            bbr.full_bw_now() && !before.full_bw_now(),
            "full_bw_now, just now",
            "it not",
        )?;
        let step = (fixture.before.state, fixture.after.state);
        let expected = (State::Startup, State::Drain);
        fixture.check(5, step == expected, "from Startup to Drain", format_args!("{step:?}"))?;
        // At 64 kbit/s a sample is a few packets long, and one that is delayed for its ACK
        // shortens or stretches it.
        let slack = if corner.0 < MBIT { 0.06 } else { 0.02 };
        let of_link = fixture.max_bw_share();
        let ok = (of_link - 1.0).abs() < slack;
        fixture.check(3, ok, "max_bw within 2 % of the link's rate (6 % at 64 kbit/s)", of_link)?;
        share.add(100.0 * of_link);
    }
    Ok(format!(
        "full_bw_reached after 3 rounds at {} corners; max_bw {share:.1} % of the link",
        corners.len()
    ))
}

/// Steps 2 to 4 of the plateau, for an event: what full_bw and its count made of a round. A
/// ProbeRTT disturbs: at 64 kbit/s Startup lasts longer than its interval. It marks its samples as
/// application-limited, which count no round, and shifts the rounds of the loss signals.
fn check_plateau_round(fixture: &Fixture<'_>, undisturbed: bool) -> Step {
    let (before, after) = (fixture.bbr_before(), fixture.bbr());
    if fixture.before.state != State::Startup {
        return Ok(());
    }
    if !fixture.is_new_round() {
        let same =
            after.full_bw_count() == before.full_bw_count() && after.full_bw() == before.full_bw();
        return fixture.check(4, same, "one look at the rate a round", "one within a round");
    }
    let grown = |rate: fullpipe_cc::Rate| {
        rate.as_bytes_per_sec() * 100 >= before.full_bw().as_bytes_per_sec() * GROWTH
    };
    let limited = fixture.after.app_limited() && undisturbed && fixture.is_past_handshake();
    fixture.check_seen(2, !limited, "a sender with data", "it app-limited")?;
    if after.full_bw() == before.full_bw() && after.full_bw_count() == before.full_bw_count() {
        // The first round left before there was data, so to speak: its samples count as limited.
        let known = undisturbed && after.round_count() > 2 && fixture.is_past_handshake();
        return fixture.check(4, !known, "a look at the rate each round", "none");
    }
    if after.full_bw_count() == 0 {
        return fixture.check(4, grown(after.full_bw()), "a baseline 25 % higher", after.full_bw());
    }
    let counted = after.full_bw_count() == before.full_bw_count() + 1;
    fixture.check(4, counted, "one more round without growth", after.full_bw_count())?;
    // Version 1 looks at the filter and not at the rate of this round.
    let rate = if fixture.version.number == 1 { after.max_bw() } else { after.bw_latest() };
    fixture.check(
        3,
        !undisturbed || !grown(rate),
        "a delivery rate under 125 % of the baseline when the round counts",
        format_args!("{rate} beside {}", before.full_bw()),
    )
}

/// Six ranges must be lost within a round trip, of a flow that the application keeps at a third of
/// the rate and at one loss in ten: that takes a pipe of 200 packets. 64 kbit/s have 5 in a second.
const LOSSY: [Corner; 5] = [
    (10 * GBIT, 500 * US),
    (10 * GBIT, 100 * MS),
    (100 * MBIT, 40 * MS),
    (GBIT, 100 * MS),
    (10 * MBIT, S),
];

/// "Exiting STARTUP on Loss When Application-Limited".
pub(super) fn loss_when_application_limited(lab: &Lab<'_>) -> Outcome {
    let mut rate = Span::default();
    let corners = lab.corners(&LOSSY)?;
    for &corner in &corners {
        let mut fixture = limited_in_startup(lab, corner)?;
        fixture.set_loss(0.1, 3)?;
        let (delivered, lost) = (fixture.after.delivered, fixture.after.lost);
        for _ in 0..8 * TICKS {
            tick(&mut fixture, 4)?;
            if fixture.bbr().full_bw_reached() {
                break;
            }
        }
        let (before, after) = (fixture.bbr_before(), fixture.bbr());
        fixture.check(
            5,
            after.full_bw_reached(),
            "full_bw_reached within 8 rounds of loss",
            "it not",
        )?;
        let (delivered, lost) = (fixture.after.delivered - delivered, fixture.after.lost - lost);
        let share = 100.0 * lost as f64 / (delivered + lost) as f64;
        fixture.check(3, share > 2.0, "more than 2 % lost", share)?;
        rate.add(share);
        let count = after.full_bw_count();
        fixture.check(4, count < 3, "an end by loss and not by a plateau", count)?;
        let bound = after.bdp().max(before.inflight_latest());
        let set = after.inflight_longterm().is_some_and(|v| v.abs_diff(bound) <= bound / 4);
        let seen = format_args!("{:?} beside {bound}", after.inflight_longterm());
        fixture.check(
            4,
            set,
            "inflight_longterm at the larger of BDP and inflight_latest",
            seen,
        )?;
        let undo = after.undo_state();
        fixture.check(
            4,
            undo == Some(State::Startup),
            "undo_state Startup",
            format_args!("{undo:?}"),
        )?;
        fixture.check(5, after.full_bw_now(), "full_bw_now", "it not")?;
        // An application that sends little has nothing to drain: Drain may end in the same ACK.
        let drained = after.drain_start_round() == after.round_count();
        fixture.check(5, drained, "Drain to begin in this round", after.drain_start_round())?;
        let ok = fixture.before.state == State::Startup && fixture.state() != State::Startup;
        fixture.check(5, ok, "out of Startup in this ACK", "it not")?;
    }
    // Either criterion alone is not enough: a fifth of the packets lost, in four ranges a round
    // trip, and a few losses in many ranges.
    let mut fixture = limited_in_startup(lab, (GBIT, 100 * MS))?;
    let ranges = [(1.0, 1), (0.0, TICKS / 4 - 1)].repeat(12);
    for (probability, ticks) in ranges.into_iter().chain([(0.0, 2 * TICKS), (0.005, 8 * TICKS)]) {
        fixture.set_loss(probability, 5)?;
        for _ in 0..ticks {
            tick(&mut fixture, 4)?;
            let seen = fixture.lost_packets();
            fixture.check(
                4,
                !fixture.bbr().full_bw_reached(),
                "no end by four ranges or by 0.5 %",
                seen,
            )?;
        }
    }
    fixture.check(4, fixture.lost_packets() > 50, "losses all the same", fixture.lost_packets())?;
    Ok(format!(
        "out of Startup with {rate:.1} % lost at {} corners; not with four ranges, not with 0.5 %",
        corners.len()
    ))
}

/// Ticks of the application in a round trip.
const TICKS: u64 = 20;

/// A flow in Startup whose samples are application-limited, and have been for a round trip.
fn limited_in_startup<'a>(lab: &Lab<'a>, corner: Corner) -> Result<Fixture<'a>, Broken> {
    let mut fixture = lab.fixture(corner, 2)?;
    // Version 1 has no end of Startup by loss.
    fixture.need(4, "inflight_longterm")?;
    fixture.until(1, "half a BDP in flight", 50, |b| b.inflight() > b.rate.bytes_in(b.rtt) / 2)?;
    fixture.check(1, fixture.state() == State::Startup, "Startup", "another state")?;
    fixture.pause();
    for _ in 0..2 * TICKS {
        tick(&mut fixture, 2)?;
    }
    fixture.check_limited(2)?;
    fixture.check(2, fixture.state() == State::Startup, "Startup", "another state")?;
    Ok(fixture)
}

/// A twentieth of a round trip, in which the application writes a third of what the link carries;
/// it ends when full_bw_reached changes.
fn tick(fixture: &mut Fixture<'_>, step: u32) -> Step {
    let time = Duration::from_nanos(fixture.rtt.as_nanos() / TICKS);
    let (reached, end) = (fixture.bbr().full_bw_reached(), fixture.now() + time);
    fixture.write(fixture.rate.bytes_in(time) / 3);
    while fixture.next_event().is_some_and(|at| at <= end) {
        fixture.step(step, "the application's next write", end + time)?;
        if fixture.bbr().full_bw_reached() != reached {
            return Ok(());
        }
    }
    fixture.pass(end.since(fixture.now()))
}

/// "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss".
pub(super) fn never_when_application_limited(lab: &Lab<'_>) -> Outcome {
    let corners = lab.corners(&CORNERS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 3)?;
        fixture.pause();
        for _ in 0..60 {
            fixture.trickle(2)?;
            // ProbeRTT may come in between: it gives Startup back.
            let stays = matches!(fixture.state(), State::Startup | State::ProbeRtt);
            fixture.check(3, stays, "Startup for as long as the flow is limited", "its end")?;
            let count = fixture.bbr().full_bw_count();
            fixture.check(3, count == 0, "no round without growth counted", count)?;
        }
        fixture.check_limited(2)?;
        fixture.check(3, !fixture.bbr().full_bw_reached(), "no full pipe", "full_bw_reached")?;
    }
    let mut rounds = Span::default();
    let far = lab.corners(&PROBE_RTT_FAR)?;
    for &corner in &far {
        let mut fixture = lab.fixture(corner, 3)?;
        // In version 1 what is in flight ends the phase.
        if !fixture.shows(3, "full_bw_now") {
            break;
        }
        fixture.to(1, State::ProbeBwUp)?;
        fixture.pause();
        let start = fixture.bbr().round_count();
        let mut seen = 0;
        while fixture.state() == State::ProbeBwUp && seen < 60 {
            seen = fixture.bbr().round_count() - start;
            fixture.trickle(2)?;
        }
        let ok = matches!(fixture.state(), State::ProbeBwUp | State::ProbeRtt);
        fixture.check(3, ok, "UP for as long as the flow is limited", "its end")?;
        fixture.check(3, seen > 4, "more rounds than a plateau takes", seen)?;
        rounds.add(seen as f64);
    }
    Ok(format!(
        "60 limited rounds in Startup at {} corners, {rounds} in UP at {}",
        corners.len(),
        far.len()
    ))
}

/// ProbeRTT comes every 5 s and ends UP: where a round trip takes a second, before a plateau could.
const PROBE_RTT_FAR: [Corner; 5] = [
    (64 * KBIT, 500 * US),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 10 * MS),
    (100 * MBIT, 20 * MS),
    (10 * MBIT, 40 * MS),
];

/// A gigabyte a round trip, 10 Gbit/s and a second, would only take long.
const SLOW_STARTS: [Corner; 6] = [
    (64 * KBIT, 500 * US),
    (64 * KBIT, S),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 100 * MS),
    (GBIT, 100 * MS),
    (10 * MBIT, 40 * MS),
];

/// "Entering and Exiting PROBE_RTT During STARTUP".
pub(super) fn probe_rtt_within_startup(lab: &Lab<'_>) -> Outcome {
    let corners = lab.corners(&SLOW_STARTS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 3)?;
        fixture.pause();
        let limit = fixture.limit(100);
        while fixture.state() == State::Startup {
            let ok = fixture.now() < limit;
            fixture.check(1, ok, "ProbeRTT in a Startup of more than 5 s", "none")?;
            fixture.trickle_on(1)?;
        }
        fixture.check(1, fixture.state() == State::ProbeRtt, "ProbeRTT", "another state")?;
        fixture.check(
            1,
            !fixture.bbr().full_bw_reached(),
            "no full pipe yet",
            "full_bw_reached",
        )?;
        while fixture.state() == State::ProbeRtt {
            fixture.check(2, fixture.now() < limit, "an end of ProbeRTT", "none")?;
            fixture.trickle_on(2)?;
        }
        fixture.check(3, fixture.state() == State::Startup, "Startup again", "another state")?;
        fixture.check_gains(3, fixture.version.startup)?;
        // It goes on searching, and finds.
        fixture.resume();
        fixture.until(3, "full_bw_reached", 300, |fixture| fixture.bbr().full_bw_reached())?;
        let share = fixture.max_bw_share();
        fixture.check(3, share > 0.94, "max_bw at the link's rate in the end", share)?;
    }
    Ok(format!("ProbeRTT gave Startup back at {} corners; then the link was found", corners.len()))
}
