//! The story of a flow that somebody captured, on a path that nobody knows.
//!
//! A file of packets or a sender's log becomes a `flow::Flow`, a stream of events from the
//! sender's view. All that comes after is the same for each kind of file: figures, the kind of
//! algorithm, the defects that the flow proves, and what cannot be known from it.

mod copies;
mod defects;
mod events;
mod figures;
mod file;
mod flow;
mod headers;
mod keyed;
mod kind;
mod ledger;
mod marks;
#[cfg(test)]
mod marks_tests;
mod measure;
mod opening;
mod packet;
mod page;
mod place;
mod qlog;
mod sightings;
#[cfg(test)]
mod sightings_tests;
mod story;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
mod verdict;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;

use crate::quic::KeyLog;
pub use figures::{Dip, Episode, Figures, Spread, Start, TimeSeries};
use file::Frame;
use flow::Flow;
pub use flow::{Place, Unknown};
use headers::ClosedCounts;
use opening::{Opening, Packets};
use packet::{Packet, Transport};
pub use page::page;
use place::Placed;
use sightings::Sightings;
pub use story::Story;
use tcp::Segment;
pub use verdict::{FlowVerdict, Suspicion};

/// A file that cannot be read: one line that says what is wrong and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaptureError(String);

/// The most packets of a flow that are looked at, about 400 MB in memory.
const MOST_PACKETS: usize = 4_000_000;

/// The most flows that are told apart.
const MOST_FLOWS: usize = 1_000_000;

/// A flow of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Listed {
    /// `TCP` or `UDP`.
    pub protocol: &'static str,
    /// Its name in a log; null in a capture.
    pub title: Option<String>,
    /// The end that sends more data; null in a log.
    pub sender: Option<SocketAddr>,
    /// The other one.
    pub receiver: Option<SocketAddr>,
    /// Bytes of data from the sender, behind the headers of TCP and UDP. What is captured twice
    /// counts twice.
    pub data_bytes: u64,
    /// Packets in both directions, counted alike.
    pub packets: u64,
}

impl Listed {
    fn key(&self) -> Option<Key> {
        Some(Key::of(self.protocol == "UDP", self.sender?, self.receiver?).0)
    }

    /// Its ends, or its name.
    fn name(&self) -> String {
        match (&self.title, self.sender, self.receiver) {
            (None, Some(a), Some(b)) => format!("{a}-{b}"),
            (title, ..) => title.clone().unwrap_or_default(),
        }
    }
}

/// Choice of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The one with most data.
    Largest,
    /// By its number in the list, from 1.
    Number(usize),
    /// The largest of those with these addresses in either order; the second may be missing.
    Ends(SocketAddr, Option<SocketAddr>),
}

impl std::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{}' is no flow; write its number, ADDRESS:PORT, or ADDRESS:PORT-ADDRESS:PORT",
                text.escape_debug()
            )
        };
        if let Ok(number) = text.parse::<usize>() {
            return if number > 0 { Ok(Self::Number(number)) } else { Err(wrong()) };
        }
        let (a, b) = text.split_once('-').map_or((text, None), |(a, b)| (a, Some(b)));
        let address = |text: &str| text.parse::<SocketAddr>().map_err(|_| wrong());
        Ok(Self::Ends(address(a)?, b.map(address).transpose()?))
    }
}

/// The two ends of a flow, the smaller address first. Interfaces are one place: a tap has one for
/// each direction, and a bond divides a flow among several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    is_udp: bool,
    ends: [SocketAddr; 2],
}

impl Key {
    /// The key, and true if the packet goes from the first end to the second.
    fn of(is_udp: bool, from: SocketAddr, to: SocketAddr) -> (Self, bool) {
        let is_first = from <= to;
        let ends = if is_first { [from, to] } else { [to, from] };
        (Self { is_udp, ends }, is_first)
    }

