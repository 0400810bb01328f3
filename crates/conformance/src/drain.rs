//! Drain, and how it ends.

use fullpipe_cc::State;

use super::fixture::{Broken, Corner, Fixture, GBIT, KBIT, Lab, MBIT, MS, Outcome, Span, US};

/// ProbeRTT comes every 5 s. At 64 kbit/s, or with a round trip of a second, Startup's queue makes
/// a round of 2 s and more, and ProbeRTT falls into every Drain. A gigabyte a round trip, 10 Gbit/s
/// and a second, is left to Startup's first case, for its time.
const PATHS: [Corner; 7] = [
    (256 * KBIT, 500 * US),
    (MBIT, 500 * US),
    (MBIT, 200 * MS),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 100 * MS),
    (GBIT, 100 * MS),
    (10 * MBIT, 40 * MS),
];

/// "Exiting DRAIN Based on Inflight".
pub(super) fn on_inflight(lab: &Lab<'_>) -> Outcome {
    let mut rounds = Span::default();
    let corners = lab.corners(&PATHS)?;
    for &corner in &corners {
        rounds.add(without_probe_rtt(lab, corner, 3, drains_to_inflight)? as f64);
    }
    Ok(format!("on the very ACK at {} corners, after {rounds} rounds", corners.len()))
}

/// The rounds that Drain took.
fn drains_to_inflight(fixture: &mut Fixture<'_>) -> Result<u64, Broken> {
    fixture.to(1, State::Drain)?;
    fixture.check_pacing_gain(2, fixture.version.drain_pacing_percent)?;
    let (start, limit) = (fixture.bbr().round_count(), fixture.limit(20));
    while fixture.state() == State::Drain {
        fixture.step(4, "an end of Drain", limit)?;
        if fixture.state() == State::ProbeRtt {
            return Ok(0);
        }
        let (inflight, target) =
            (fixture.inflight_on_ack(), fixture.inflight_1(fixture.bbr_before().bw()));
        let seen = format_args!("{inflight} of {target} bytes in flight");
        let over = fixture.state() != State::Drain;
        let reached = fixture.is_ack() && inflight <= target;
        fixture.check(4, over == reached, "an end on the ACK that reaches Inflight(1.0)", seen)?;
    }
    let took = fixture.bbr().round_count() - start;
    fixture.check(4, took <= 3, "an end before its longest time", took)?;
    fixture.check(4, fixture.is_in_probe_bw(), "ProbeBW", "another state")?;
    Ok(took)
}

/// ProbeRTT comes every 5 s: where a round trip takes long, it may fall into Drain and end it for a
/// reason of its own. A Startup that begins with some rounds of an idle application makes it fall
/// elsewhere.
fn without_probe_rtt<T>(
    lab: &Lab<'_>,
    corner: Corner,
    buffer_bdp: u64,
    case: impl Fn(&mut Fixture<'_>) -> Result<T, Broken>,
) -> Result<T, Broken> {
    let mut fixture = lab.fixture(corner, buffer_bdp)?;
    for idle_rounds in [0, 2, 4, 6, 8] {
        fixture = lab.fixture(corner, buffer_bdp)?;
        fixture.pause();
        for _ in 0..idle_rounds {
            fixture.trickle(1)?;
        }
        fixture.resume();
        let done = case(&mut fixture)?;
        if fixture.state() != State::ProbeRtt {
            return Ok(done);
        }
    }
    fixture.check(4, false, "a Drain without a ProbeRTT in it", "one in each of five")?;
    case(&mut fixture)
}

/// Paths that hold more than the four packets under which no target falls.
const WIDE: [Corner; 5] = [
    (MBIT, 100 * MS),
    (10 * GBIT, 500 * US),
    (10 * GBIT, 100 * MS),
    (GBIT, 5 * MS),
    (10 * MBIT, 40 * MS),
];

/// "Exiting DRAIN Based on Time".
pub(super) fn on_time(lab: &Lab<'_>) -> Outcome {
    let mut above = Span::default();
    let corners = lab.corners(&WIDE)?;
    for &corner in &corners {
        above.add(without_probe_rtt(lab, corner, 100, gives_up)?);
    }
    Ok(format!("after 3 rounds at {} corners, with {above:.1} BDP in flight", corners.len()))
}

/// The BDPs in flight when Drain ended.
fn gives_up(fixture: &mut Fixture<'_>) -> Result<f64, Broken> {
    fixture.to(1, State::Drain)?;
    let start = fixture.bbr().drain_start_round();
    let ok = start == fixture.bbr().round_count();
    fixture.check(4, ok, "drain_start_round at this round", start)?;
    // The text takes 10 %: then a gain of a half still drains within a round. At less than half
    // the rate it drains nothing.
    fixture.set_rate(fixture.rate.as_bits_per_sec() * 45 / 100)?;
    let limit = fixture.limit(40);
    let mut above = 0.0;
    while fixture.state() == State::Drain {
        fixture.step(5, "an end of Drain", limit)?;
        if fixture.state() == State::ProbeRtt {
            return Ok(above);
        }
        let (inflight, bdp) =
            (fixture.inflight_on_ack(), fixture.inflight_1(fixture.bbr_before().bw()));
        let seen = format_args!("{inflight} of {bdp}");
        fixture.check(3, inflight > bdp, "more than Inflight(1.0) in flight", seen)?;
        let rounds = fixture.bbr().round_count() - start;
        let ok = (fixture.state() == State::Drain) == (rounds <= 3);
        fixture.check(5, ok, "an end with the fourth round", rounds)?;
        above = inflight as f64 / bdp as f64;
    }
    fixture.check(5, fixture.is_in_probe_bw(), "ProbeBW", "another state")?;
    Ok(above)
}
