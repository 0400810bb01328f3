//! A UDP flow from its datagrams: of QUIC, without its keys, sizes, times and the spin bit.

use super::flow::{Acked, At, Flow, Place, Sending, Sent};
use super::keyed;
use super::opening::Packets;
use super::qlog::usual_size;

/// A datagram of the flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    /// From the first one on, in seconds.
    pub(super) at_s: f64,
    pub(super) is_data_way: bool,
    bytes: u32,
    /// A queue has marked it (RFC 3168 section 5).
    is_marked: bool,
    header: Header,
}

/// The first byte of a datagram, as far as it says something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Header {
    /// A long header of a version of QUIC.
    Long,
    /// A short header with its spin bit (RFC 9000 section 17.4).
    Short(bool),
    /// Neither of them.
    Other,
}

impl Datagram {
    pub(super) fn of(at_s: f64, is_data_way: bool, payload: &[u8], bytes: u32) -> Self {
        let header = match payload {
            [first, a, b, c, d, ..] if first & 0x80 != 0 => {
                match u32::from_be_bytes([*a, *b, *c, *d]) {
                    1 | 0x6B33_43CF | 0xFF00_0000..=0xFFFF_FFFF => Header::Long,
                    _ => Header::Other,
                }
            }
            [first, ..] if first & 0xC0 == 0x40 => Header::Short(first & 0x20 != 0),
            _ => Header::Other,
        };
        Self { at_s, is_data_way, bytes, is_marked: false, header }
    }

    /// The same with what its header of IP says.
    pub(super) const fn with_mark(self, is_marked: bool) -> Self {
        Self { is_marked, ..self }
    }
}

/// The least number of changes of the spin bit that are more than chance: an end that does not use
/// it may draw it at random, for each packet or each connection.
const LEAST_SPINS: usize = 4;

/// Times to the receiver and back, and to the sender and back, by the edges of the spin bit: one
/// end repeats the bit, the other one turns it.
fn spins(datagrams: &[Datagram]) -> Vec<(f64, bool, f64)> {
    let mut last = [None; 2];
    let mut edge: Option<(f64, bool)> = None;
    let mut waits = Vec::new();
    for d in datagrams {
        let Header::Short(bit) = d.header else { continue };
        let before = last[usize::from(d.is_data_way)].replace(bit);
        if before.is_none_or(|before| before == bit) {
            continue;
        }
        if let Some((at_s, is_data_way)) = edge
            && is_data_way != d.is_data_way
        {
            waits.push((d.at_s, is_data_way, d.at_s - at_s));
        }
        edge = Some((d.at_s, d.is_data_way));
    }
    // Where each packet has a bit of its own, there is an edge at every second one.
    let packets = datagrams.iter().filter(|d| d.is_data_way).count();
    if waits.len() < LEAST_SPINS || waits.len() * 8 > packets { Vec::new() } else { waits }
}

/// The times of the handshake from the capture to the server and back, and to the client and back,
/// and true if the client sends the data.
fn handshake(datagrams: &[Datagram]) -> Option<(f64, f64, bool)> {
    let first = datagrams.first().filter(|d| d.header == Header::Long)?;
    let is_client = |d: &&Datagram| d.is_data_way == first.is_data_way;
    let answer = datagrams.iter().position(|d| !is_client(&d))?;
    let answer_s = datagrams.get(answer)?.at_s;
    let asked = datagrams[..answer].last()?;
    let next = datagrams[answer..].iter().find(is_client)?;
    Some((answer_s - asked.at_s, next.at_s - answer_s, first.is_data_way))
}

