//! Paths that are small, that change, and whose losses count.

use fullpipe_cc::{Duration, State};

use super::fixture::{
    Broken, Corner, DATAGRAM, Fixture, GBIT, KBIT, Lab, MBIT, MS, Outcome, S, Span, Step, US,
};
use super::probe_bw::set_long_term_bound;

/// BDPs of 4 to 1250 bytes: below a packet.
const SUB_PACKET: [Corner; 5] = [
    (64 * KBIT, 500 * US),
    (64 * KBIT, 100 * MS),
    (MBIT, MS),
    (MBIT, 10 * MS),
    (20 * MBIT, 500 * US),
];

/// "Correctly Managing Sub-Packet BDPs".
pub(super) fn sub_packet_bdp(lab: &Lab<'_>) -> Outcome {
    let (mut used, mut cwnd) = (Span::default(), Span::default());
    let corners = lab.corners(&SUB_PACKET)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 1)?;
        let bdp = fixture.rate.bytes_in(fixture.rtt);
        fixture.check(1, bdp < DATAGRAM, "a BDP below a packet", bdp)?;
        fixture.reach_probe_bw(2)?;
        let before = fixture.received();
        let time = Duration::from_secs(10);
        let link = fixture.carries(fixture.rate);
        fixture.step_for(4, time, |fixture| {
            let packets = fixture.after.cwnd as f64 / DATAGRAM as f64;
            fixture.check(3, packets >= 4.0, "4 packets at least", packets)?;
            let bbr = fixture.bbr();
            let paced =
                fixture.after.pacing_rate.map_or(0.0, |r| r.as_bytes_per_sec() as f64) / link;
            let gain = f64::from(bbr.pacing_gain().as_percent()) / 100.0;
            let ok = (paced / gain - fixture.version.paced).abs() < 0.07;
            fixture.check(
                4,
                ok,
                "a pacing rate of gain x 0.99 of the link, within 7 %",
                paced / gain,
            )
        })?;
        cwnd.add(fixture.after.cwnd as f64 / DATAGRAM as f64);
        let share = (fixture.received() - before) as f64 / 10.0 / link;
        fixture.check(4, share > 0.9, "more than 90 % of the link", share)?;
        used.add(100.0 * share);
    }
    Ok(format!("{used:.0} % of the link at {} corners, cwnd {cwnd:.0} packets", corners.len()))
}

/// From a tenth of these: the low rates where a round trip lets UP come between two ProbeRTTs.
const GROWING: [Corner; 6] = [
    (640 * KBIT, 100 * MS),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 10 * MS),
    (100 * MBIT, 40 * MS),
    (10 * MBIT, 10 * MS),
    (100 * MBIT, 200 * MS),
];

/// "Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached".
pub(super) fn ten_times_the_bandwidth(lab: &Lab<'_>) -> Outcome {
    let mut rounds = Span::default();
    let corners = lab.corners(&GROWING)?;
    for &corner in &corners {
        for bounded in [false, true] {
            let mut fixture = lab.fixture((corner.0 / 10, corner.1), 20)?;
            if bounded && !fixture.shows(3, "inflight_longterm") {
                continue;
            }
            fixture.to(1, State::ProbeBwCruise)?;
            if bounded {
                set_long_term_bound(&mut fixture)?;
                fixture.to(1, State::ProbeBwCruise)?;
            }
            fixture.set_rate(corner.0)?;
            fixture.to(3, State::ProbeBwUp)?;
            let (mut took, limit) = (0_u32, fixture.limit(60));
            while fixture.max_bw_share() < 0.9 {
                fixture.step(4, "0.9 of the new rate", limit)?;
                check_slope(&fixture)?;
                let probing = matches!(fixture.state(), State::ProbeBwRefill | State::ProbeBwUp);
                took += u32::from(probing && fixture.is_new_round());
            }
            // 1.25 a round trip makes ten in eleven, and a probe that ProbeRTT cuts short, or
            // inflight_longterm holds up, is followed by another.
            fixture.check(4, took < 40, "the new rate within 40 round trips of probing", took)?;
            rounds.add(f64::from(took));
        }
    }
    Ok(format!("0.9 of the new rate after {rounds} rounds of probing at {} corners", corners.len()))
}