    fn of_packet(packet: &Packet<'_>) -> (Self, bool) {
        let is_udp = matches!(packet.transport, Transport::Udp(..));
        Self::of(is_udp, packet.from, packet.to)
    }
}

#[derive(Clone, Copy, Default)]
struct Count {
    packets: u64,
    /// From the first end, and from the second.
    bytes: [u64; 2],
}

/// The flows of a file, the one with most data first, and remarks on what is not read of it.
fn flows(path: &Path) -> Result<(Vec<Listed>, Vec<String>), CaptureError> {
    let mut counts = BTreeMap::<Key, Count>::new();
    let mut closed = ClosedCounts::default();
    let mut remarks = file::each(path, |frame| {
        let packet = match Packet::of(&frame) {
            Ok(packet) => packet,
            Err(why) => return closed.add(why),
        };
        let (key, is_first) = Key::of_packet(&packet);
        if counts.len() >= MOST_FLOWS && !counts.contains_key(&key) {
            return;
        }
        let count = counts.entry(key).or_default();
        count.packets += 1;
        count.bytes[usize::from(!is_first)] += u64::from(match packet.transport {
            Transport::Tcp(tcp) => tcp.payload,
            Transport::Udp(_, length) => length,
        });
    })?
    .into_vec();
    if counts.is_empty() {
        return Err(nothing_in(&closed, &remarks));
    }
    let listed = counts.into_iter().map(|(key, count)| {
        let is_first = count.bytes[0] >= count.bytes[1];
        let [a, b] = key.ends;
        let (sender, receiver) = if is_first { (a, b) } else { (b, a) };
        Listed {
            protocol: if key.is_udp { "UDP" } else { "TCP" },
            title: None,
            sender: Some(sender),
            receiver: Some(receiver),
            data_bytes: count.bytes[usize::from(!is_first)],
            packets: count.packets,
        }
    });
    let mut listed: Vec<Listed> = listed.filter(|flow| flow.data_bytes > 0).collect();
    listed.sort_by_key(|flow| std::cmp::Reverse(flow.data_bytes));
    if listed.is_empty() {
        return Err(CaptureError(
            "its packets of TCP and UDP are all without data; capture both directions".to_owned(),
        ));
    }
    remarks.extend(closed.remarks());
    Ok((listed, remarks))
}

/// The reason why a file has no packet of TCP or UDP.
fn nothing_in(closed: &ClosedCounts, remarks: &[String]) -> CaptureError {
    let found = closed.most();
    let (found, more) = match (found.as_str(), remarks) {
        ("", []) => return CaptureError("there is no packet in it".to_owned()),
        ("", remarks) => {
            return CaptureError(format!("no packet of it can be read: {}", remarks.join("; ")));
        }
        (found, _) if closed.has_cut() => {
            (found, "; capture 128 bytes of each and more (tcpdump -s 128)")
        }
        (found, _) => (found, ""),
    };
    CaptureError(format!("no packet of TCP or UDP can be opened in it, but {found}{more}"))
}

/// The place of the chosen one in the list.
fn chosen(flows: &[Listed], choice: &Choice) -> Result<usize, CaptureError> {
    let found = match choice {
        Choice::Largest => Some(0),
        Choice::Number(n) => n.checked_sub(1),
        Choice::Ends(a, b) => flows.iter().position(|flow| {
            let ends = [flow.sender, flow.receiver];
            ends.contains(&Some(*a)) && b.is_none_or(|b| ends.contains(&Some(b)) && b != *a)
        }),
    };
    found.filter(|place| *place < flows.len()).ok_or_else(|| {
        let first: Vec<String> = flows.iter().take(5).map(Listed::name).collect();
        let more = if flows.len() > 5 { " …" } else { "" };
        CaptureError(format!(
            "it has no such flow, but {}: {}{more}",
            flows.len(),
            first.join(", ")
        ))
    })
}

