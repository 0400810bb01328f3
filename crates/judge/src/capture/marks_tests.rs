//! Counts of marks in QUIC's acknowledgements: a sender over a queue that marks, as a qlog tells of
//! it and as its opened packets do.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::Choice;
use super::flow::{Flow, Place};
use super::keyed::{Opened, fill};
use super::story::Story;
use crate::program::judge::Kind;
use crate::quic::{Frames, Opened as Inside, Packet, PacketType};

/// 19.2 Mbit/s, a round trip of 20.5 ms, and a queue that marks what waits longer than 1 ms.
const PACKET_BYTES: usize = 1200;
const SERVICE_S: f64 = 0.5e-3;
const ONE_WAY_S: f64 = 10e-3;
const MARK_ABOVE_S: f64 = 1e-3;
const END_S: f64 = 13.0;

/// The largest number of QUIC (RFC 9000 section 16).
const MOST: u64 = (1 << 62) - 1;

/// A packet with data, or an acknowledgement of all up to a number.
#[derive(Clone, Copy, Debug)]
enum What {
    Data,
    /// With its counts of ECT(0), ECT(1) and CE.
    Ack([u64; 3]),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at_s: f64,
    /// A path of the qlog, a connection of the capture.
    path: u64,
    number: u64,
    what: What,
}

/// All of a transfer whose packets are ECT(1). At a mark the sender takes half a packet off, so that
/// two marks a round trip hold its window, or it does not hear them and keeps three BDP in flight.
fn transfer(hears: bool) -> Vec<Event> {
    let mut window = if hears { 10.0 } else { 123.0 };
    let (mut sent, mut acks, mut counts) = (Vec::new(), Vec::new(), [0; 3]);
    let (mut flying, mut free_s, mut now_s) = (VecDeque::new(), 0.0_f64, 0.0);
    while now_s < END_S {
        while flying.len() as f64 + 1.0 <= window {
            let arrives_s = now_s + ONE_WAY_S;
            let starts_s = free_s.max(arrives_s);
            free_s = starts_s + SERVICE_S;
            flying.push_back((free_s + ONE_WAY_S, starts_s - arrives_s > MARK_ABOVE_S));
            let number = sent.len() as u64;
            sent.push(Event { at_s: now_s, path: 0, number, what: What::Data });
        }
        let (at_s, is_marked) = flying.pop_front().expect("a packet in flight");
        now_s = at_s;
        counts[if is_marked { 2 } else { 1 }] += 1;
        acks.push(Event { at_s, path: 0, number: acks.len() as u64, what: What::Ack(counts) });
        if hears {
            window += if is_marked { -0.5 } else { 1.0 / window };
        }
    }
    // An acknowledgement before the packets that it lets leave.
    let mut events = [acks, sent].concat();
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    events
}

fn as_json(event: &Event) -> Value {
    let header = |number: u64, path: u64| json!({ "packet_type": "1RTT", "packet_number": number, "path_id": path });
    let (path, number) = (event.path, event.number);
    let (name, data) = match event.what {
        What::Data => {
            let raw = json!({ "length": PACKET_BYTES });
            ("packet_sent", json!({ "header": header(number, path), "raw": raw }))
        }
        What::Ack([ect0, ect1, ce]) => {
            let frame = json!({
                "frame_type": "ack", "acked_ranges": [[0, number]], "path_id": path,
                "ect0": ect0, "ect1": ect1, "ce": ce,
            });
            let raw = json!({ "length": 40 });
            let data = json!({ "header": header(number, 0), "raw": raw, "frames": [frame] });
            ("packet_received", data)
        }
    };
    json!({ "time": 1e3 * event.at_s, "name": format!("transport:{name}"), "data": data })
}

fn of_qlog(events: &[Event]) -> Story {
    let head = json!({ "qlog_version": "0.3", "trace": {} });
    let records = std::iter::once(head).chain(events.iter().map(as_json));
    let text: String = records.map(|record| format!("\u{1e}{record}\n")).collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    Story::of_qlog(file.path(), &Choice::Largest).expect("a story")
}

fn opened(event: &Event) -> Opened {
    let is_data_way = matches!(event.what, What::Data);
    let frames = match event.what {
        What::Data => Frames { is_eliciting: true, ..Frames::default() },
        What::Ack(told) => {
            Frames { acked: vec![(0, event.number)], ecn_counts: Some(told), ..Frames::default() }
        }
    };
    let packet = Packet {
        kind: PacketType::OneRtt,
        version: 0,
        destination: Vec::new(),
        source: Vec::new(),
        token: Vec::new(),
        bytes: PACKET_BYTES,
        whole_bytes: PACKET_BYTES,
        opened: Some(Inside {
            connection: event.path as usize,
            number: event.number,
            key_phase: false,
            frames,
        }),
    };
    Opened::of(event.at_s, is_data_way, packet).expect("an opened packet")
}

fn of_opened(events: &[Event]) -> Story {
    let packets: Vec<Opened> = events.iter().map(opened).collect();
    let flow = Flow::new("QUIC", Place::Sender, "by hand".to_owned(), PACKET_BYTES as f64);
    let flow = super::finished(fill(flow, &packets)).expect("a flow");
    Story::of("pcap", None, &flow, Vec::new(), 0)
}

