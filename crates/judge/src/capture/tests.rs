//! Flows that are made by hand: what no capture of an own sender has.

use super::flow::{At, Flow, Lost, Place, Sending, Sent};
use super::marks;
use super::measure::View;
use super::opening::Packets;
use super::packet::Tcp;
use super::place::Placed;
use super::story::Story;
use super::tcp::{self, Segment};
use super::udp::{self, Datagram};
use crate::program::judge::{Kind, at_quantile};

/// Bytes of data in a full segment with time stamps.
const MSS: u32 = 1448;

fn segment(at_ms: f64, is_data_way: bool, tcp: Tcp) -> Segment {
    Segment { at_s: at_ms / 1e3, is_data_way, ecn: 0, tcp }
}

/// A handshake that the sender of the data begins: so long to the receiver and back from the
/// capture, and so long to the sender.
fn handshake(isn: u32, ahead_ms: f64, behind_ms: f64) -> Vec<Segment> {
    let syn = Tcp { syn: true, mss: Some(1460), scale: Some(7), window: 65535, ..Tcp::default() };
    let stamped = |tsval, tsecr| Some((tsval, tsecr));
    vec![
        segment(0.0, true, Tcp { seq: isn, timestamps: stamped(1, 0), ..syn }),
        segment(
            ahead_ms,
            false,
            Tcp { ack: Some(isn.wrapping_add(1)), timestamps: stamped(1, 1), ..syn },
        ),
        segment(
            ahead_ms + behind_ms,
            true,
            Tcp {
                seq: isn.wrapping_add(1),
                ack: Some(1),
                timestamps: stamped(2, 1),
                ..Tcp::default()
            },
        ),
    ]
}

fn data(at_ms: f64, seq: u32, payload: u32) -> Segment {
    let timestamps = Some((at_ms as u32 + 2, 1));
    let tcp = Tcp { seq, payload, ack: Some(1), timestamps, options_len: 12, ..Tcp::default() };
    segment(at_ms, true, tcp)
}

fn ack(at_ms: f64, ack: u32) -> Segment {
    let timestamps = Some((at_ms as u32 + 2, 2));
    segment(at_ms, false, Tcp { ack: Some(ack), window: 60_000, timestamps, ..Tcp::default() })
}

fn told(segments: &[Segment]) -> Story {
    let flow = tcp::flow(segments, &Placed::of(segments));
    Story::of("pcap", None, &flow, Vec::new(), 0)
}

/// A segment of 64 kB is many packets, and an acknowledgement may end inside it.
#[test]
fn segments_before_they_are_divided_count_as_many_packets() {
    // The numbers pass the end of their 32 bits.
    let isn = u32::MAX - 20_000;
    let first = isn.wrapping_add(1);
    let mut all = handshake(isn, 40.0, 0.01);
    for n in 0..10_u32 {
        let begin = first.wrapping_add(n * 20 * MSS);
        let at_ms = 50.0 + 40.0 * f64::from(n);
        all.push(data(at_ms, begin, 20 * MSS));
        all.push(ack(at_ms + 20.0, begin.wrapping_add(7 * MSS)));
        all.push(ack(at_ms + 21.0, begin.wrapping_add(20 * MSS)));
    }
    let figures = told(&all).figures;
    assert_eq!((figures.sent_packets, figures.packet_bytes), (200, f64::from(MSS)));
    assert_eq!(figures.sent_bytes, f64::from(200 * MSS));
    assert_eq!(figures.bytes_per_ack.expect("acknowledgements").max, f64::from(13 * MSS));
    assert_eq!(figures.resent_packets, Some(0));
    assert_eq!(figures.inflight_bytes.expect("known").max, f64::from(20 * MSS));
}