/// The place, the reason, the round trip of the handshake, and the time that the sender takes; with
/// the least times to acknowledgements from the receiver and from the sender, where they are known.
fn place(
    datagrams: &[Datagram],
    spins: &[(f64, bool, f64)],
    acks: Option<(f64, f64)>,
) -> (Place, String, Option<f64>, Option<f64>) {
    let of_place = |ahead: f64, behind: f64| match behind / (ahead + behind).max(1e-9) {
        share if share <= 0.15 => Place::Sender,
        share if share >= 0.85 => Place::Receiver,
        _ => Place::Between,
    };
    let of_handshake = handshake(datagrams).map(|(to_server, to_client, is_client)| {
        if is_client { (to_server, to_client) } else { (to_client, to_server) }
    });
    // All of these are at least as long as the way to an end and back, and a host that is busy in
    // its handshake answers late.
    let least = match (of_handshake, acks) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.min(d), "at the least")),
        (None, Some((ahead, behind))) => Some((ahead, behind, "at the least")),
        (Some((ahead, behind)), None) => Some((ahead, behind, "in the handshake")),
        (None, None) => None,
    };
    if let Some((ahead, behind, when)) = least {
        let why = format!(
            "{when} the receiver's answer takes {:.2} ms to get there and the sender's {:.2} ms",
            1e3 * ahead,
            1e3 * behind
        );
        let rtt = of_handshake.map(|(ahead, behind)| ahead + behind);
        let reaction = of_handshake.map_or(behind, |handshake| handshake.1);
        return (of_place(ahead, behind), why, rtt, Some(reaction));
    }
    let least = |way: bool| {
        let waits = spins.iter().filter(|s| s.1 == way).map(|s| s.2);
        waits.min_by(f64::total_cmp)
    };
    match (least(true), least(false)) {
        (Some(ahead), Some(behind)) => {
            let why = format!(
                "by the spin bit the receiver's answer takes {:.2} ms to get there and the sender's {:.2} ms",
                1e3 * ahead,
                1e3 * behind
            );
            (of_place(ahead, behind), why, None, Some(behind))
        }
        _ => {
            let why = "there is neither a handshake nor a spin bit: that is a guess";
            (Place::Between, why.to_owned(), None, None)
        }
    }
}

/// The flow of these datagrams, and of the packets in them that were opened.
pub(super) fn flow(datagrams: &[Datagram], packets: &Packets) -> Flow {
    let spins = spins(datagrams);
    let (place, why, handshake_rtt_s, behind_s) =
        place(datagrams, &spins, keyed::least_waits(&packets.opened));
    let largest = datagrams.iter().filter(|d| d.is_data_way).map(|d| d.bytes).max().unwrap_or(1);
    let is_quic = datagrams.iter().any(|d| d.header == Header::Long)
        || datagrams.iter().all(|d| d.header != Header::Other);
    let mut flow = Flow::new(
        if is_quic { "QUIC" } else { "UDP" },
        place,
        why,
        f64::from(largest.clamp(1, 9000)),
    );
    flow.handshake_rtt_s = handshake_rtt_s;
    flow.reaction_s = behind_s.filter(|_| place == Place::Sender);
    for d in datagrams {
        if d.is_data_way {
            let (at_s, bytes, sending) = (d.at_s, f64::from(d.bytes), Sending::First);
            flow.sent.push(Sent { at_s, bytes, packets: 1, sending });
        } else {
            flow.acks += 1;
            flow.acked.push(Acked { at_s: d.at_s, bytes: 0.0 });
        }
    }
    // Both parts of a round trip, one behind the other.
    let pairs = spins.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    flow.rtt = pairs.map(|pair| At { at_s: pair[1].0, value: pair[0].2 + pair[1].2 }).collect();
    if place != Place::Sender {
        flow.cannot_tell(
            "pacing and bursts",
            "packets were captured behind the path, which spaces them; capture at the sender",
        );
    }
    if !packets.opened.is_empty() {
        // The acknowledgements tell it, where the receiver counts.
        flow.are_marks_told = false;
        let mut flow = keyed::fill(flow, &packets.opened);
        flow.packet_bytes = usual_size(&flow.sent);
        if packets.closed > 0 {
            let all = packets.opened.len() as u64 + packets.closed;
            let closed = packets.closed;
            flow.remarks.push(format!("{closed} of {all} packets are not opened, and left out"));
        }
        if !packets.are_complete() {
            flow.lost.clear();
            let why = "too many of the packets are not opened";
            for what in ["losses and retransmissions", "reordering", "response to a loss"] {
                flow.cannot_tell(what, why);
            }
        }
        if place != Place::Sender {
            let why = "packets were captured behind a part of the path; capture at the sender";
            flow.cannot_tell("round trips and data in flight", why);
        }
        return flow;
    }
    if place != Place::Sender {
        let marked = datagrams.iter().filter(|d| d.is_data_way && d.is_marked);
        flow.marks = marked.map(|d| At { at_s: d.at_s, value: 1.0 }).collect();
        flow.marked_packets = flow.marks.len() as u64;
    }
    let hidden = match is_quic {
        true => {
            "QUIC encrypts acknowledgements and packet numbers; give the key log of an end with \
             --keys, or a qlog of the sender"
        }
        false => "it does not look like QUIC, whose packets alone are known here besides TCP",
    };
    for what in ["losses and retransmissions", "reordering", "data in flight", "response to a loss"]
    {
        flow.cannot_tell(what, hidden);
    }
    if flow.rtt.is_empty() {
        flow.cannot_tell("round trips over time", "the spin bit is not in use");
    }
    flow
}