/// Step 3: each round of a probe that uses inflight_longterm up takes half as many bytes for one
/// more packet of it, so that its growth doubles.
fn check_slope(fixture: &Fixture<'_>) -> Step {
    let (before, after) = (fixture.bbr_before(), fixture.bbr());
    if fixture.before.state != State::ProbeBwUp || fixture.state() != State::ProbeBwUp {
        return Ok(());
    }
    if !fixture.shows(3, "bw_probe_up_rounds") {
        return Ok(());
    }
    if after.bw_probe_up_rounds() == before.bw_probe_up_rounds() {
        return Ok(());
    }
    let doubled =
        after.bw_probe_up_rounds() == before.bw_probe_up_rounds() + 1 && fixture.is_new_round();
    fixture.check(
        3,
        doubled,
        "one doubling at the start of a round",
        after.bw_probe_up_rounds(),
    )?;
    let each = (fixture.before.cwnd >> before.bw_probe_up_rounds()).max(DATAGRAM);
    let per_inc = after.probe_up_acked_per_inc().unwrap_or(u64::MAX);
    let seen = format_args!("{per_inc} instead of {each}");
    // noq counts bytes for one byte more, which are whole packets for a packet.
    let unit = if fixture.is_exact { 1 } else { DATAGRAM };
    fixture.check(3, per_inc.abs_diff(each) < unit, "cwnd / 2^rounds for a packet more", seen)
}

/// To a tenth of these. The buffer, a BDP of before, is ten afterwards, and ProbeRTT, every 5 s,
/// cuts each probe short where it takes long to empty. At 640 kbit/s the 40 packets that every
/// buffer here has are more than the window: nothing is lost, which step 3 needs.
const SHRINKING: [Corner; 7] = [
    (10 * MBIT, 40 * MS),
    (10 * MBIT, 200 * MS),
    (10 * MBIT, S),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 10 * MS),
    (100 * MBIT, 40 * MS),
    (GBIT, 20 * MS),
];

/// "Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down".
pub(super) fn a_tenth_of_the_bandwidth(lab: &Lab<'_>) -> Outcome {
    let mut times = Span::default();
    let (mut lowest, mut cycles) = (Span::default(), Span::default());
    let corners = lab.corners(&SHRINKING)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 1)?;
        fixture.to(1, State::ProbeBwCruise)?;
        fixture.set_rate(corner.0 / 10)?;
        let (changed, full_round) = (fixture.now(), fixture.rtt.times(11));
        if fixture.shows(3, "bw_shortterm") {
            lowest.add(100.0 * adapts_short_term(&mut fixture)?);
        }
        let (mut ended, limit) = (0, fixture.limit(400));
        while fixture.max_bw_share() > 1.02 {
            fixture.step(4, "max_bw at the new rate", limit)?;
            let down =
                fixture.state() == State::ProbeBwDown && fixture.before.state != fixture.state();
            ended += u64::from(down);
        }
        fixture.check(
            4,
            fixture.max_bw_share() > 0.9,
            "max_bw at the new rate",
            fixture.max_bw_share(),
        )?;
        fixture.check(4, ended <= 3, "that within 2 cycles and what was left of one", ended)?;
        cycles.add(ended as f64);
        // A cycle: the longest bw_probe_wait, and the rounds of a probe and its DOWN.
        let (took, cycle) =
            (fixture.now().since(changed), full_round.times(5) + Duration::from_secs(3));
        fixture.check(4, took < cycle.times(3), "that within the time of 3 cycles", took)?;
        times.add(took.as_nanos() as f64 / 1e9);
    }
    Ok(format!(
        "bw_shortterm down to {lowest:.0} % before the next probe at {} corners, max_bw at the new \
         rate after {cycles} cycles, {times:.1} s",
        corners.len()
    ))
}