/// TCP Fast Open (RFC 7413): data come with the SYN, and its acknowledgement with the other one.
#[test]
fn data_of_a_syn_are_data() {
    let mut all = handshake(1000, 40.0, 0.01);
    all[0].tcp.payload = 500;
    all[1].tcp.ack = Some(1501);
    all[2].tcp.seq = 1501;
    all.push(data(50.0, 1501, MSS));
    all.push(ack(90.0, 1501 + MSS));
    let story = told(&all);
    assert_eq!(story.figures.sent_bytes, f64::from(500 + MSS));
    assert_eq!((story.figures.resent_packets, story.figures.acks), (Some(0), 2));
    assert!(story.remarks.is_empty(), "{:?}", story.remarks);
    // A server may take none of it, and then it is sent again.
    all[1].tcp.ack = Some(1001);
    all.truncate(3);
    all.extend([data(50.0, 1001, 500), data(50.1, 1501, MSS), ack(90.0, 1501 + MSS)]);
    let story = told(&all);
    assert_eq!(story.figures.resent_packets, Some(1));
    assert!(story.remarks.is_empty(), "{:?}", story.remarks);
}

#[test]
fn a_capture_between_the_ends_is_neither_end() {
    for (ahead, behind, place) in [
        (40.0, 0.01, Place::Sender),
        (0.01, 40.0, Place::Receiver),
        (10.0, 30.0, Place::Between),
        (38.0, 2.0, Place::Sender),
    ] {
        let mut all = handshake(7, ahead, behind);
        all.push(data(100.0, 8, MSS));
        let placed = Placed::of(&all);
        assert_eq!(placed.place, place, "{}", placed.why);
        assert!((placed.handshake_rtt_s.expect("known") - 1e-3 * (ahead + behind)).abs() < 1e-9);
    }
}

/// Data that arrives behind later data, with an older time stamp, was overtaken; with a newer one
/// it was sent again.
#[test]
fn what_was_overtaken_was_not_lost() {
    let at_receiver = |late_tsval: u32| {
        let mut all = handshake(0, 0.01, 40.0);
        all.push(data(100.0, 1, MSS));
        all.push(data(102.0, 1 + 2 * MSS, MSS));
        let mut late = data(110.0, 1 + MSS, MSS);
        late.tcp.timestamps = Some((late_tsval, 1));
        all.push(late);
        all.push(ack(110.1, 1 + 3 * MSS));
        told(&all).figures
    };
    let (overtaken, again) = (at_receiver(103), at_receiver(150));
    assert_eq!((overtaken.reordered_packets, overtaken.resent_packets), (Some(1), Some(0)));
    assert_eq!((again.reordered_packets, again.resent_packets), (Some(0), Some(1)));
}

/// A hundred packets fill the receiver's window, and an acknowledgement of twenty lets twenty leave
/// at once. One packet of them fills it, but it is the limit all the time; and nothing says what the
/// congestion control would have done.
#[test]
fn a_full_window_of_the_receiver_is_no_fixed_window_of_the_sender() {
    const BATCHES: u32 = 300;
    for (place, ahead_ms, behind_ms) in
        [(Place::Sender, 100.0, 0.01), (Place::Receiver, 0.01, 100.0)]
    {
        // What is captured at the receiver, half a round trip later; ACKs come back after that.
        let late = if place == Place::Receiver { 50.0 } else { 0.0 };
        let ack_late = if place == Place::Receiver { 50.3 } else { 100.0 };
        let mut all = handshake(0, ahead_ms, behind_ms);
        let mut later = Vec::new();
        for batch in 0..BATCHES {
            let at_ms = 200.0 + 20.0 * f64::from(batch);
            let told = |batch: u32| 250 + 20 * batch;
            for n in 0..20 {
                let mut sent =
                    data(at_ms + late + 0.01 * f64::from(n), 1 + (20 * batch + n) * MSS, MSS);
                let echo = batch.checked_sub(5).map_or(1, told);
                sent.tcp.timestamps = Some((at_ms as u32, echo));
                later.push(sent);
            }
            let mut answer = ack(at_ms + ack_late, 1 + 20 * (batch + 1) * MSS);
            answer.tcp.timestamps = Some((told(batch), at_ms as u32));
            answer.tcp.window = 1132;
            later.push(answer);
        }
        later.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        all.extend(later);
        assert_eq!(Placed::of(&all).place, place);
        let story = told(&all);
        assert_eq!(story.verdict.looks.kind, Kind::Unknown, "{}", story.text());
        let share = story.figures.window_limited_share.expect("known");
        assert!(share > 0.9, "{place:?}: {share}");
        assert!(story.verdict.suspicions.is_empty(), "{}", story.text());
    }
}

