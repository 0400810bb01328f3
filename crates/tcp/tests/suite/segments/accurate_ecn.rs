//! Accurate ECN: RFC 9768. Flags are AE, CWR and ECE as a number.

use fullpipe_cc::{Algorithm, Duration};
use fullpipe_tcp::wire::{Control, Ecn, Header, Segment};
use fullpipe_tcp::{Config, State};

use super::lab::{Lab, config};

const FIELDS: [(Ecn, u8); 4] =
    [(Ecn::NotEct, 0b010), (Ecn::Ect1, 0b011), (Ecn::Ect0, 0b100), (Ecn::Ce, 0b110)];

fn capable() -> Config {
    Config { ecn: true, accurate_ecn: true, algorithm: Algorithm::RENO, ..config() }
}

fn with(header: Header, flags: u8) -> Header {
    let mut header = header;
    header.set_flags(flags);
    header
}

/// A client whose SYN arrived as it was sent.
fn client() -> Lab {
    Lab::established_with(&capable(), with(Lab::syn(), 0b010))
}

/// A server before the ACK of its SYN-ACK.
fn half_open() -> Lab {
    let mut lab = Lab::passive(&capable(), with(Lab::syn(), 0b111));
    assert_eq!(lab.out().header.flags(), 0b010);
    lab
}

/// The peer acknowledges up to `acked` with this count.
fn ack(lab: &mut Lab, acked: u32, count: u8) {
    lab.send(with(lab.header(0, acked), count % 8), &[]);
}

/// Section 3.1.2, table 2, and section 3.1.3: what a SYN-ACK agrees to.
#[test]
fn a_client_does_what_the_server_can() {
    assert_eq!(Lab::active(&capable()).out().header.flags(), 0b111);
    for (flags, ecn, accurate) in [
        (0b000, false, false),
        (0b001, true, false),
        (0b010, true, true),
        (0b011, true, true),
        (0b100, true, true),
        (0b101, true, true),
        (0b110, true, true),
        (0b111, false, false),
    ] {
        let info = Lab::established_with(&capable(), with(Lab::syn(), flags)).tcp.info();
        assert_eq!((info.ecn, info.accurate_ecn), (ecn, accurate), "{flags:03b}");
    }
    let classic = Config { accurate_ecn: false, ..capable() };
    assert_eq!(Lab::active(&classic).out().header.flags(), 0b011);
    let lab = Lab::established_with(&classic, with(Lab::syn(), 0b010));
    assert!(!lab.tcp.info().ecn, "it was not asked for");
}

/// The same of a server, and what it tells of the SYN's ECN field.
#[test]
fn a_server_does_what_the_client_can() {
    for flags in 0..8 {
        for (field, code) in FIELDS {
            let mut lab =
                Lab::passive(&capable(), Header { ecn: field, ..with(Lab::syn(), flags) });
            let wanted = match flags {
                0b000 => 0b000,
                0b011 => 0b001,
                _ => code,
            };
            assert_eq!(lab.out().header.flags(), wanted, "{flags:03b} {field:?}");
            let mut lab =
                Lab::passive(&Config { accurate_ecn: false, ..capable() }, with(Lab::syn(), flags));
            let wanted = u8::from(flags & 0b011 == 0b011);
            assert_eq!(lab.out().header.flags(), wanted, "classic: {flags:03b}");
        }
    }
}

/// Section 3.1.4.1: the SYN asks twice, and then for nothing. Whichever is answered counts.
#[test]
fn a_lost_syn_asks_twice() {
    let mut lab = Lab::active(&capable());
    let syns: Vec<u8> = lab.after(10_000).iter().map(|out| out.header.flags()).collect();
    assert_eq!(syns, [0b111, 0b111, 0, 0]);
    let answer = Header { ack: Some(lab.our(0)), ..with(Lab::syn(), 0b010) };
    lab.send(answer, &[]);
    assert!(lab.tcp.info().accurate_ecn);
}

/// Section 3.2.2.1, table 3, and section 3.2.2.2: the ACK of a SYN-ACK tells of its ECN field, as
/// does that of a copy, and what follows counts marks, that of the SYN-ACK once.
#[test]
fn the_ack_of_a_syn_ack_tells_of_it() {
    for (field, code) in FIELDS {
        let mut lab = Lab::active(&capable());
        lab.out();
        let ack = Some(lab.our(0));
        let answer = Header { ack, ecn: field, ..with(Lab::syn(), 0b010) };
        lab.send(answer, &[]);
        // The application writes at once.
        lab.write(1);
        let first = lab.out();
        assert_eq!((first.header.flags(), first.payload.len()), (code, 0), "{field:?}");
        let count = if field == Ecn::Ce { 6 } else { 5 };
        assert_eq!(lab.out().header.flags(), count);
        lab.send(answer, &[]);
        let again = lab.out();
        assert_eq!((again.header.flags(), again.payload.len()), (code, 0), "{field:?}");
        lab.data(0, b"x");
        assert_eq!(lab.out().header.flags(), count);
    }
}