/// Step 3, from the change of the rate to the next REFILL, which forgets the short term: the share
/// of max_bw to which bw_shortterm came.
fn adapts_short_term(fixture: &mut Fixture<'_>) -> Result<f64, Broken> {
    let (start, limit) = (fixture.bbr(), fixture.limit(50));
    let (mut cuts, mut first, mut last) = (0, None, start.max_bw());
    while fixture.state() != State::ProbeBwRefill || cuts == 0 {
        fixture.step(3, "bw_shortterm", limit)?;
        let bbr = fixture.bbr();
        let Some(bw) =
            bbr.bw_shortterm().filter(|bw| Some(*bw) != fixture.bbr_before().bw_shortterm())
        else {
            continue;
        };
        // What was delivered of late, up to the margin; and never less than 0.7 of before: of
        // max_bw at the first cut since the bounds were forgotten.
        last = fixture.bbr_before().bw_shortterm().unwrap_or(bbr.max_bw());
        let least = last.as_bytes_per_sec() * 7 / 10;
        let ok = (least..=last.as_bytes_per_sec()).contains(&bw.as_bytes_per_sec());
        fixture.check(3, ok, "a bound down, by 30 % at most", format_args!("{last} -> {bw}"))?;
        fixture.check(3, bbr.bw() == bbr.max_bw().min(bw), "bw at that bound", bbr.bw())?;
        (cuts, last) = (cuts + 1, bw);
        first.get_or_insert(bbr.round_count() - start.round_count());
    }
    fixture.check(3, fixture.lost_packets() > 0, "losses", "none")?;
    let first = first.unwrap_or(u64::MAX);
    fixture.check(3, first < 10, "the first cut within 10 rounds", first)?;
    let share = last.as_bytes_per_sec() as f64 / start.max_bw().as_bytes_per_sec() as f64;
    fixture.check(3, share < 0.75, "bw_shortterm under 75 % of max_bw", share)?;
    Ok(share)
}

/// Paths on which an UP comes between two ProbeRTTs, and lasts for more rounds than the detection
/// of a loss.
const LOSING: [Corner; 5] = [
    (MBIT, 200 * MS),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 10 * MS),
    (GBIT, 100 * MS),
    (100 * MBIT, 40 * MS),
];

/// "Handling Loss During PROBE_UP After inflight_longterm is Set".
pub(super) fn loss_in_up(lab: &Lab<'_>) -> Outcome {
    let mut left = Span::default();
    let corners = lab.corners(&LOSING)?;
    for &corner in &corners {
        left.add(loses_in_up(&mut lab.fixture(corner, 4)?)?);
    }
    Ok(format!(
        "DOWN at once at {} corners, inflight_longterm at {left:.2} of before",
        corners.len()
    ))
}

/// The share of inflight_longterm that a loss in UP left.
fn loses_in_up(fixture: &mut Fixture<'_>) -> Result<f64, Broken> {
    set_long_term_bound(fixture)?;
    // The next probe is precautionary; the one after it stays.
    let shows_caution = fixture.shows(2, "prev_probe_too_high");
    for _ in 0..12 {
        fixture.until(2, "a probe without caution", 400, |fixture| {
            fixture.state() == State::ProbeBwUp
                && !(shows_caution && fixture.bbr().prev_probe_too_high())
        })?;
        fixture.set_loss(0.2, 4)?;
        let limit = fixture.limit(20);
        while fixture.state() == State::ProbeBwUp {
            fixture.step(3, "an end of UP", limit)?;
        }
        fixture.set_loss(0.0, 4)?;
        let (before, after) = (fixture.bbr_before(), fixture.bbr());
        if fixture.state() == State::ProbeRtt {
            continue;
        }
        let down = matches!(fixture.state(), State::ProbeBwDown | State::ProbeBwCruise);
        fixture.check(5, down, "DOWN on the ACK that tells of the loss", "another state")?;
        fixture.check_seen(4, after.prev_probe_too_high(), "prev_probe_too_high", "it not")?;
        fixture.check(
            4,
            !after.full_bw_now(),
            "an end by loss and not by a plateau",
            "full_bw_now",
        )?;
        let undo = after.undo_state();
        fixture.check(
            4,
            undo == Some(State::ProbeBwUp),
            "undo_state UP",
            format_args!("{undo:?}"),
        )?;
        let [was, is] = [before, after].map(|b| b.inflight_longterm().unwrap_or(u64::MAX));
        let least = before.bdp().min(fixture.before.cwnd) * 7 / 10;
        let seen = format_args!("{was} -> {is}, {least} at least");
        fixture.check(
            4,
            is < was && is + 1 >= least,
            "a lower bound, not under 0.7 of the target",
            seen,
        )?;
        return Ok(is as f64 / was as f64);
    }
    fixture.check(5, false, "an UP that ends by loss", "ProbeRTT in each")?;
    Ok(0.0)
}