/// A flow of so many packets in flight at each time, a packet a millisecond.
fn flow_of(packets: impl Fn(f64) -> f64, lost: Vec<Lost>) -> Flow {
    let mut flow = Flow::new("TCP", Place::Sender, String::new(), 1000.0);
    for ms in 0..12_000_u32 {
        let at_s = f64::from(ms) / 1e3;
        flow.sent.push(Sent { at_s, bytes: 1000.0, packets: 1, sending: Sending::First });
        flow.inflight.push(At { at_s, value: 1000.0 * packets(at_s) });
        // The queue is what is in flight beyond 40 ms.
        let value = 0.04_f64.max(packets(at_s) / 1e3);
        flow.rtt.push(At { at_s, value });
        flow.acked.push(super::flow::Acked { at_s, bytes: 1000.0 });
    }
    flow.lost = lost;
    flow
}

/// Forty packets that are lost together are one event: a rate of losses says nothing then.
#[test]
fn losses_that_come_together_are_no_random_loss() {
    let lost = |ms: u32| Lost { at_s: 6.0 + f64::from(ms) / 1e3, bytes: 1000.0, packets: 1 };
    let packets = |t: f64| if t < 6.05 { 100.0 } else { 50.0 + 8.0 * (t - 6.05) };
    let flow = flow_of(packets, (0..40).map(lost).collect());
    let story = Story::of("pcap", None, &flow, Vec::new(), 0);
    let kind = story.verdict.looks.kind;
    assert!(matches!(kind, Kind::LossBased { decrease: Some(0.4..0.7) }), "{}", story.text());
    assert!(View::of(&flow).loss_events(3.0) < 3e-4);
}

/// Both ends take part in the spin bit: it tells the round trip and the place without a handshake.
#[test]
fn the_spin_bit_tells_round_trip_and_place() {
    let bit = |ms: u32, late: u32| (ms.saturating_sub(late) / 40) % 2 == 1;
    let byte = |is_set: bool| if is_set { 0x60 } else { 0x40 };
    let mut datagrams = Vec::new();
    for ms in 0..2000_u32 {
        let at_s = f64::from(ms) / 1e3;
        // The other end turns the bit; it comes here, and this end repeats it 0.1 ms later.
        if ms % 2 == 0 {
            datagrams.push(Datagram::of(at_s, false, &[byte(bit(ms, 0)), 0], 40));
        }
        datagrams.push(Datagram::of(at_s + 1e-4, true, &[byte(bit(ms, 0)), 0], 1200));
    }
    let flow = udp::flow(&datagrams, &Packets::default());
    assert_eq!((flow.protocol, flow.place), ("QUIC", Place::Sender), "{}", flow.place_why);
    let story = Story::of("pcap", None, &flow, Vec::new(), 0);
    let rtt = story.figures.rtt_ms.expect("round trips");
    assert!((39.0..41.5).contains(&rtt.p50), "{rtt:?}");
    assert_eq!(story.figures.resent_packets, None);
    assert!(story.text().contains("QUIC encrypts"), "{}", story.text());
}

/// The quantile of bursts counts each burst once for each of its packets, without a list of them.
#[test]
fn a_quantile_of_bursts_is_that_of_their_packets() {
    for bursts in [vec![3], vec![1, 1, 3, 5], vec![10, 1, 2, 2, 7, 1], (1..40).collect::<Vec<_>>()]
    {
        let packets: Vec<f64> =
            bursts.iter().flat_map(|n| std::iter::repeat_n(*n as f64, *n)).collect();
        for percent in [0, 10, 50, 90, 95, 100] {
            let share = f64::from(percent) / 100.0;
            let told = crate::program::judge::burst_quantile(&bursts, share);
            assert_eq!(told, at_quantile(packets.clone(), share), "{bursts:?} at {share}");
        }
    }
    assert_eq!(crate::program::judge::burst_quantile(&[], 0.5), None);
}