/// The flow of a capture, and all flows of the file.
fn read_capture(
    path: &Path,
    choice: &Choice,
    keys: Option<&KeyLog>,
) -> Result<(Flow, Vec<Listed>, usize), CaptureError> {
    let (listed, remarks) = flows(path)?;
    let mut number = chosen(&listed, choice)?;
    let one = &listed[number];
    let mut flow = read_flow(path, one, keys)?;
    // Where addresses are translated, the flow is there twice, and the sender's end shows more.
    if *choice == Choice::Largest && flow.place != Place::Sender {
        let is_other = |other: &Listed| {
            other.protocol == one.protocol && other.data_bytes * 10 >= one.data_bytes * 9
        };
        let others = (0..listed.len()).filter(|n| *n != number && is_other(&listed[*n]));
        for twin in others.take(MOST_TWINS) {
            if !have_same_packets(path, one, &listed[twin])? {
                continue;
            }
            let other = read_flow(path, &listed[twin], keys)?;
            if other.place == Place::Sender {
                (flow, number) = (other, twin);
                break;
            }
        }
    }
    flow.remarks.extend(remarks);
    Ok((flow, listed, number))
}

/// The most flows of which it is asked whether they are another one's packets at its other end.
const MOST_TWINS: usize = 4;

/// The first packets of data of two flows that are compared.
const MOST_COMPARED: usize = 10_000;

/// True if at least half of the packets of one flow are in the other as well: it is the same one
/// with other addresses. What is in a packet stays where they are translated.
fn have_same_packets(path: &Path, a: &Listed, b: &Listed) -> Result<bool, CaptureError> {
    let mut prints: [HashSet<(u64, u64)>; 2] = Default::default();
    file::each(path, |frame| {
        let Ok(packet) = Packet::of(&frame) else { return };
        let key = Some(Key::of_packet(&packet).0);
        let place = if key == a.key() { 0 } else { 1 };
        if key != [a, b][place].key() || prints[place].len() >= MOST_COMPARED {
            return;
        }
        let print = match packet.transport {
            Transport::Tcp(tcp) if tcp.payload > 0 => (u64::from(tcp.seq), u64::from(tcp.payload)),
            // The beginning of a packet of QUIC is a connection ID and bytes like random ones.
            Transport::Udp(payload, length) if !payload.is_empty() => {
                let mut hasher = DefaultHasher::new();
                payload[..payload.len().min(64)].hash(&mut hasher);
                (hasher.finish(), u64::from(length))
            }
            _ => return,
        };
        prints[place].insert(print);
    })?;
    let [a, b] = &prints;
    let common = a.intersection(b).count();
    Ok(common > 0 && common * 2 >= a.len().min(b.len()))
}

/// Calls `take` with each packet of a flow and its number among them, in the order of the file.
fn each_of(
    path: &Path,
    key: Key,
    mut take: impl FnMut(usize, &Frame<'_>, &Packet<'_>),
) -> Result<(), CaptureError> {
    let mut number = 0;
    file::each(path, |frame| {
        let Ok(packet) = Packet::of(&frame) else { return };
        if Key::of_packet(&packet).0 == key {
            take(number, &frame, &packet);
            number += 1;
        }
    })?;
    Ok(())
}