/// Section 3.2.2.1, table 4, and section 3.2.2.3: what the server learns of its SYN-ACK.
#[test]
fn a_server_learns_how_its_syn_ack_arrived() {
    for flags in 0..8 {
        let mut lab = half_open();
        lab.send(with(lab.header(0, 0), flags), &[]);
        assert_eq!(lab.tcp.state(), State::Established);
        lab.write(2);
        let out = lab.after(50);
        // Only a field that was changed, or a peer that may not count, forbids it.
        let is_capable = !matches!(flags, 0b000 | 0b011 | 0b100 | 0b110);
        let field = if is_capable { Ecn::Ect0 } else { Ecn::NotEct };
        assert_eq!(out[0].header.ecn, field, "{flags:03b}");
        assert_eq!(out[0].header.flags(), 5, "it still tells");
        // Of a CE the count is one more, and it is congestion; of 0 nothing counts.
        let first = if flags == 0b110 { 6 } else { 5 };
        ack(&mut lab, 1000, first + 1);
        let told = match flags {
            0b000 => 0,
            0b110 => 2,
            _ => 1,
        };
        assert_eq!(lab.tcp.info().delivered_ce, told, "{flags:03b}");
    }
}

/// Section 3.2.2.3: the client, whose SYN was not ECN-capable.
#[test]
fn a_client_learns_how_its_syn_arrived() {
    for flags in [0b010, 0b011, 0b100, 0b101, 0b110] {
        let mut lab = Lab::established_with(&capable(), with(Lab::syn(), flags));
        lab.write(1);
        let is_sound = matches!(flags, 0b010 | 0b101);
        let field = if is_sound { Ecn::Ect0 } else { Ecn::NotEct };
        assert_eq!(lab.out().header.ecn, field, "{flags:03b}");
        ack(&mut lab, 1000, 6);
        let told = if flags == 0b110 { 2 } else { 1 };
        assert_eq!(lab.tcp.info().delivered_ce, told, "it answers nevertheless");
    }
}

/// Sections 3.2 and 3.2.2.5.1: every marked packet counts, those without data as well; the first
/// mark after others is told at once, and then every second, or third without data.
#[test]
fn marked_packets_are_counted_and_told_in_time() {
    let mut lab = client();
    let mut offset = 0;
    // The quick ACKs at the start are over.
    while offset < 100 {
        lab.send(with(lab.header(offset, 0), 5), b"x");
        offset += 1;
        lab.after(50);
    }
    let send = |lab: &mut Lab, ecn, payload: &[u8], offset: &mut u32| {
        lab.send(Header { ecn, ..with(lab.header(*offset, 0), 5) }, payload);
        *offset += payload.len() as u32;
        lab.try_out().map(|out| out.header.flags())
    };
    assert_eq!(send(&mut lab, Ecn::Ect0, b"x", &mut offset), None, "a delayed ACK");
    assert_eq!(send(&mut lab, Ecn::Ce, b"x", &mut offset), Some(6), "a change");
    assert_eq!(send(&mut lab, Ecn::Ce, b"x", &mut offset), None);
    assert_eq!(send(&mut lab, Ecn::Ce, b"x", &mut offset), Some(0), "the second");
    for count in [None, None, Some(3), None, None, Some(6)] {
        assert_eq!(send(&mut lab, Ecn::Ce, b"", &mut offset), count, "without data");
    }
}

/// Section 3.2.2.5.1: an ACK tells of two marks however many segments are taken in together, or a
/// device has merged, so that the peer never counts fewer than there were.
#[test]
fn marks_that_come_together_have_an_ack_for_every_second() {
    let ce = |lab: &Lab, offset| Header { ecn: Ecn::Ce, ..with(lab.header(offset, 0), 5) };
    let told = |lab: &mut Lab| {
        let out = lab.all();
        out.iter().for_each(|out| assert_eq!(out.payload.len(), 0));
        let all = out.iter().map(|out| (out.header.ack, out.header.flags()));
        all.collect::<Vec<_>>()
    };
    let wanted = |lab: &Lab| {
        [(200, 7), (400, 1), (600, 3), (800, 5), (900, 6)].map(|(at, n)| (Some(lab.their(at)), n))
    };
    let mut lab = client();
    for i in 0..9 {
        lab.send(ce(&lab, 100 * i), &[7; 100]);
    }
    assert_eq!(told(&mut lab), wanted(&lab));
    lab.quiet();
    let mut lab = client();
    let (from, to, in_host) = (super::lab::remote(), super::lab::local(), Duration::ZERO);
    let (header, payload) = (ce(&lab, 0), &[7; 900][..]);
    let merged = Segment { from, to, header, payload, packets: 9, in_host };
    lab.tcp.on_segment(lab.now, &merged);
    assert_eq!(told(&mut lab), wanted(&lab));
    assert_eq!(lab.tcp.readable(), 900);
    // Without marks one ACK covers all.
    for i in 9..18 {
        lab.data(100 * i, &[7; 100]);
    }
    assert_eq!(told(&mut lab), [(Some(lab.their(1800)), 6)]);
}

