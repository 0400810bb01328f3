//! Losses that were none.

use fullpipe_cc::{Duration, State};
use fullpipe_path::{ElementConfig, Probability, Selection};

use super::fixture::{
    Broken, Corner, DATAGRAM, Fixture, GBIT, KBIT, Lab, MBIT, MS, Outcome, Span, Step, US,
};
use super::model::Model;

/// Paths on which a fifth of half a round trip's packets suffices for the six ranges that end
/// Startup and the 2 % that end UP (below some 100 Mbit/s and 20 ms it does not), and no ProbeRTT
/// comes between loss and undo.
const PATHS: [Corner; 7] = [
    (10 * GBIT, 500 * US),
    (10 * GBIT, 100 * MS),
    (100 * MBIT, 200 * MS),
    (10 * GBIT, 10 * MS),
    (GBIT, 20 * MS),
    (100 * MBIT, 40 * MS),
    (100 * MBIT, 20 * MS),
];

/// The round trips at which UP comes between two ProbeRTTs: at a second none does.
const TIMED_OUT: [Corner; 8] = [
    (64 * KBIT, 100 * MS),
    (256 * KBIT, 20 * MS),
    (MBIT, 10 * MS),
    (10 * MBIT, 10 * MS),
    (10 * GBIT, 500 * US),
    (GBIT, 50 * MS),
    (100 * MBIT, 40 * MS),
    (100 * MBIT, 200 * MS),
];

/// A path whose reordering holds nothing back until it is told to.
fn reordering<'a>(lab: &Lab<'a>, corner: Corner, delay: Duration) -> Result<Fixture<'a>, Broken> {
    let packets = Selection::Random(Probability::ZERO);
    let element = ElementConfig::Reordering { packets, delay };
    let fixture = lab.bed_with(corner, 3, Some(element), None)?;
    fixture.need(2, "undo_state")?;
    Ok(fixture)
}

/// The bounds that a recovery may cut.
fn bounds(bbr: Model<'_>) -> [Option<u64>; 3] {
    let bw = bbr.bw_shortterm().map(|bw| bw.as_bytes_per_sec());
    [bw, bbr.inflight_shortterm(), bbr.inflight_longterm()]
}

/// Their saved values.
fn saved(bbr: Model<'_>) -> [Option<u64>; 3] {
    let bw = bbr.undo_bw_shortterm().map(|bw| bw.as_bytes_per_sec());
    [bw, bbr.undo_inflight_shortterm(), bbr.undo_inflight_longterm()]
}

/// True after the undo. Where undo_state is never `None` it shows by the state, which comes back
/// from another than the cycle brings it from.
fn is_undone(fixture: &Fixture<'_>, (state, back): (State, State)) -> Result<bool, Broken> {
    if fixture.is_exact {
        return Ok(fixture.bbr().undo_state().is_none());
    }
    fixture.check(3, fixture.state() != back || back == state, "an undo", "the next cycle")?;
    Ok(fixture.state() == state)
}

