//! ProbeRTT, and the idleness that stands for it.

use fullpipe_cc::{Duration, Instant, State};

use super::fixture::{
    Corner, DATAGRAM, Fixture, GBIT, KBIT, Lab, MBIT, MS, Outcome, S, Span, Step, US,
};

/// ProbeRTT takes 5 s to come: at 10 Gbit/s a round trip of half a millisecond is enough of that.
const PATHS: [Corner; 6] = [
    (64 * KBIT, 500 * US),
    (64 * KBIT, S),
    (10 * GBIT, 500 * US),
    (10 * MBIT, S),
    (100 * MBIT, 200 * MS),
    (10 * MBIT, 40 * MS),
];

/// BBR.ProbeRTTDuration.
const DURATION: Duration = Duration::from_millis(200);

/// "Entering and Exiting PROBE_RTT".
pub(super) fn comes_and_goes(lab: &Lab<'_>) -> Outcome {
    let (mut lasted, mut got) = (Span::default(), Span::default());
    let corners = lab.corners(&PATHS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 2)?;
        comes(&mut fixture)?;
        lasted.add(goes(&mut fixture)?.as_nanos() as f64 / 1e6);
        let (before, time) = (fixture.received(), Duration::from_secs(2).max(fixture.rtt.times(3)));
        fixture.pass(time)?;
        let share = (fixture.received() - before) as f64 * 1e9 / time.as_nanos() as f64;
        let share = share / fixture.carries(fixture.rate);
        // At a second of round trip the next ProbeRTT is near already.
        fixture.check(5, share > 0.6, "data again at more than 60 % of the rate", share)?;
        got.add(100.0 * share);
    }
    Ok(format!(
        "5 s after the last lower RTT at {} corners, for {lasted:.0} ms; then {got:.0} % of the link",
        corners.len()
    ))
}

/// From the start until ProbeRTT comes in ProbeBW; wherever it comes, it is with the first ACK more
/// than 5 s after probe_rtt_min_delay was set.
fn comes(fixture: &mut Fixture<'_>) -> Step {
    let (mut stamp, limit) = (fixture.lowered, fixture.limit(300));
    let interval = fixture.version.probe_rtt_interval;
    let mut in_probe_bw = false;
    while !(in_probe_bw && fixture.state() == State::ProbeRtt) {
        in_probe_bw = fixture.is_in_probe_bw();
        fixture.step(2, "ProbeRTT in ProbeBW", limit)?;
        let (before, after) = (fixture.bbr_before(), fixture.bbr());
        let ended = fixture.before.state == State::ProbeRtt && fixture.state() != State::ProbeRtt;
        if fixture.is_ack() && fixture.before.state != State::ProbeRtt {
            let (entered, expired) =
                (fixture.state() == State::ProbeRtt, fixture.now() > stamp + interval);
            let time = fixture.now().since(stamp);
            let seen = format_args!("{time} after it");
            fixture.check(2, entered == expired, INTERVAL_OVER, seen)?;
        }
        let lower = fixture.lowest_delay(after) < fixture.lowest_delay(before);
        if ended || lower {
            stamp = fixture.now();
        }
    }
    fixture.check_pacing_gain(3, 100)?;
    let (seen, of_bdp) = (fixture.bbr().cwnd_gain(), fixture.version.probe_rtt_bdp_percent);
    // Version 1 sets the window and no gain.
    let ok = fixture.version.number == 1 || u64::from(seen.as_percent()) == of_bdp;
    fixture.check(3, ok, "a gain of 50 % on the BDP", seen.as_percent())?;
    let (cwnd, most) = (fixture.after.cwnd, window(fixture));
    fixture.check(3, cwnd <= most, "the window of ProbeRTT", format_args!("{cwnd} of {most}"))
}

/// The window in ProbeRTT: half a BDP, or 4 packets; in version 1 4 packets.
fn window(fixture: &Fixture<'_>) -> u64 {
    (fixture.bbr().bdp() * fixture.version.probe_rtt_bdp_percent / 100).max(4 * DATAGRAM)
}

