//! ACKs that come in bursts.

use fullpipe_cc::{Duration, Instant, State};
use fullpipe_path::{ElementConfig, QueueLimit};

use super::fixture::{
    Broken, Corner, DATAGRAM, Fixture, GBIT, KBIT, Lab, MBIT, MS, Outcome, S, Span, Step, US,
};
use super::model::Seen;

/// Paths and, in round trips, the silence between two bursts of ACKs.
const BURSTY: [(Corner, f64); 7] = [
    ((64 * KBIT, 500 * US), 1.0),
    ((10 * GBIT, 500 * US), 1.0),
    ((10 * GBIT, 10 * MS), 1.0),
    ((GBIT, 20 * MS), 0.5),
    ((100 * MBIT, 40 * MS), 1.0),
    ((10 * MBIT, 100 * MS), 1.5),
    ((MBIT, 200 * MS), 1.0),
];

/// And more for Startup. At a second's round trip CRUISE has two or three bursts, and the silence
/// in which it ends takes a fifth of what is measured of it.
const FAR: [(Corner, f64); 3] =
    [((64 * KBIT, S), 1.0), ((10 * MBIT, S), 1.0), ((100 * MBIT, S), 1.0)];

/// Those that the subject's stack can run.
fn bursty_paths<'a>(
    lab: &Lab<'_>,
    all: impl Iterator<Item = &'a (Corner, f64)>,
) -> Vec<(Corner, f64)> {
    all.filter_map(|(corner, silence)| Some((lab.corner(*corner)?, *silence))).collect()
}

fn bursty<'a>(lab: &Lab<'a>, (corner, silence): (Corner, f64)) -> Result<Fixture<'a>, Broken> {
    let interval = Duration::from_nanos((corner.1 as f64 * 1e3 * silence) as u64);
    let burst = QueueLimit::Packets(u64::MAX);
    let acks = ElementConfig::Aggregation { interval, burst, keep_one_in: 1 };
    lab.bed_with(corner, 8, None, Some(acks))
}

/// BBR.extra_acked by the words of the draft's section of that name.
struct ExtraAcked {
    /// Once the pipe was full, the interval ends when ACKs are ahead of the estimate by less than a
    /// sixteenth, unless the window was full: fullpipe's rule.
    is_tolerant: bool,
    start: Instant,
    acked: u64,
    /// The largest sample of each round.
    rounds: Vec<(u64, u64)>,
    most: u64,
}

impl ExtraAcked {
    fn new(begin: Instant, is_tolerant: bool) -> Self {
        Self { is_tolerant, start: begin, acked: 0, rounds: Vec::new(), most: 0 }
    }

    /// Follows an ACK.
    fn take(&mut self, now: Instant, before: &Seen<'_>, after: &Seen<'_>) {
        let (was, is) = (before.bbr(), after.bbr());
        let newly_acked = after.delivered - before.delivered;
        let mut expected = was.bw().bytes_in(now.since(self.start));
        let has_room = was.full_bw_reached() && !after.is_cwnd_limited;
        let margin = if self.is_tolerant && has_room { expected / 16 } else { 0 };
        if self.acked <= expected + margin {
            (self.acked, self.start, expected) = (0, now, 0);
        }
        self.acked += newly_acked;
        let extra = (self.acked - expected).min(before.cwnd);
        let window = if was.full_bw_reached() { 10 } else { 1 };
        let round = is.round_count();
        self.rounds.retain(|(at, _)| at + window > round);
        self.rounds.push((round, extra));
        self.most = self.rounds.iter().map(|(_, extra)| *extra).max().unwrap_or(0);
        if self.rounds.len() > 10_000 {
            self.rounds = vec![(round, self.most)];
        }
    }
}

/// The rules that the controller may follow: the pseudo-code's, and fullpipe's.
struct Rules(Vec<ExtraAcked>);

impl Rules {
    /// From the beginning, the handshake included.
    fn new(fixture: &Fixture<'_>) -> Self {
        let begin = fixture.handshake.first().map_or(fixture.now(), |(at, _)| *at);
        let mut rules = Self([false, true].map(|tolerant| ExtraAcked::new(begin, tolerant)).into());
        for pair in fixture.handshake.windows(2) {
            rules.take(pair[1].0, &pair[0].1, &pair[1].1);
        }
        rules
    }

    /// Follows an event; false if it acknowledged nothing.
    fn take(&mut self, now: Instant, before: &Seen<'_>, after: &Seen<'_>) -> bool {
        let is_ack = after.delivered > before.delivered;
        if is_ack {
            self.0.iter_mut().for_each(|rule| rule.take(now, before, after));
        }
        is_ack
    }