/// The same while the application writes: data leaves behind the ACKs that are older.
#[test]
fn data_leaves_after_the_acks_before_it() {
    let mut lab = client();
    for i in 0..6 {
        let header = Header { ecn: Ecn::Ce, ..with(lab.header(100 * i, 0), 5) };
        lab.send(header, &[7; 100]);
    }
    lab.write(1);
    let out: Vec<_> = lab.all().iter().map(|o| (o.payload.len(), o.header.flags())).collect();
    assert_eq!(out, [(0, 7), (0, 1), (1000, 3)]);
}

/// Section 3.2.2.2: the count that an ACK tells, over its wrap; an ACK that is older than others
/// tells nothing.
#[test]
fn the_count_wraps() {
    let mut lab = client();
    let mut acked = 0;
    let mut told = 0;
    for marks in [0, 1, 2, 2, 0, 1, 2, 2, 2, 1] {
        lab.fly(2);
        lab.after(40);
        acked += 2000;
        told += marks;
        ack(&mut lab, acked, 5 + told);
        assert_eq!(lab.tcp.info().delivered_ce, u64::from(told));
    }
    lab.fly(2);
    ack(&mut lab, acked, 4 + told);
    ack(&mut lab, acked - 1000, 3 + told);
    assert_eq!(lab.tcp.info().delivered_ce, u64::from(told));
}

/// Section 3.2.2.5.2: if most packets are marked and an ACK acknowledges many, its count has
/// wrapped once more; if few are, it has not.
#[test]
fn a_count_that_may_have_wrapped_is_read_safely() {
    for (marks, likely) in [(1, 9), (0, 1)] {
        let mut lab = client();
        let mut acked = 0;
        let mut told = 0;
        // Rounds of which one has a packet without a mark.
        for round in 0..6 {
            lab.fly(2);
            lab.after(40);
            for _ in 0..2 {
                acked += 1000;
                told += if round == 0 { 0 } else { marks };
                ack(&mut lab, acked, 5 + told);
            }
        }
        lab.write(10);
        let mut left = 0;
        while left < 10 {
            // Its window is small after so many marks.
            let out = lab.after(50);
            left += out.len();
            if left < 10 {
                lab.tcp.set_congestion(lab.now, Algorithm::BBR1);
            }
        }
        let before = lab.tcp.info().delivered_ce;
        ack(&mut lab, acked + 10_000, 5 + told + 1);
        assert_eq!(lab.tcp.info().delivered_ce - before, likely, "{marks} of each packet");
    }
}

/// The window shrinks for a mark, once a round trip, and nothing says that it did (section 3.1.5).
#[test]
fn a_mark_shrinks_the_window() {
    let mut lab = client();
    lab.fly(8);
    lab.after(40);
    let before = lab.tcp.info().snd_cwnd;
    ack(&mut lab, 1000, 6);
    let after = lab.tcp.info().snd_cwnd;
    assert!(after < before, "{after} of {before}");
    ack(&mut lab, 2000, 7);
    assert!(lab.tcp.info().snd_cwnd >= after, "{} of {after}", lab.tcp.info().snd_cwnd);
    ack(&mut lab, 8000, 7);
    lab.write(1);
    assert_eq!(lab.out().header.flags(), 5);
}

/// Section 3.2.2.4: a count of 0 at first was zeroed on the way.
#[test]
fn a_zeroed_count_turns_it_off() {
    let mut lab = client();
    lab.fly(2);
    lab.after(40);
    ack(&mut lab, 1000, 0);
    ack(&mut lab, 2000, 3);
    lab.write(1);
    assert_eq!(lab.out().header.ecn, Ecn::NotEct);
    assert_eq!(lab.tcp.info().delivered_ce, 0);
    lab.send(Header { ecn: Ecn::Ce, ..with(lab.header(0, 2000), 0) }, b"x");
    assert_eq!(lab.out().header.flags(), 6, "it still tells");
}