/// A segment of gigabytes in packets of a byte, which no host sends, costs neither time nor memory.
#[test]
fn a_length_that_is_damaged_costs_nothing() {
    let mut segments = handshake(0, 20.0, 20.0);
    segments.iter_mut().for_each(|s| s.tcp.mss = Some(1));
    for n in 0..40 {
        let at = 100.0 + 50.0 * f64::from(n);
        segments.push(data(at, 1 + 1000 * n, 1000));
        segments.push(ack(at + 40.0, 1001 + 1000 * n));
    }
    segments.push(data(2200.0, 40_001, u32::MAX - 100_000));
    let _ = told(&segments);
}

/// Repetitions of many small segments cost as much as one each.
#[test]
fn a_segment_that_is_repeated_often_is_one() {
    let mut segments = handshake(0, 20.0, 20.0);
    segments.extend((0..30_000).map(|n| data(100.0 + f64::from(n) * 0.01, 1 + n, 1)));
    segments.extend((0..30_000).map(|n| data(1000.0 + f64::from(n) * 0.01, 1, 30_000)));
    let text = told(&segments).text();
    assert!(text.contains("sent again"), "{text}");
}

/// A flow whose start doubles in pairs, each packet confirmed by itself after 40 ms: pairs that
/// leave `late_ms` after an acknowledgement. Later every other pair leaves with one.
fn doubling_in_pairs(late_ms: f64) -> Vec<Segment> {
    let mut pairs = Vec::new();
    let (mut round, mut at_ms) = (8_u32, 40.05);
    while round <= 80 {
        let gap_ms = 40.0 / f64::from(round / 2);
        let due = (0..round / 2).map(|i| at_ms + f64::from(i) * gap_ms);
        pairs.extend(due.map(|due_ms| (due_ms, late_ms, gap_ms / 2.0)));
        (round, at_ms) = (round * 2, at_ms + 40.0);
    }
    pairs.extend((0..6000).map(|i| (at_ms + f64::from(i), [0.03, 0.2][i as usize % 2], 0.5)));
    let mut all = handshake(0, 40.0, 0.03);
    for (i, (due_ms, late_ms, half_ms)) in pairs.into_iter().enumerate() {
        let seq = |packet: usize| 1 + (2 * i + packet) as u32 * MSS;
        all.extend([0, 1].map(|packet| data(due_ms + late_ms, seq(packet), MSS)));
        // The answers come when the later pairs are due, and halfway between two of them.
        all.extend([ack(due_ms + 40.0, seq(1)), ack(due_ms + 40.0 + half_ms, seq(2))]);
    }
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    all
}

/// A pacer may send pairs: twice as much as was confirmed then leaves at once, but by a timer.
#[test]
fn pairs_in_the_start_are_no_missing_pacing() {
    for (late_ms, is_paced) in [(0.03, false), (0.2, true)] {
        let story = told(&doubling_in_pairs(late_ms));
        let (figures, text) = (&story.figures, story.text());
        assert!(figures.ack_clocked_share.is_some_and(|s| (0.3..0.9).contains(&s)), "{text}");
        assert!(figures.start.burst_per_ack.is_some_and(|ratio| ratio >= 2.0), "{text}");
        let refused = story.verdict.looks.paced == Some(false);
        assert_eq!(refused, !is_paced, "{late_ms}: {:?}\n{text}", figures.start);
    }
}

/// A handshake in which both ends agree to count marks (RFC 9768 section 3.1.2).
fn counting(ahead_ms: f64, behind_ms: f64) -> Vec<Segment> {
    let mut all = handshake(0, ahead_ms, behind_ms);
    (all[0].tcp.ecn_flags, all[1].tcp.ecn_flags) = (0b111, 0b010);
    all
}