/// Follows the flow from the first loss to the end of all doubt: SaveStateUponLoss(), then
/// HandleSpuriousLossDetection(). `state` is the one that the losses end, `back` the one to return
/// to.
fn lost_and_undone(
    fixture: &mut Fixture<'_>,
    (state, back): (State, State),
    mut next: impl FnMut(&mut Fixture<'_>) -> Step,
) -> Step {
    let lost = fixture.after.lost;
    let limit = fixture.limit(20);
    while fixture.after.lost == lost {
        fixture.check(1, fixture.now() < limit, "packets marked lost", "none")?;
        next(fixture)?;
    }
    let before = fixture.bbr_before();
    let saved_now = saved(fixture.bbr());
    let ok = saved_now == bounds(before);
    let seen = format_args!("{saved_now:?} beside {:?}", bounds(before));
    fixture.check(2, ok, "the bounds of before the loss to be saved", seen)?;
    let (kept, cwnd) = (bounds(before), fixture.before.cwnd);
    while fixture.state() == state {
        fixture.check(2, fixture.now() < limit, "the losses to end the state", "it not")?;
        next(fixture)?;
        let ok = saved(fixture.bbr()) == kept;
        fixture.check(
            2,
            ok,
            "one snapshot an episode",
            format_args!("{:?}", saved(fixture.bbr())),
        )?;
    }
    let undo_state = fixture.bbr().undo_state();
    let seen = format_args!("{undo_state:?}");
    fixture.check(2, undo_state == Some(state), "an undo_state", seen)?;
    while !is_undone(fixture, (state, back))? {
        fixture.check(3, fixture.now() < limit, "an undo", "none")?;
        next(fixture)?;
    }
    let restored = bounds(fixture.bbr());
    let ok = restored
        .iter()
        .zip(kept)
        .all(|(now, then)| now.unwrap_or(u64::MAX) >= then.unwrap_or(u64::MAX));
    let seen = format_args!("{restored:?} beside {kept:?}");
    fixture.check(3, ok, "the bounds of before the loss to be restored", seen)?;
    // REFILL's window is a little below that of UP.
    let least = cwnd.min(fixture.bbr().max_inflight());
    let seen = format_args!("{} beside {least}", fixture.after.cwnd);
    fixture.check(3, fixture.after.cwnd >= least, "the window of before", seen)?;
    // REFILL takes a round trip, and gives UP back.
    let ok = fixture.state() == back || fixture.state() == state;
    fixture.check(4, ok, back.name(), "another state")
}

/// "Handling Spurious Fast Recovery".
pub(super) fn fast_recovery(lab: &Lab<'_>) -> Outcome {
    let mut late = Span::default();
    let corners = lab.corners(&PATHS)?;
    for &corner in &corners {
        // Late enough for the round in which Startup judges its losses to be over.
        let late_by = Duration::from_nanos(corner.1 * 1_500);
        let half = Duration::from_nanos(corner.1 * 500);
        for (state, back) in
            [(State::Startup, State::Startup), (State::ProbeBwUp, State::ProbeBwRefill)]
        {
            let mut fixture = reordering(lab, corner, late_by)?;
            fixture.until(1, "half a BDP in flight", 50, |b| {
                b.inflight() > b.rate.bytes_in(b.rtt) / 2
            })?;
            fixture.to(1, state)?;
            let lost = fixture.lost_packets();
            fixture.set_reordered(Selection::Random(Probability::new(0.2)?))?;
            let end = fixture.now() + half;
            fixture.until(1, "a reordering", 50, |fixture| fixture.now() >= end)?;
            fixture.set_reordered(Selection::Random(Probability::ZERO))?;
            let limit = fixture.limit(20);
            lost_and_undone(&mut fixture, (state, back), |fixture| {
                fixture.step(3, "an undo", limit)
            })?;
            late.add((fixture.lost_packets() - lost) as f64);
            fixture.to(4, if state == State::Startup { State::Drain } else { State::ProbeBwUp })?;
            let of_link = fixture.max_bw_share();
            fixture.check(4, of_link > 0.95, "max_bw at the link's rate", of_link)?;
        }
    }
    Ok(format!(
        "{late:.0} packets late at {} corners; Startup and UP were taken up again",
        corners.len()
    ))
}

/// "Handling Spurious RTO Recovery". QUIC's counterpart is persistent congestion (RFC 9002 section
/// 7.6): all that left in three probe timeouts is lost. An application that writes little keeps UP
/// going meanwhile.
pub(super) fn rto_recovery(lab: &Lab<'_>) -> Outcome {
    let mut windows = Span::default();
    let corners = lab.corners(&TIMED_OUT)?;
    for &corner in &corners {
        let rtt = Duration::from_micros(corner.1);
        let held = Duration::from_nanos((rtt + Duration::from_millis(30)).as_nanos() * 7 / 2);
        let mut fixture = reordering(lab, corner, held + rtt.times(2))?;
        fixture.to(1, State::ProbeBwUp)?;
        fixture.pause();
        for _ in 0..6 {
            fixture.trickle_on(1)?;
        }
        fixture.check(1, fixture.state() == State::ProbeBwUp, "UP", "another state")?;
        fixture.set_reordered(Selection::Every(1))?;
        let end = fixture.now() + held;
        while fixture.now() < end {
            fixture.trickle_on(1)?;
        }
        fixture.set_reordered(Selection::Random(Probability::ZERO))?;
        let mut least = u64::MAX;
        lost_and_undone(&mut fixture, (State::ProbeBwUp, State::ProbeBwRefill), |fixture| {
            fixture.trickle_on(3)?;
            least = least.min(fixture.after.cwnd);
            Ok(())
        })?;
        windows.add(least as f64 / DATAGRAM as f64);
        fixture.resume();
        fixture.to(4, State::ProbeBwUp)?;
    }
    Ok(format!(
        "cwnd down to {windows:.0} packets and back at {} corners; UP was taken up again",
        corners.len()
    ))
}