/// The same field after three packets or more may be three marks: of a peer that acknowledges many
/// packets at once, or whose first ACKs were lost.
#[test]
fn a_count_that_has_wrapped_at_once_is_no_zeroed_one() {
    for (packets, marks) in [(2, 0), (3, 3), (8, 3)] {
        let mut lab = client();
        lab.fly(packets);
        lab.after(40);
        ack(&mut lab, 1000 * packets as u32, 0);
        assert_eq!(lab.tcp.info().delivered_ce, marks, "{packets} packets");
        lab.write(1);
        let field = if marks > 0 { Ecn::Ect0 } else { Ecn::NotEct };
        assert_eq!(lab.after(50)[0].header.ecn, field, "{packets} packets");
    }
}

/// The rounds of one segment that left without ECN, and a connection of so many rounds; `counts`
/// says whether the peer counts the segment of a round, which left as ECN-capable or did not.
fn rounds(rounds: u32, counts: impl Fn(u32, bool) -> bool) -> (Vec<u32>, Lab) {
    let (mut lab, mut count, mut without) = (client(), 5, Vec::new());
    for round in 0..rounds {
        lab.write(1);
        let is_capable = lab.out().header.ecn == Ecn::Ect0;
        if !is_capable {
            without.push(round);
        }
        lab.after(100);
        count += u8::from(counts(round, is_capable));
        ack(&mut lab, 1000 * (round + 1), count);
    }
    (without, lab)
}

/// Section 3.2.2.3: marks on all packets prove nothing, because a queue may mark all that can be
/// marked. After some round trips with nothing else those of one leave without ECN, and none is
/// marked.
#[test]
fn a_queue_that_marks_all_packets_does_not_turn_it_off() {
    let (without, lab) = rounds(60, |_, is_capable| is_capable);
    assert_eq!(without, [9]);
    assert_eq!(lab.tcp.info().delivered_ce, 59);
    let (without, _) = rounds(60, |round, is_capable| is_capable && round != 3);
    assert_eq!(without, [0; 0], "a packet without a mark says the same");
}

/// Section 3.2.2.3: who marks what is not ECN-capable as well changes the field. Once may be an
/// error of the count.
#[test]
fn marks_on_what_cannot_be_marked_turn_it_off() {
    let (without, lab) = rounds(60, |_, _| true);
    let three = [9, 12, 15];
    assert_eq!(without, three.into_iter().chain(17..60).collect::<Vec<_>>());
    assert_eq!(lab.tcp.info().delivered_ce, 16, "they are not answered any more");
    let (without, _) = rounds(60, |round, is_capable| is_capable || round == 9);
    assert_eq!(without, [9, 12]);
}

/// The packet that asks is lost: the copy that a probe sends of it is no answer, and another one
/// asks.
#[test]
fn a_question_that_was_lost_is_asked_again() {
    let (_, mut lab) = rounds(9, |_, is_capable| is_capable);
    lab.write(1);
    assert_eq!(lab.out().header.ecn, Ecn::NotEct);
    let probes = lab.after(1_000);
    assert_eq!(probes[0].payload.len(), 1000);
    ack(&mut lab, 10_000, 5 + 9);
    let mut without = 0;
    for round in 10..40 {
        lab.write(1);
        let is_capable = lab.out().header.ecn == Ecn::Ect0;
        without += u32::from(!is_capable);
        lab.after(100);
        let marks = 5 + 9 + (round - 9) - u32::from(without > 0);
        ack(&mut lab, 1000 * (round + 1), marks as u8);
    }
    assert_eq!(without, 1, "once more");
}

/// Section 3.1.5: a SYN that asks for the other kind of feedback resets, and after one that asks
/// for nothing this end sends nothing that is capable.
#[test]
fn a_second_syn_of_another_kind() {
    for (first, second, is_reset) in [
        (0b111, 0b011, true),
        (0b011, 0b111, true),
        (0b111, 0b111, false),
        (0b011, 0b011, false),
        (0b111, 0b000, false),
    ] {
        let mut lab = Lab::passive(&capable(), with(Lab::syn(), first));
        lab.out();
        lab.send(with(Lab::syn(), second), &[]);
        let answer = lab.out().header;
        assert_eq!(answer.control == Control::Rst, is_reset, "{first:03b} {second:03b}");
        if second == 0 {
            assert_eq!(answer.flags(), 0b010, "section 3.1.5: it tells once more");
            lab.send(with(lab.header(0, 0), 0b010), &[]);
            lab.write(1);
            assert_eq!(lab.out().header.ecn, Ecn::NotEct);
        }
    }
}
