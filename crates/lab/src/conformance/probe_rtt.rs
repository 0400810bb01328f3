//! ProbeRTT, and the idleness that stands for it.

use fullpipe_cc::{Duration, Instant, State};

use super::bed::{Bed, Corner, DATAGRAM, GBIT, KBIT, Lab, MBIT, MS, Outcome, S, Span, Step, US};

/// ProbeRTT takes 5 s to come: at 10 Gbit/s a round trip of half a millisecond is enough of that.
const PATHS: [Corner; 6] = [
    (64 * KBIT, 500 * US),
    (64 * KBIT, S),
    (10 * GBIT, 500 * US),
    (10 * MBIT, S),
    (100 * MBIT, 200 * MS),
    (10 * MBIT, 40 * MS),
];

/// BBR.ProbeRTTInterval and BBR.ProbeRTTDuration.
const INTERVAL: Duration = Duration::from_secs(5);
const DURATION: Duration = Duration::from_millis(200);

/// "Entering and Exiting PROBE_RTT".
pub(super) fn comes_and_goes(lab: &Lab<'_>) -> Outcome {
    let (mut lasted, mut got) = (Span::default(), Span::default());
    for corner in PATHS {
        let mut bed = lab.bed(corner, 2)?;
        comes(&mut bed)?;
        lasted.add(goes(&mut bed)?.as_nanos() as f64 / 1e6);
        let (before, time) = (bed.received(), Duration::from_secs(2).max(bed.rtt.times(3)));
        bed.pass(time)?;
        let share = (bed.received() - before) as f64 * 1e9 / time.as_nanos() as f64;
        let share = share / bed.carries(bed.rate);
        // At a second of round trip the next ProbeRTT is near already.
        bed.check(5, share > 0.6, "data again at more than 60 % of the rate", share)?;
        got.add(100.0 * share);
    }
    Ok(format!(
        "5 s after the last lower RTT at {} corners, for {lasted:.0} ms; then {got:.0} % of the link",
        PATHS.len()
    ))
}

/// From the start until ProbeRTT comes in ProbeBW; wherever it comes, it is with the first ACK more than
/// 5 s after probe_rtt_min_delay was set.
fn comes(bed: &mut Bed<'_>) -> Step {
    let (mut stamp, limit) = (bed.now(), bed.limit(300));
    let mut in_probe_bw = false;
    while !(in_probe_bw && bed.state() == State::ProbeRtt) {
        in_probe_bw = bed.is_in_probe_bw();
        bed.step(2, "ProbeRTT in ProbeBW", limit)?;
        let (before, after) = (bed.bbr_before(), bed.bbr());
        let ended = bed.before.state == State::ProbeRtt && bed.state() != State::ProbeRtt;
        if bed.is_ack() && bed.before.state != State::ProbeRtt {
            let (entered, expired) = (bed.state() == State::ProbeRtt, bed.now() > stamp + INTERVAL);
            let seen = format_args!("{} after it", bed.now().since(stamp));
            bed.check(2, entered == expired, "ProbeRTT 5 s after the last lower RTT", seen)?;
        }
        let lower = after.probe_rtt_min_delay.unwrap_or(Duration::MAX)
            < before.probe_rtt_min_delay.unwrap_or(Duration::MAX);
        if ended || lower {
            stamp = bed.now();
        }
    }
    let bbr = bed.bbr();
    let gains = (bbr.pacing_gain.as_percent(), bbr.cwnd_gain.as_percent());
    bed.check(3, gains == (100, 50), "gains of 100 and 50 %", format_args!("{gains:?}"))?;
    let most = (bbr.bdp / 2).max(4 * DATAGRAM);
    bed.check(3, bed.after.cwnd <= most, "half a BDP, or 4 packets", bed.after.cwnd)
}

/// From ProbeRTT to its end: 200 ms and a round trip after C.inflight came down.
fn goes(bed: &mut Bed<'_>) -> Result<Duration, super::bed::Broken> {
    let limit = bed.limit(20);
    let (entered, mut down): (Instant, Option<(Instant, u64)>) = (bed.now(), None);
    while bed.state() == State::ProbeRtt {
        let most = (bed.bbr().bdp / 2).max(4 * DATAGRAM);
        bed.step(4, "an end of ProbeRTT", limit)?;
        if !bed.is_ack() {
            continue;
        }
        let round = bed.bbr().round_count;
        if let Some((at, started)) = down {
            let due = bed.now() > at + DURATION && round > started;
            let seen = format_args!("{} and {} rounds", bed.now().since(at), round - started);
            let over = bed.state() != State::ProbeRtt;
            bed.check(4, over == due, "an end after 200 ms and a round trip", seen)?;
        } else if bed.inflight_on_ack() <= most {
            down = Some((bed.now(), round));
        }
    }
    bed.check(5, bed.state() == State::ProbeBwCruise, "CRUISE", "another state")?;
    let (before, after) = (bed.bbr(), bed.after.cwnd);
    bed.check(5, after >= before.bdp.min(before.max_inflight), "the window of before", after)?;
    Ok(bed.now().since(entered))
}

/// "Skipping PROBE_RTT Due to Application-Limited Sending".
pub(super) fn idleness_is_as_good(lab: &Lab<'_>) -> Outcome {
    let mut pace = Span::default();
    for corner in PATHS {
        let mut bed = lab.bed(corner, 2)?;
        bed.to(1, State::ProbeBwCruise)?;
        bed.pause();
        // Until the silence has begun, and then for longer than the interval.
        bed.until(2, "nothing in flight", 20, |bed| bed.inflight() == 0)?;
        let state = bed.state();
        bed.check(2, bed.is_in_probe_bw() || state == State::ProbeRtt, "ProbeBW", "another state")?;
        bed.pass(INTERVAL + Duration::from_secs(1))?;
        bed.check(3, bed.inflight() == 0, "nothing in flight", bed.inflight())?;
        bed.resume();
        bed.check(4, bed.bbr().idle_restart, "idle_restart", "it not")?;
        let bw = bed.bbr().bw.as_bytes_per_sec() as f64;
        let rate = bed.after.pacing_rate.map_or(0, |rate| rate.as_bytes_per_sec()) as f64 / bw;
        bed.check(4, (rate - 0.99).abs() < 0.001, "pacing at 0.99 bw", rate)?;
        pace.add(rate);
        let end = bed.now() + bed.rtt.times(3).max(Duration::from_secs(2));
        let mut acks = 0;
        while bed.now() < end && acks < 100_000 {
            bed.step(5, "ACKs", end + Duration::from_secs(10))?;
            acks += u64::from(bed.is_ack());
            bed.check(5, bed.state() != State::ProbeRtt, "no ProbeRTT", "one")?;
            let ended = acks == 0 || !bed.bbr().idle_restart;
            bed.check(5, ended, "an end of idle_restart with the first ACK", "it later")?;
        }
        bed.check(5, acks > 3, "data again", acks)?;
    }
    Ok(format!("no ProbeRTT after 6 s of silence at {} corners, pacing {pace:.2} bw", PATHS.len()))
}
