//! The receiver takes data in any order.

use alloc::vec::Vec;

use super::*;

fn receiver() -> Receiver {
    let mut receiver = Receiver::new(100, 1000);
    receiver.window(10);
    receiver
}

fn read(receiver: &mut Receiver) -> Vec<u8> {
    let mut out = [0; 64];
    let count = receiver.read(&mut out);
    out[..count].to_vec()
}

#[test]
fn pieces_come_together_and_are_read_in_order() {
    let mut r = receiver();
    assert!(r.take(104, b"ef", false).out_of_order);
    assert!(r.take(102, b"cd", false).out_of_order);
    let pieces: Vec<_> = r.pieces.spans().collect();
    assert_eq!(pieces, [Span { start: 102, end: 106 }], "neighbours are one piece");
    assert_eq!(r.readable(), 0);
    assert!(r.take(108, b"ij", true).out_of_order);
    assert!(r.take(100, b"abcd", false).advanced);
    assert_eq!((r.next(), read(&mut r)), (106, b"abcdef".to_vec()));
    assert!(r.take(104, b"efgh", false).advanced);
    assert_eq!((r.next(), read(&mut r)), (111, b"ghij".to_vec()));
    assert!(r.is_finished());
}

/// RFC 9293 section 3.10.7.4: the stream ends at the FIN, whatever else claims a place after it,
/// and whichever of the two comes first.
#[test]
fn nothing_follows_a_fin() {
    for fin_first in [true, false] {
        let mut r = receiver();
        for i in 0..2 {
            match (i == 0) == fin_first {
                true => r.take(102, b"cd", true),
                false => r.take(103, b"xyz", false),
            };
        }
        assert_eq!((r.next(), r.is_finished()), (100, false));
        let past = r.take(100, b"abcdxyz", false);
        assert!(past.advanced && r.is_finished());
        assert_eq!((r.next(), read(&mut r)), (105, b"abcd".to_vec()), "{fin_first}");
        assert_eq!(r.take(105, b"more", false), Taken::default());
        assert_eq!((r.next(), r.readable(), r.sack_blocks(None)[0]), (105, 0, None));
    }
}

/// RFC 2018 section 4, its example of the second and third case: the newest block first.
#[test]
fn the_newest_block_comes_first() {
    let mut r = receiver();
    for start in [110, 130, 150, 170] {
        r.take(start, b"0123456789", false);
    }
    assert_eq!(r.sack_blocks(None), [Some((170, 180)), Some((150, 160)), Some((130, 140))]);
    r.take(140, b"0123456789", false);
    assert_eq!(r.sack_blocks(None), [Some((130, 160)), Some((170, 180)), Some((110, 120))]);
}

/// RFC 2883 section 4.1: what was there already is the first block, below the ACK or in a later
/// block.
#[test]
fn a_duplicate_is_told() {
    let mut r = receiver();
    r.take(100, b"0123456789", false);
    assert_eq!(r.take(105, b"5678", false).duplicate, Some(Span { start: 105, end: 109 }));
    r.take(120, b"0123456789", false);
    let again = r.take(120, b"0123456789", false).duplicate;
    assert_eq!(r.sack_blocks(again), [Some((120, 130)), Some((120, 130)), None]);
    let partly = r.take(100, b"0123456789ab", false);
    assert_eq!(partly.duplicate, Some(Span { start: 100, end: 110 }));
    assert_eq!(r.next(), 112);
}

/// RFC 9293 section 3.8.6.2.2: no small steps, and the edge never goes back.
#[test]
fn the_window_opens_in_steps() {
    let mut r = Receiver::new(100, 1000);
    assert_eq!(r.window(400), 1000);
    r.take(100, &[7; 900], false);
    assert_eq!(r.window(400), 100);
    r.read(&mut [0; 399]);
    assert_eq!(r.window(400), 100);
    r.read(&mut [0; 1]);
    assert_eq!(r.window(400), 500);
}

/// Islands of one byte, ahead and backwards: their list takes up a sixteenth of the buffer at most,
/// or what 512 take up, and the last ones are as cheap as the first.
#[test]
fn islands_are_bounded() {
    let begun = std::time::Instant::now();
    for (limit, backwards) in
        [(4096, false), (1 << 20, true), (128 << 20, false), (128 << 20, true)]
    {
        let mut r = Receiver::new(0, limit);
        r.window(1);
        let most = LEAST_PIECES.max(limit / BYTES_PER_PIECE);
        let mut held = 0;
        for i in 0..2 * most as u64 {
            let island = if backwards { 2 * most as u64 - i } else { 1 + i };
            assert!(r.take(2 * island - 1, b"x", false).out_of_order);
            // An endpoint with a limit of its memory looks at it after each segment.
            held = r.memory().max(held);
        }
        assert_eq!(r.pieces.len(), most);
        assert!(held <= most * 64, "{held} bytes for {most} islands");
    }
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

/// Segments of any size in any order, again and in part, come out as they were written.
#[test]
fn any_order_is_read_as_it_was_written() {
    let stream: Vec<u8> =
        (0..2000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut dice = 7_u64;
    let mut draw = |most: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) % most
    };
    for _ in 0..200 {
        let mut r = Receiver::new(100, 2000);
        r.window(1);
        let mut there = [false; 2000];
        while r.next() < 2100 {
            let start = draw(2000) as usize;
            let end = (start + 1 + draw(100) as usize).min(2000);
            r.take(100 + start as u64, &stream[start..end], false);
            there[start..end].fill(true);
            let first = there.iter().position(|there| !there).unwrap_or(2000);
            assert_eq!(r.next(), 100 + first as u64);
            let mut before = Span::default();
            let mut bytes = r.bytes.len();
            for span in r.pieces.spans() {
                assert!(before.end < span.start);
                (before, bytes) = (span, bytes + (span.end - span.start) as usize);
            }
            assert_eq!(r.len(), bytes + r.pieces.len() * Pieces::BYTES_EACH);
            for (i, there) in there.iter().enumerate().skip(first) {
                assert_eq!(r.piece_with(100 + i as u64).is_some(), *there);
            }
        }
        assert_eq!(r.pieces.memory(), 0);
        let mut all = [0; 3000];
        assert_eq!(r.read(&mut all), 2000);
        assert_eq!(all[..2000], stream);
    }
}
