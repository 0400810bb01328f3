//! Defects that have a name: what other implementations of BBR shipped, as far as the wire shows
//! it.

use serde::{Deserialize, Serialize};

use super::Views;
use super::check::shares;
use super::kind::{Kind, Looks, dips, is_flat};
use super::test_path::RTT_S;
use super::view::{View, at_quantile, burst_quantile};

/// A defect, and what shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Defect {
    /// Its name.
    pub name: String,
    /// The observation, and its cause.
    pub about: String,
}

/// A rule: its name, and what it says of the views where it applies.
type Rule = (&'static str, fn(&Views, &Looks) -> Option<String>);

/// All of them. Where one explains another, it comes first, and [`EXPLAINS`] says so.
const RULES: [Rule; 21] = [
    ("does not react to losses", ignores_everything),
    ("fixed window", fixed_window),
    ("does not come back after idleness", idle),
    ("Drain does not end", endless_drain),
    ("ProbeRTT does not end", endless_probe_rtt),
    ("window of a few packets", few_packets),
    ("stuck at its first rate", first_rate),
    ("leaves Startup too early", early_plateau),
    ("Startup does not end", endless_startup),
    ("ProbeRTT lasts too long", long_probe_rtt),
    ("no pacing", unpaced),
    ("window reset at each loss", reset_at_loss),
    ("too much headroom after a loss", headroom),
    ("tolerates too much loss", tolerates_loss),
    ("does not come back after an outage", outage),
    ("does not forget an old min_rtt", old_min_rtt),
    ("does not forget an old bandwidth", old_bandwidth),
    ("collapses under jitter", jitter),
    ("collapses under ACK aggregation", aggregation),
    ("window is capped", capped),
    ("starves a flow like itself", starves),
];

/// Defects that have others as their consequence.
const EXPLAINS: [&str; 9] = [
    "does not come back after idleness",
    "does not react to losses",
    "fixed window",
    "window of a few packets",
    "stuck at its first rate",
    "leaves Startup too early",
    "Startup does not end",
    "Drain does not end",
    "ProbeRTT does not end",
];

/// The defects that these views show.
pub(super) fn defects(views: &Views, looks: &Looks) -> Vec<Defect> {
    let mut found = Vec::new();
    for (name, rule) in RULES {
        let Some(about) = rule(views, looks) else { continue };
        found.push(Defect { name: name.to_owned(), about });
        if EXPLAINS.contains(&name) {
            break;
        }
    }
    found
}

/// A full packet on the wire.
const PACKET: f64 = 1500.0;

/// Time that a sender has to find its rate.
const SETTLED_S: f64 = 3.0;

/// Utilization of a path from three seconds after the start on.
fn filled(views: &Views, name: &str) -> Option<f64> {
    let v = views.get(name)?;
    (v.ended_or_end() > v.start + SETTLED_S + 2.0)
        .then(|| v.utilization(v.start + SETTLED_S, v.ended_or_end()))
}

/// True if the clean path is filled: what goes wrong elsewhere is then of that path.
fn is_clean_filled(views: &Views) -> bool {
    filled(views, "clean").is_some_and(|share| share > 0.8)
}

/// Volumes in flight after Startup, in packets, every 20 ms.
fn late_inflight(v: &View, rtt: f64) -> Vec<f64> {
    let from = ((v.start + SETTLED_S) / 0.02) as usize;
    let to = (v.ended_or_end() / 0.02) as usize;
    let inflight = v.inflight(0.02, rtt);
    inflight
        .get(from..to.min(inflight.len()))
        .unwrap_or_default()
        .iter()
        .map(|b| b / PACKET)
        .collect()
}

fn ignores_everything(views: &Views, looks: &Looks) -> Option<String> {
    let Kind::FixedRate { mbps } = looks.kind else { return None };
    let v = views.get("shallow")?;
    let loss = v.loss(v.start + SETTLED_S, v.end)?;
    (loss > 0.15).then(|| format!("it sends {mbps:.1} Mbit/s while {:.0} % are lost", 100.0 * loss))
}

fn fixed_window(views: &Views, looks: &Looks) -> Option<String> {
    let Kind::FixedWindow { packets } = looks.kind else { return None };
    let v = views.get("shallow")?;
    let loss = v.loss(v.start + SETTLED_S, v.end)?;
    (loss > 0.15).then(|| {
        format!(
            "{packets:.0} packets are in flight on each path, while {:.0} % are lost",
            100.0 * loss
        )
    })
}

fn few_packets(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("clean")?;
    let most = at_quantile(late_inflight(v, RTT_S), 0.95)?;
    let share = filled(views, "clean")?;
    // What is paced at one rate keeps it on a longer route, and a window does not.
    let is_window = match views.get("route").filter(|v| v.ended_or_end() > 25.0) {
        Some(route) => route.utilization(20.0, route.ended_or_end()) < 0.5 * share,
        None => most <= 5.0,
    };
    (share < 0.5 && most <= 8.0 && is_window).then(|| {
        format!(
            "no more than {most:.0} packets are in flight, and {:.0} % of the path is used: the product of bandwidth and \
             min_rtt comes out far too small, as with a min_rtt that is a placeholder or 0",
            100.0 * share
        )
    })
}

fn first_rate(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("clean")?;
    let share = filled(views, "clean")?;
    let sending = v.sending(v.start + 1.0, v.ended_or_end(), 1.0);
    let is_one_rate = is_flat(&sending, 0.15);
    (share < 0.7 && is_one_rate && v.loss(v.start, v.end)? < 0.01).then(|| {
        format!(
            "it sends {:.1} Mbit/s from the first second to the last and never looks for more: a pacing rate from a first \
             estimate gives samples of that rate",
            v.sending_rate(v.start + 1.0, v.ended_or_end()) * 8.0 / 1e6
        )
    })
}

fn early_plateau(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("clean")?;
    let rates = v.rates(v.start, v.ended_or_end(), 0.5);
    let want = 0.8 * v.rate_at(v.start);
    let there = rates.iter().position(|rate| *rate >= want).map(|i| (i + 1) as f64 * 0.5);
    let lost = v.loss(v.start, v.start + 2.0)?;
    (there.is_none_or(|t| t > 2.0) && lost < 0.01).then(|| match there {
        Some(t) => format!(
            "it takes {t:.1} s to 80 % of the rate on a path of 40 ms without a loss, where doubling takes 0.5 s: Startup \
             is left before the pipe is full"
        ),
        None => "it never comes to 80 % of the rate, and grows slowly: Startup is left before the pipe is full".to_owned(),
    })
}

fn endless_startup(views: &Views, looks: &Looks) -> Option<String> {
    if matches!(looks.kind, Kind::LossBased { .. }) {
        return None;
    }
    let (shallow, deep) = (views.get("shallow")?, views.get("deep")?);
    let loss = shallow.loss(shallow.start + SETTLED_S, shallow.end)?;
    let low = deep.queue(deep.start + SETTLED_S, deep.ended_or_end(), 0.1)?;
    (loss > 0.25 && low > 0.7 * RTT_S).then(|| {
        format!(
            "{:.0} % are lost at a shallow buffer for as long as it runs, and in a deep one a queue of {:.0} ms stands: the \
             gains of Startup stay",
            100.0 * loss,
            1e3 * low
        )
    })
}

/// The time since which a sender that had the path's rate uses less than three quarters of it,
/// without losses.
fn stuck_since(v: &View) -> Option<(f64, f64)> {
    const STEP: f64 = 0.2;
    if v.pause().is_some() {
        return None;
    }
    let end = v.ended_or_end();
    let rates = v.rates(v.start, end, STEP);
    let full = v.rate_at(v.start);
    let last = rates.iter().rposition(|rate| *rate >= 0.8 * full)?;
    let from = v.start + (last + 2) as f64 * STEP;
    if end - from < 3.0 || v.loss(from, end).is_some_and(|loss| loss > 0.02) {
        return None;
    }
    let share = v.utilization(from, end);
    (share < 0.75).then_some((from - v.start, share))
}

fn endless_drain(views: &Views, _: &Looks) -> Option<String> {
    let (since, share) = stuck_since(views.get("clean")?)?;
    (since < 4.0).then(|| {
        format!(
            "after Startup it sends at {:.0} % of the rate that it had found, and stays there: the pacing gain of Drain",
            100.0 * share
        )
    })
}

fn endless_probe_rtt(views: &Views, _: &Looks) -> Option<String> {
    let (since, share) = stuck_since(views.get("clean")?)?;
    (since >= 4.0).then(|| {
        format!(
            "{since:.1} s after the start the volume in flight falls, and stays there at {:.0} % of the rate: the window \
             of ProbeRTT",
            100.0 * share
        )
    })
}

fn long_probe_rtt(views: &Views, looks: &Looks) -> Option<String> {
    let Kind::BbrLike { .. } = looks.kind else { return None };
    let longest = dips(views.get("clean")?).into_iter().map(|dip| dip.1).fold(0.0, f64::max);
    (longest > 0.7).then(|| {
        format!("less than a BDP is in flight for {longest:.1} s, where 0.2 s and a round trip are enough")
    })
}

fn unpaced(views: &Views, looks: &Looks) -> Option<String> {
    let Kind::BbrLike { .. } = looks.kind else { return None };
    let v = views.get("aggregation")?;
    let burst = burst_quantile(&v.bursts(v.start + SETTLED_S, v.end), 0.9)?;
    (looks.paced == Some(false)).then(|| {
        format!(
            "{burst:.0} packets leave back to back when ACKs come late: no pacing rate is enforced"
        )
    })
}

/// Losses that come alone, on the path with 0.1 % of them: the volume in flight before and the
/// least within a second after, in packets.
fn after_losses(views: &Views) -> Option<Vec<(f64, f64)>> {
    let v = views.get("loss 0.1 %").or(views.get("loss 1 %"))?;
    let inflight = v.inflight(0.01, RTT_S);
    let mut next = v.start + 2.0;
    let mut pairs = Vec::new();
    for p in v.packets.iter().filter(|p| p.lost.is_some()) {
        if p.sent < next {
            continue;
        }
        next = p.sent + 1.0;
        let at = (p.sent / 0.01) as usize;
        let Some(after) = inflight.get(at..at + 40) else { break };
        let least = after.iter().copied().fold(f64::INFINITY, f64::min);
        pairs.push((inflight.get(at).copied()? / PACKET, least / PACKET));
    }
    Some(pairs)
}

fn reset_at_loss(views: &Views, looks: &Looks) -> Option<String> {
    // Where several losses come close to each other, halves of halves are a small part as well.
    if matches!(looks.kind, Kind::LossBased { .. }) && filled(views, "loss 0.1 %")? > 0.3 {
        return None;
    }
    let pairs = after_losses(views)?;
    let before = at_quantile(pairs.iter().map(|p| p.0).collect(), 0.5)?;
    let after = at_quantile(pairs.iter().map(|p| p.1).collect(), 0.5)?;
    // BBR keeps a path in use at 1 % loss, and a window of it that is small there was cut.
    let least = if matches!(looks.kind, Kind::BbrLike { .. }) { 10.0 } else { 20.0 };
    (pairs.len() >= 3 && before > least && after <= 0.3 * before).then(|| {
        format!("from {before:.0} packets in flight it goes down to {after:.0} after a single loss")
    })
}

fn headroom(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("shallow")?;
    if !is_clean_filled(views) {
        return None;
    }
    let inflight = at_quantile(late_inflight(v, RTT_S), 0.5)? * PACKET / v.bdp(v.start, RTT_S);
    (inflight < 0.6).then(|| {
        format!(
            "at a shallow buffer, once packets were lost, the usual volume in flight is {:.0} % of the BDP: a headroom of \
             85 % in place of 15 % does that",
            100.0 * inflight
        )
    })
}

fn tolerates_loss(views: &Views, looks: &Looks) -> Option<String> {
    // BBRv1 does not look at losses, and has a ProbeRTT every 10 s.
    let Kind::BbrLike { probe_rtt_s: Some(4.0..7.0) } = looks.kind else { return None };
    let share = filled(views, "loss 10 %")?;
    (share > 0.3).then(|| {
        format!(
            "with a ProbeRTT as BBRv3 has it, it uses {:.0} % of the path while 10 % are lost: a loss threshold of 20 % in \
             place of 2 % does that",
            100.0 * share
        )
    })
}

fn outage(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("outage")?;
    if !is_clean_filled(views) || v.ended_or_end() < 15.0 {
        return None;
    }
    let share = v.utilization(12.0, v.ended_or_end());
    (share < 0.3).then(|| {
        format!(
            "from the fourth second after an outage of 2 s on it uses {:.0} % of the path: a timeout has thrown away what \
             it knew of it",
            100.0 * share
        )
    })
}

fn old_min_rtt(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("route")?;
    if !is_clean_filled(views) || v.ended_or_end() < 25.0 {
        return None;
    }
    let share = v.utilization(20.0, v.ended_or_end());
    (share < 0.6).then(|| {
        format!(
            "14 s after the round trip grew from 40 to 160 ms it uses {:.0} % of the path: its window is still that of the \
             short round trip",
            100.0 * share
        )
    })
}

fn old_bandwidth(views: &Views, looks: &Looks) -> Option<String> {
    let Kind::BbrLike { .. } = looks.kind else { return None };
    let v = views.get("steps")?;
    if v.ended_or_end() < 22.0 {
        return None;
    }
    let (loss, queue) = (v.loss(20.0, 22.0)?, v.queue(20.0, 22.0, 0.5)?);
    (queue > 0.08).then(|| {
        format!(
            "16 s after the rate fell from 20 to 10 Mbit/s the queue is {:.0} ms and {:.0} % are lost: the filter of the \
             bandwidth does not expire",
            1e3 * queue,
            100.0 * loss
        )
    })
}

fn idle(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("clean")?;
    let (stopped, began) = v.pause()?;
    if v.utilization(stopped - 2.0, stopped - 0.5) < 0.8 || began + 3.0 > v.end {
        return None;
    }
    let share = v.utilization(began + 1.0, began + 3.0);
    (share < 0.5).then(|| {
        format!(
            "a second after a pause of {:.1} s it uses {:.0} % of the path that it had filled before",
            began - stopped,
            100.0 * share
        )
    })
}

fn jitter(views: &Views, _: &Looks) -> Option<String> {
    let share = filled(views, "jitter").filter(|_| is_clean_filled(views))?;
    (share < 0.6).then(|| {
        format!("where each packet is up to 10 ms late it uses {:.0} % of the path", 100.0 * share)
    })
}

fn aggregation(views: &Views, _: &Looks) -> Option<String> {
    let share = filled(views, "aggregation").filter(|_| is_clean_filled(views))?;
    (share < 0.8).then(|| {
        format!(
            "where ACKs come together every 20 ms it uses {:.0} % of the path: the window has no room for their delay",
            100.0 * share
        )
    })
}

fn capped(views: &Views, _: &Looks) -> Option<String> {
    let v = views.get("long")?;
    if v.ended_or_end() < 44.0 {
        return None;
    }
    let inflight = v.inflight(0.1, 2.0);
    let late = inflight.get(250..440)?;
    let window = at_quantile(late.to_vec(), 0.6)?;
    let is_one = at_quantile(late.to_vec(), 0.95)? < 1.03 * window;
    // It is more than the short path took, or the window never grew.
    let usual = at_quantile(late_inflight(views.get("clean")?, RTT_S), 0.95)? * PACKET;
    (is_one && window > 1.5 * usual && window < 0.8 * v.bdp(v.start, 2.0) && v.loss(25.0, 44.0)? < 0.01).then(|| {
        format!(
            "at 2 s no more than {:.0} packets are in flight, and the path holds {:.0}: a hard cap of the window",
            window / PACKET,
            v.bdp(v.start, 2.0) / PACKET
        )
    })
}

fn starves(views: &Views, _: &Looks) -> Option<String> {
    let [a, b] = shares(views.get("itself")?)?;
    let share = a.min(b) / (a + b).max(1.0);
    (share < 0.1).then(|| format!("of two copies on one path one gets {:.0} %", 100.0 * share))
}
