//! The place of a capture, by which of the two waits for the other there.

use std::collections::VecDeque;

use super::flow::Place;
use super::tcp::Segment;

/// The place, and the observation that shows it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    pub(super) place: Place,
    pub(super) why: String,
    /// Time from the capture to the receiver and back.
    pub(super) ahead_s: f64,
    pub(super) handshake_rtt_s: Option<f64>,
    /// Time from the capture to the sender and back; nothing where it is not known.
    pub(super) behind_s: Option<f64>,
}

/// The share of the round trip up to which a capture is at an end.
const AT_END: f64 = 0.15;

/// A round trip below which both ends are on one machine.
const ONE_MACHINE_S: f64 = 2e-4;

/// The time that a usual answer takes at least: a tenth of all are quicker.
fn usual(mut waits: Vec<f64>) -> Option<f64> {
    waits.sort_by(f64::total_cmp);
    waits.get(waits.len() / 10).copied()
}

impl Placed {
    /// Of a TCP flow. The handshake says it exactly, and without one the answers to data and to
    /// acknowledgements do.
    pub(super) fn of(segments: &[Segment]) -> Self {
        let handshake = handshake(segments);
        // Times from data to its acknowledgement, and from that to data that echoes its time stamp.
        let (ahead, behind) = (usual(to_ack(segments)), usual(to_echo(segments)));
        let (ahead_s, behind_s, by) = match (handshake, ahead, behind) {
            (Some((ahead, behind)), _, _) => (ahead, behind, "in the handshake"),
            (None, Some(ahead), Some(behind)) => (ahead, behind, "as a rule"),
            (None, None, _) => {
                let why = "there are no acknowledgements: that is a guess".to_owned();
                let (place, ahead_s) = (Place::Receiver, 0.0);
                return Self { place, why, ahead_s, handshake_rtt_s: None, behind_s: None };
            }
            (None, Some(ahead_s), _) => {
                let place = if ahead_s > 2e-3 { Place::Sender } else { Place::Receiver };
                let why = format!(
                    "acknowledgements follow data after {:.1} ms, and there is neither a handshake nor a time stamp: \
                     that is a guess",
                    1e3 * ahead_s
                );
                return Self { place, why, ahead_s, handshake_rtt_s: None, behind_s: None };
            }
        };
        let rtt = ahead_s + behind_s;
        let share = behind_s / rtt.max(1e-9);
        let place = match share {
            _ if rtt < ONE_MACHINE_S => Place::Sender,
            share if share <= AT_END => Place::Sender,
            share if share >= 1.0 - AT_END => Place::Receiver,
            _ => Place::Between,
        };
        let why = format!(
            "{by} the receiver's answer takes {:.2} ms to get there and the sender's {:.2} ms",
            1e3 * ahead_s,
            1e3 * behind_s
        );
        let ahead_s = ahead.map_or(ahead_s, |usual| usual.min(ahead_s));
        let behind_s = Some(behind.map_or(behind_s, |usual| usual.min(behind_s)));
        Self { place, why, ahead_s, handshake_rtt_s: handshake.map(|_| rtt), behind_s }
    }
}

/// Round trips from the capture to the receiver of the data, and to its sender.
fn handshake(segments: &[Segment]) -> Option<(f64, f64)> {
    let early = &segments[..segments.len().min(50)];
    let answer = early.iter().position(|s| s.tcp.syn && s.tcp.ack.is_some())?;
    let of_answer = &early[answer];
    let syn = early[..answer]
        .iter()
        .rev()
        .find(|s| s.tcp.syn && s.tcp.ack.is_none() && s.is_data_way != of_answer.is_data_way)?;
    let last = early[answer + 1..].iter().find(|s| {
        s.is_data_way == syn.is_data_way && s.tcp.ack == Some(of_answer.tcp.seq.wrapping_add(1))
    })?;
    let to_server = of_answer.at_s - syn.at_s;
    let to_client = last.at_s - of_answer.at_s;
    Some(if syn.is_data_way { (to_server, to_client) } else { (to_client, to_server) })
}

/// The most samples of each kind.
const SAMPLES: usize = 10_000;

fn to_ack(segments: &[Segment]) -> Vec<f64> {
    let mut waiting: VecDeque<(u32, f64)> = VecDeque::new();
    let mut newest: Option<u32> = None;
    let mut waits = Vec::new();
    let reaches = |a: u32, b: u32| a.wrapping_sub(b).cast_signed() >= 0;
    for s in segments {
        let end = s.tcp.data_seq().wrapping_add(s.tcp.payload);
        if s.is_data_way {
            // What is sent again belongs to no acknowledgement.
            if s.tcp.payload > 0 && newest.is_none_or(|newest| reaches(s.tcp.data_seq(), newest)) {
                newest = Some(end);
                waiting.push_back((end, s.at_s));
            }
        } else if let Some(ack) = s.tcp.ack {
            let mut last = None;
            while let Some((end, at_s)) = waiting.front().copied()
                && reaches(ack, end)
            {
                last = Some(at_s);
                waiting.pop_front();
            }
            waits.extend(last.map(|at_s| s.at_s - at_s));
        }
        if waits.len() >= SAMPLES {
            break;
        }
    }
    waits
}

fn to_echo(segments: &[Segment]) -> Vec<f64> {
    let mut waiting: VecDeque<(u32, f64)> = VecDeque::new();
    let mut waits = Vec::new();
    for s in segments {
        let Some((tsval, tsecr)) = s.tcp.timestamps else { continue };
        if !s.is_data_way {
            waiting.push_back((tsval, s.at_s));
            continue;
        }
        let mut last = None;
        while let Some((tsval, at_s)) = waiting.front().copied()
            && tsecr.wrapping_sub(tsval).cast_signed() >= 0
        {
            last = (tsval == tsecr).then_some(at_s);
            waiting.pop_front();
        }
        if s.tcp.payload > 0 {
            waits.extend(last.map(|at_s| s.at_s - at_s));
        }
        if waits.len() >= SAMPLES {
            break;
        }
    }
    waits
}
