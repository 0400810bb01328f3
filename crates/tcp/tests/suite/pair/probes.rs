//! Window probes.

use fullpipe_cc::Duration;
use fullpipe_tcp::{Config, wire};

use super::Pair;

/// RFC 9293 section 3.10.7.4, and its reference on the validation of sequence numbers: both windows
/// are closed, both ends probe, and both applications read while the probes are on their way. Each
/// end takes the other's byte, so every ACK begins one before what the other expects; its ACK field
/// counts nevertheless.
#[test]
fn two_probes_at_one_time_are_no_deadlock() {
    const WANTED: usize = 100_000;
    let config = Config { receive_buffer: 4000, initial_receive_buffer: 4000, ..Config::default() };
    let mut pair = Pair::new(10, &config);
    let handles = pair.connect(&config);
    let data = vec![7; WANTED];
    let (mut written, mut read) = ([0; 2], [0; 2]);
    let (start, mut reads) = (pair.now, false);
    while read != [WANTED; 2] && pair.now.since(start) < Duration::from_secs(170) {
        for i in 0..2 {
            let rest = &data[written[i]..];
            written[i] += pair.ends[i].write(pair.now, handles[i], rest).unwrap_or(0);
            if reads {
                read[i] += pair.read_all(i, handles[i]);
            }
        }
        assert!(pair.step(), "nothing will happen: {read:?}");
        let is_probed = |to| {
            pair.wire.iter().any(|packet| {
                let segment = wire::parse(&packet.2).expect("a sound packet");
                packet.1 == to && segment.payload.len() == 1
            })
        };
        reads |= is_probed(0) && is_probed(1);
    }
    assert!(reads, "two probes cross");
    assert_eq!(read, [WANTED; 2], "after {:?}", pair.now.since(start));
}