/// Limits the application in REFILL and in the UP after it; `low` takes the rates of the samples,
/// in per cent of BBR.max_bw. False if ProbeRTT came, which may begin a new period of BBR.max_bw.
fn limited_probe(fixture: &mut Fixture<'_>, low: &mut Span) -> Result<bool, Broken> {
    fixture.to(1, State::ProbeBwRefill)?;
    fixture.pause();
    let (max_bw, mut rounds) = (fixture.bbr().max_bw(), 0);
    let mut latest = Span::default();
    while fixture.state() == State::ProbeBwRefill {
        rounds += 1;
        fixture.check(4, rounds < 20, "UP after the round of REFILL", "REFILL still")?;
        fixture.trickle_on(2)?;
        if fixture.state() == State::ProbeRtt {
            return Ok(false);
        }
        let seen = fixture.bbr().max_bw();
        fixture.check(3, seen == max_bw, "max_bw as it was", seen)?;
    }
    fixture.check(4, fixture.state() == State::ProbeBwUp, "UP", "another state")?;
    for _ in 0..9 {
        fixture.trickle_on(3)?;
        if fixture.state() == State::ProbeRtt {
            return Ok(false);
        }
        let (seen, rate) = (fixture.bbr().max_bw(), fixture.bbr().bw_latest());
        fixture.check(3, seen == max_bw, "max_bw as it was", seen)?;
        latest.add(100.0 * rate.as_bytes_per_sec() as f64 / max_bw.as_bytes_per_sec() as f64);
    }
    fixture.check_limited(2)?;
    let rate = fixture.bbr().bw_latest();
    fixture.check(3, rate < max_bw, "samples below max_bw", rate)?;
    low.join(latest);
    Ok(true)
}

/// "Handling Application-Limited Sending During PROBE_REFILL".
pub(super) fn limited_in_refill(lab: &Lab<'_>) -> Outcome {
    let (mut low, mut share) = (Span::default(), Span::default());
    let corners = lab.corners(&LOSING)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 2)?;
        let mut cycles = 1;
        while !limited_probe(&mut fixture, &mut low)? {
            cycles += 1;
            fixture.check(4, cycles < 10, "a probe without a ProbeRTT in it", "one in each")?;
            fixture.resume();
        }
        fixture.resume();
        fixture.until(4, "DOWN", 100, |fixture| fixture.state() == State::ProbeBwDown)?;
        fixture.to(4, State::ProbeBwUp)?;
        fixture.to(4, State::ProbeBwDown)?;
        let of_link = fixture.max_bw_share();
        let ok = (0.97..1.02).contains(&of_link);
        fixture.check(4, ok, "max_bw at the link's rate in the next cycles", of_link)?;
        share.add(100.0 * of_link);
    }
    Ok(format!(
        "max_bw kept beside samples of {low:.0} % at {} corners; {share:.1} % of the link later",
        corners.len()
    ))
}