    /// Follows an event; checks what came of it. A rule that was broken once is out.
    fn follow(&mut self, fixture: &Fixture<'_>, step: u32) -> Step {
        if !self.take(fixture.now(), &fixture.before, &fixture.after) {
            return Ok(());
        }
        if !fixture.is_exact && !fixture.is_past_handshake() {
            // noq takes its three number spaces for one, and the first ACKs for others.
            return Ok(());
        }
        let seen = fixture.bbr().extra_acked();
        let most = self.0[0].most;
        if self.0.iter().any(|rule| rule.most == seen) {
            self.0.retain(|rule| rule.most == seen);
            return Ok(());
        }
        let text = format_args!("{seen} instead of {most}");
        fixture.check_seen(step, false, "extra_acked as the draft computes it", text)
    }
}

/// "Achieving Expected STARTUP Bandwidth on a Link With Aggregation".
pub(super) fn startup(lab: &Lab<'_>) -> Outcome {
    let (mut share, mut window) = (Span::default(), Span::default());
    let paths = bursty_paths(lab, BURSTY.iter().chain(&FAR));
    for &path in &paths {
        let mut fixture = bursty(lab, path)?;
        let (mut extra, limit) = (Rules::new(&fixture), fixture.limit(100));
        let mut widest: f64 = 0.0;
        while !fixture.bbr().full_bw_reached() {
            fixture.step(4, "full_bw_reached", limit)?;
            extra.follow(&fixture, 3)?;
            widest = widest.max(fixture.after.cwnd as f64 / fixture.bbr().bdp() as f64);
        }
        fixture.check(3, widest > 2.0, "a window above 2 BDP", widest)?;
        window.add(widest);
        let of_link = fixture.max_bw_share();
        // Two bursts may come within one silence and a moment: a sample can be too high by as much
        // as it spans few of them, and no higher than what was sent.
        let ok = (0.95..1.5).contains(&of_link);
        fixture.check(4, ok, "max_bw at the link's rate or up to half above", of_link)?;
        share.add(100.0 * of_link);
    }
    Ok(format!(
        "max_bw {share:.1} % of the link at {} corners, a window of up to {window:.1} BDP",
        paths.len()
    ))
}

/// "Achieving Expected Cruise Bandwidth on a Link With Aggregation".
pub(super) fn cruise(lab: &Lab<'_>) -> Outcome {
    let (mut used, mut augmented) = (Span::default(), Span::default());
    let paths = bursty_paths(lab, BURSTY.iter());
    for &path in &paths {
        let mut fixture = bursty(lab, path)?;
        let (mut extra, limit) = (Rules::new(&fixture), fixture.limit(300));
        while fixture.state() != State::ProbeBwCruise {
            fixture.step(1, "CRUISE", limit)?;
            extra.follow(&fixture, 3)?;
        }
        let (start, got) = (fixture.now(), fixture.received());
        let end = start + fixture.rtt.times(40);
        while fixture.now() < end && fixture.state() == State::ProbeBwCruise {
            fixture.step(4, "ACKs", limit)?;
            extra.follow(&fixture, 3)?;
            let bbr = fixture.bbr();
            if fixture.is_ack() && fixture.state() == State::ProbeBwCruise {
                let most = (2 * bbr.bdp() + bbr.extra_acked())
                    .max(fixture.before.send_quantum)
                    .max(4 * DATAGRAM);
                let seen = format_args!("{} instead of {most}", bbr.max_inflight());
                let ok = bbr.max_inflight().abs_diff(most) <= 2 * DATAGRAM;
                fixture.check(4, ok, "max_inflight of 2 BDP and extra_acked", seen)?;
                fixture.check(
                    4,
                    fixture.after.cwnd <= bbr.max_inflight(),
                    "a window within it",
                    fixture.after.cwnd,
                )?;
                augmented.add(bbr.extra_acked() as f64 / bbr.bdp() as f64);
            }
        }
        let time = fixture.now().since(start).as_nanos() as f64 / 1e9;
        let share = (fixture.received() - got) as f64 / time / fixture.carries(fixture.rate);
        fixture.check(4, share > 0.93, "more than 93 % of the link, silences included", share)?;
        used.add(100.0 * share);
    }
    Ok(format!(
        "{used:.0} % of the link at {} corners, with {augmented:.1} BDP of extra_acked",
        paths.len()
    ))
}