/// A flow of a capture.
fn read_flow(path: &Path, one: &Listed, keys: Option<&KeyLog>) -> Result<Flow, CaptureError> {
    let (Some(key), Some(sender)) = (one.key(), one.sender) else {
        return Err(CaptureError("the flow has no addresses".to_owned()));
    };
    let (mut sightings, mut left_out) = (Sightings::default(), 0_u64);
    each_of(path, key, |_, frame, packet| match sightings.len() {
        ..MOST_PACKETS => sightings.add(frame, packet, packet.from == sender),
        _ => left_out += 1,
    })?;
    let told = sightings.told();
    drop(sightings);
    let mut segments: Vec<Segment> = Vec::new();
    let mut datagrams: Vec<udp::Datagram> = Vec::new();
    let mut opening = keys.map(Opening::new);
    let (mut start_ns, mut newest_ns, mut backwards) = (None, 0, 0_u64);
    let mut codepoints = [0_u64; 4];
    each_of(path, key, |number, frame, packet| {
        if !told.has(number) {
            return;
        }
        // Packets of several queues may be in the file in the wrong order.
        backwards += u64::from(frame.at_ns < newest_ns);
        newest_ns = newest_ns.max(frame.at_ns);
        let start_ns = *start_ns.get_or_insert(frame.at_ns);
        // One that comes later in the file may have left before; the first time is taken off below.
        let at_s = (i128::from(frame.at_ns) - i128::from(start_ns)) as f64 / 1e9;
        let is_data_way = packet.from == sender;
        match packet.transport {
            Transport::Tcp(tcp) => {
                segments.push(Segment { at_s, is_data_way, ecn: packet.ecn, tcp });
            }
            Transport::Udp(payload, length) => {
                codepoints[usize::from(packet.ecn & 3)] += u64::from(is_data_way);
                let datagram = udp::Datagram::of(at_s, is_data_way, payload, length);
                datagrams.push(datagram.with_mark(packet.ecn == marks::CE));
                if let Some(opening) = &mut opening {
                    opening.datagram(at_s, is_data_way, payload, length);
                }
            }
        }
    })?;
    let times = segments.iter().map(|s| s.at_s).chain(datagrams.iter().map(|d| d.at_s));
    let first_s = times.fold(0.0, f64::min);
    segments.iter_mut().for_each(|s| s.at_s -= first_s);
    datagrams.iter_mut().for_each(|d| d.at_s -= first_s);
    let opened = match opening {
        Some(_) if !key.is_udp => {
            return Err(CaptureError(
                "the flow is one of TCP, for which no keys are needed; leave out --keys".to_owned(),
            ));
        }
        Some(opening) => opening.finish(first_s)?,
        None => Packets::default(),
    };
    let mut flow = if key.is_udp {
        datagrams.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let mut flow = udp::flow(&datagrams, &opened);
        flow.codepoints = codepoints;
        flow
    } else {
        segments.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        tcp::flow(&segments, &Placed::of(&segments))
    };
    flow.remarks.extend(told.remarks);
    if left_out > 0 {
        flow.remarks
            .push(format!("{left_out} packets after the first {MOST_PACKETS} are left out"));
    }
    if backwards > 0 {
        flow.remarks.push(format!("{backwards} packets were not in the order of their times"));
    }
    finished(flow)
}

/// The longest flow that is told, in seconds: a week. What is longer has damaged times.
const MOST_S: f64 = 7.0 * 86_400.0;

/// A flow that there is something to tell of.
fn finished(mut flow: Flow) -> Result<Flow, CaptureError> {
    flow.sort();
    if flow.sent.is_empty() {
        return Err(CaptureError("the flow has no packet of data".to_owned()));
    }
    let span_s = flow.end_s();
    if span_s > MOST_S {
        return Err(CaptureError(format!(
            "the flow is {:.0} days long: its times are damaged, or it is no single transfer",
            span_s / 86_400.0
        )));
    }
    Ok(flow)
}

/// The flow of a log, and all logs of the file.
fn read_qlog(path: &Path, choice: &Choice) -> Result<(Flow, Vec<Listed>, usize), CaptureError> {
    let mut logs = qlog::read(path)?;
    let listed = |log: &qlog::Log| Listed {
        protocol: "QUIC",
        title: Some(log.title.clone()),
        sender: None,
        receiver: None,
        data_bytes: log.data_bytes(),
        packets: log.packets(),
    };
    let listed: Vec<Listed> = logs.iter().map(listed).collect();
    let number = chosen(&listed, choice)?;
    Ok((finished(logs.swap_remove(number).flow())?, listed, number))
}