fn stories(events: &[Event]) -> [(&'static str, Story); 2] {
    [("qlog", of_qlog(events)), ("opened packets", of_opened(events))]
}

fn told(event: &Event) -> Option<[u64; 3]> {
    match event.what {
        What::Ack(told) => Some(told),
        What::Data => None,
    }
}

/// The places of the acknowledgements.
fn acks(events: &[Event]) -> Vec<usize> {
    (0..events.len()).filter(|i| told(&events[*i]).is_some()).collect()
}

fn marks(events: &[Event]) -> u64 {
    events.iter().filter_map(told).map(|told| told[2]).max().unwrap_or(0)
}

fn is_scalable(story: &Story) -> bool {
    matches!(story.verdict.looks.kind, Kind::Scalable { .. }) && story.verdict.defects.is_empty()
}

#[test]
fn a_sender_that_two_marks_a_round_trip_hold_is_scalable() {
    let events = transfer(true);
    let marks = marks(&events);
    assert!(marks > 300, "{marks}");
    for (form, story) in stories(&events) {
        let text = format!("{form}: {}", story.text());
        assert!(is_scalable(&story) && story.remarks.is_empty(), "{text}");
        assert_eq!(story.figures.marked_packets, marks, "{text}");
        assert_eq!(story.figures.ect1_share, Some(1.0), "{text}");
    }
}

#[test]
fn a_sender_that_does_not_hear_its_counts_is_found() {
    for (form, story) in stories(&transfer(false)) {
        let found: Vec<&str> = story.verdict.defects.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(found, ["does not react to marks"], "{form}: {}", story.text());
    }
}

/// An overtaken acknowledgement tells nothing new.
#[test]
fn counts_that_come_out_of_order_count_once() {
    let ordered = transfer(true);
    let mut events = ordered.clone();
    for pair in acks(&ordered).chunks_exact(7) {
        let (early, late) = (pair[0], pair[6]);
        (events[early].what, events[late].what) = (ordered[late].what, ordered[early].what);
        (events[early].number, events[late].number) = (ordered[early].number, ordered[late].number);
    }
    for (form, story) in stories(&events) {
        assert_eq!(story.figures.marked_packets, marks(&ordered), "{form}: {}", story.text());
        assert!(is_scalable(&story), "{form}: {}", story.text());
    }
}

/// A receiver may not do so, and a log may show it: what was told before stays told.
#[test]
fn counts_that_begin_anew_take_nothing_back() {
    let mut events = transfer(true);
    let acks = acks(&events);
    let turn = 3 * acks.len() / 4;
    let before = told(&events[acks[turn - 1]]).expect("counts");
    for i in &acks[turn..] {
        let now = told(&events[*i]).expect("counts");
        events[*i].what = What::Ack(std::array::from_fn(|k| now[k] - before[k]));
    }
    for (form, story) in stories(&events) {
        assert_eq!(story.figures.marked_packets, before[2], "{form}: {}", story.text());
        assert_eq!(story.figures.ect1_share, Some(1.0), "{form}: {}", story.text());
    }
}

/// Nobody can have received more than was sent. Numbers that QUIC cannot write are none.
#[test]
fn counts_of_more_than_was_sent_prove_nothing() {
    let events = transfer(true);
    let acks = acks(&events);
    let is_quiet = |i: &&usize| {
        let before = acks.partition_point(|ack| ack < *i) - 1;
        told(&events[acks[before]]).map(|told| told[2]) == told(&events[**i]).map(|told| told[2])
    };
    let quiet = *acks[acks.len() / 2..].iter().find(is_quiet).expect("one that tells of no mark");
    let plain = stories(&events);
    for counts in [[u64::MAX; 3], [MOST; 3], [0, 0, MOST], [0, 0, events.len() as u64]] {
        let mut events = events.clone();
        events[quiet].what = What::Ack(counts);
        for ((form, story), (_, plain)) in stories(&events).iter().zip(&plain) {
            assert!(story.figures == plain.figures, "{form}, {counts:?}: {}", story.text());
            assert_eq!(story.verdict, plain.verdict, "{form}, {counts:?}");
            let is_said = story.remarks.join("\n").contains("more packets than were sent");
            let is_number = *form != "qlog" || counts != [u64::MAX; 3];
            assert_eq!(is_said, is_number, "{form}, {counts:?}: {:?}", story.remarks);
        }
    }
}

/// Five paths whose packets have the largest number there is.
#[test]
fn counts_of_all_spaces_stop_at_the_most() {
    let counts = [[MOST, 0, 0], [0, MOST, 0], [0, 0, MOST]];
    let paths = (0..5).flat_map(|path| {
        let event =
            move |at_ms: u64, what| Event { at_s: at_ms as f64 / 1e3, path, number: MOST, what };
        let acks = counts
            .into_iter()
            .zip(30_u64..)
            .map(move |(told, at_ms)| event(at_ms + 3 * path, What::Ack(told)));
        std::iter::once(event(path, What::Data)).chain(acks)
    });
    let mut events: Vec<Event> = paths.collect();
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    for (form, story) in stories(&events) {
        assert_eq!(story.figures.marked_packets, u64::MAX, "{form}");
        assert_eq!(story.figures.ect1_share, Some(0.5), "{form}");
    }
}