const INTERVAL_OVER: &str = "ProbeRTT when the interval since the last lower RTT is over";

/// From ProbeRTT to its end: 200 ms and a round trip after C.inflight came down.
fn goes(fixture: &mut Fixture<'_>) -> Result<Duration, super::fixture::Broken> {
    let limit = fixture.limit(20);
    let (entered, mut down): (Instant, Option<(Instant, u64)>) = (fixture.now(), None);
    while fixture.state() == State::ProbeRtt {
        let most = window(fixture);
        fixture.step(4, "an end of ProbeRTT", limit)?;
        if !fixture.is_ack() {
            continue;
        }
        let round = fixture.bbr().round_count();
        if let Some((at, started)) = down {
            let due = fixture.now() > at + DURATION && round > started;
            let (time, rounds) = (fixture.now().since(at), round - started);
            let seen = format_args!("{time} and {rounds} rounds");
            let over = fixture.state() != State::ProbeRtt;
            fixture.check(4, over == due, "an end after 200 ms and a round trip", seen)?;
        } else if fixture.inflight_on_ack() <= most {
            down = Some((fixture.now(), round));
        }
    }
    // Version 1 begins its cycle of gains at a random place.
    let ok = match fixture.version.number {
        1 => fixture.is_in_probe_bw(),
        _ => fixture.state() == State::ProbeBwCruise,
    };
    fixture.check(5, ok, "CRUISE", "another state")?;
    let (before, after) = (fixture.bbr(), fixture.after.cwnd);
    let most = before.bdp().min(before.max_inflight());
    fixture.check_seen(5, after >= most, "the window of before", after)?;
    Ok(fixture.now().since(entered))
}

/// "Skipping PROBE_RTT Due to Application-Limited Sending".
pub(super) fn idleness_is_as_good(lab: &Lab<'_>) -> Outcome {
    let mut pace = Span::default();
    let corners = lab.corners(&PATHS)?;
    for &corner in &corners {
        let mut fixture = lab.fixture(corner, 2)?;
        fixture.to(1, State::ProbeBwCruise)?;
        fixture.pause();
        // Until the silence has begun, and then for longer than the interval.
        fixture.until(2, "nothing in flight", 20, |fixture| fixture.inflight() == 0)?;
        let state = fixture.state();
        fixture.check(
            2,
            fixture.is_in_probe_bw() || state == State::ProbeRtt,
            "ProbeBW",
            "another state",
        )?;
        fixture.pass(fixture.version.probe_rtt_interval + Duration::from_secs(1))?;
        fixture.check(3, fixture.inflight() == 0, "nothing in flight", fixture.inflight())?;
        fixture.resume();
        fixture.check(4, fixture.bbr().idle_restart(), "idle_restart", "it not")?;
        let bw = fixture.bbr().bw().as_bytes_per_sec() as f64;
        let rate = fixture.after.pacing_rate.map_or(0, |rate| rate.as_bytes_per_sec()) as f64 / bw;
        let ok = (rate - fixture.version.paced).abs() < 0.001;
        fixture.check(4, ok, "pacing at bw, a margin off", rate)?;
        pace.add(rate);
        let end = fixture.now() + fixture.rtt.times(3).max(Duration::from_secs(2));
        let mut acks = 0;
        while fixture.now() < end && acks < 100_000 {
            fixture.step(5, "ACKs", end + Duration::from_secs(10))?;
            acks += u64::from(fixture.is_ack());
            fixture.check(5, fixture.state() != State::ProbeRtt, "no ProbeRTT", "one")?;
            let ended = acks == 0 || !fixture.bbr().idle_restart();
            fixture.check(5, ended, "an end of idle_restart with the first ACK", "it later")?;
        }
        fixture.check(5, acks > 3, "data again", acks)?;
    }
    Ok(format!(
        "no ProbeRTT after 6 s of silence at {} corners, pacing {pace:.2} bw",
        corners.len()
    ))
}