/// An acknowledgement of so many packets that tells of so many marks, from the first 5 on.
fn counted(at_ms: f64, packets: u32, marks: u8) -> Segment {
    let mut segment = ack(at_ms, 1 + packets * MSS);
    segment.tcp.ecn_flags = (5 + marks) & 7;
    segment
}

/// A segment that a host put together of several packets, all of them marked.
#[test]
fn a_mark_is_one_of_each_packet_of_a_segment() {
    let mut all = counting(0.01, 40.0);
    all.push(Segment { ecn: 1, ..data(50.0, 1, 2 * MSS) });
    all.push(Segment { ecn: marks::CE, ..data(51.0, 1 + 2 * MSS, 10 * MSS) });
    let flow = tcp::flow(&all, &Placed::of(&all));
    assert_eq!((flow.place, flow.marked_packets), (Place::Receiver, 10));
    assert_eq!(flow.codepoints, [0, 2, 0, 10]);
    assert_eq!(flow.marks, [At { at_s: 0.051, value: 10.0 }]);
}

fn told_marks(acks: &[Segment]) -> Flow {
    let mut all = counting(40.0, 0.01);
    all.push(Segment { ecn: 1, ..data(50.0, 1, 40 * MSS) });
    all.extend_from_slice(acks);
    let flow = tcp::flow(&all, &Placed::of(&all));
    assert_eq!(flow.place, Place::Sender);
    flow
}

/// Acknowledgements that overtake each other, also with the same number, tell of nothing twice.
#[test]
fn an_older_count_tells_of_no_marks() {
    let in_order = [counted(90.0, 2, 1), counted(91.0, 4, 1), counted(92.0, 4, 2)];
    let again = [counted(93.0, 4, 4), counted(94.0, 8, 8)];
    let all = [in_order.as_slice(), &again].concat();
    assert_eq!(told_marks(&all).marked_packets, 8);
    let mut late = all.clone();
    (late[1], late[2], late[3]) = (all[2], all[3], all[1]);
    assert_eq!(told_marks(&late).marked_packets, 8);
    (late[1], late[2], late[3]) = (all[3], all[1], all[2]);
    assert_eq!(told_marks(&late).marked_packets, 8);
}

/// With 3 bits a count of 1 may be one of 9 or 17, where so many packets are confirmed at once.
#[test]
fn a_count_that_may_have_gone_round_is_the_least() {
    let is_open = |flow: &Flow| flow.unknown.iter().any(|u| u.what == "number of marks");
    let flow = told_marks(&[counted(90.0, 20, 1), counted(91.0, 40, 3)]);
    assert_eq!((flow.marked_packets, is_open(&flow)), (3, true));
    let often: Vec<Segment> = (1..=8).map(|n| counted(90.0 + f64::from(n), 5 * n, 1)).collect();
    let flow = told_marks(&often);
    assert_eq!((flow.marked_packets, is_open(&flow)), (1, false));
}

/// Behind the path marks are in the headers of IP, also of packets that nobody can open.
#[test]
fn marks_of_quic_are_seen_behind_the_path_without_keys() {
    let long = [0xC0, 0, 0, 0, 1];
    let flow = |to_server_ms: f64| {
        let at = [0.0, to_server_ms, 40.0];
        let mut datagrams: Vec<Datagram> = [true, false, true]
            .into_iter()
            .zip(at)
            .map(|(way, at_ms)| Datagram::of(at_ms / 1e3, way, &long, 1200))
            .collect();
        for n in 0..10_u32 {
            let data = Datagram::of(0.05 + f64::from(n) / 1e3, true, &[0x40], 1200);
            datagrams.push(data.with_mark(n >= 7));
        }
        udp::flow(&datagrams, &Packets::default())
    };
    let at_receiver = flow(0.01);
    assert_eq!((at_receiver.place, at_receiver.marked_packets), (Place::Receiver, 3));
    assert_eq!(at_receiver.marks.len(), 3);
    assert!(at_receiver.are_marks_told);
    let at_sender = flow(39.99);
    assert_eq!((at_sender.place, at_sender.marks.len()), (Place::Sender, 0));
    assert!(!at_sender.are_marks_told);
}
