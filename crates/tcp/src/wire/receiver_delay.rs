//! The receiver's part of a round trip, in an option of this crate's own: an experiment in the
//! sense of RFC 6994. smoltcp does not know it, so it is read and written here.
//!
//! Its purpose is that of draft-yang-tcpm-ets, whose extensible timestamps tell a receiver's delay
//! as well, and take the place of those of RFC 7323. A SYN and a SYN-ACK with the bare
//! identifier agree on it. Then an ACK has two numbers of three bytes behind the identifier, in
//! microseconds and in network order: the time for which the host was busy, and the time for which
//! the ACK was held back on purpose.

use fullpipe_cc::Duration;
use smoltcp::wire::{TcpOption, TcpPacket};

use super::insert_options;

/// The kind of experiments (RFC 4727 section 5).
const KIND: u8 = 253;
/// The experiment's identifier, "fpRD". It is private: not in IANA's registry, which has none that
/// begins with the same two bytes (RFC 6994 section 4.2).
const EXID: [u8; 4] = *b"fpRD";
/// Bytes for the kind, the length and the identifier.
const HEAD: usize = 2 + EXID.len();
/// Bytes of one time.
const TIME: usize = 3;
/// The longest time that can be told, 16.8 s.
const LONGEST: u64 = (1 << (8 * TIME)) - 1;
/// NOP of RFC 9293 section 3.1.
const NOP: u8 = 1;

/// The receiver's part of the round trip of the newest data that an ACK is about. On the wire both
/// parts are whole microseconds, rounded down, of at most 16.7 seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverDelay {
    /// The time for which the host was busy: from the data's arrival at the network interface until
    /// the transport got it, and from when the ACK was due until it left.
    pub host: Duration,
    /// The time between these, for which the receiver held the ACK back on purpose (a delayed ACK,
    /// RFC 9293 section 3.8.6.3).
    pub wait: Duration,
}

impl ReceiverDelay {
    /// Bytes of the option that tells it, which needs no padding.
    pub(super) const LEN: usize = HEAD + 2 * TIME;
    /// Bytes of the option that agrees on it, with NOPs in front.
    pub(super) const PERMITTED_LEN: usize = HEAD.next_multiple_of(4);

    /// The whole of it.
    pub(crate) fn sum(self) -> Duration {
        self.host + self.wait
    }

    /// Puts the option in front of the others in a TCP header that has `bytes` without it, and
    /// whose buffer has room for both.
    pub(super) fn put(self, tcp: &mut [u8], bytes: usize) {
        let option = insert_options(tcp, bytes, Self::LEN);
        put_head(option);
        for (to, time) in option[HEAD..].chunks_exact_mut(TIME).zip([self.host, self.wait]) {
            let micros = (time.as_nanos() / 1_000).min(LONGEST) as u32;
            to.copy_from_slice(&micros.to_be_bytes()[1..]);
        }
    }
}

/// Puts the option of a SYN in front of the others, as [`ReceiverDelay::put`].
pub(super) fn put_permitted(tcp: &mut [u8], bytes: usize) {
    let option = insert_options(tcp, bytes, ReceiverDelay::PERMITTED_LEN);
    let padding = option.len() - HEAD;
    option[..padding].fill(NOP);
    put_head(&mut option[padding..]);
}

/// The kind, the length of all of `option`, and the identifier.
fn put_head(option: &mut [u8]) {
    (option[0], option[1]) = (KIND, option.len() as u8);
    option[2..HEAD].copy_from_slice(&EXID);
}

/// The option of a segment: whether a SYN agrees on it, and what another segment tells. The first
/// one counts; one of an impossible length is none, and what follows on an option that cannot be
/// read is passed by.
pub(super) fn read(tcp: &TcpPacket<&[u8]>) -> (bool, Option<ReceiverDelay>) {
    match content(tcp.options()) {
        Some([]) if tcp.syn() => (true, None),
        Some(&[h0, h1, h2, w0, w1, w2]) if !tcp.syn() => {
            let time = |bytes| Duration::from_micros(u32::from_be_bytes(bytes).into());
            let (host, wait) = (time([0, h0, h1, h2]), time([0, w0, w1, w2]));
            (false, Some(ReceiverDelay { host, wait }))
        }
        _ => (false, None),
    }
}

/// The bytes behind the identifier.
fn content(options: &[u8]) -> Option<&[u8]> {
    let mut options = options;
    // Nothing else of a segment with less than that is of interest.
    while options.len() >= HEAD {
        let (rest, option) = TcpOption::parse(options).ok()?;
        match option {
            TcpOption::EndOfList => return None,
            TcpOption::Unknown { kind: KIND, data } if data.starts_with(&EXID) => {
                return Some(&data[EXID.len()..]);
            }
            _ => options = rest,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Control, Header, Timestamp, parse, write};
    use alloc::vec::Vec;
    use core::net::SocketAddr;
    use smoltcp::wire::{IpAddress, TcpPacket};
    use std::vec;

    /// Bytes of the IP header and of the TCP header without options.
    const IP: usize = 20;
    const TCP: usize = 20;

    fn delay(host: u64, wait: u64) -> ReceiverDelay {
        ReceiverDelay { host: Duration::from_micros(host), wait: Duration::from_micros(wait) }
    }

    fn packet(header: &Header) -> Vec<u8> {
        let mut out = Vec::new();
        let ends = [1, 2].map(|i| SocketAddr::from(([10, 0, 0, i], 80)));
        write(&mut out, ends[0], ends[1], header, [b"data", b""]);
        out
    }

    fn read_back(header: &Header) -> Option<Header> {
        parse(&packet(header)).map(|segment| segment.header)
    }

    /// The header of a packet that has these bytes in place of its options, with good checksums.
    fn with_options(header: &Header, options: &[u8]) -> Option<(bool, Option<ReceiverDelay>)> {
        let mut out = packet(&Header { timestamp: None, ..*header });
        assert_eq!(out.len(), IP + TCP + 4, "no options so far");
        assert!(options.len().is_multiple_of(4) && options.len() <= 40);
        out.splice(IP + TCP..IP + TCP, options.iter().copied());
        let total = out.len() as u16;
        out[2..4].copy_from_slice(&total.to_be_bytes());
        let mut ip = smoltcp::wire::Ipv4Packet::new_unchecked(&mut out[..]);
        ip.fill_checksum();
        let mut tcp = TcpPacket::new_unchecked(&mut out[IP..]);
        tcp.set_header_len((TCP + options.len()) as u8);
        let ends = [1, 2].map(|i| IpAddress::v4(10, 0, 0, i));
        tcp.fill_checksum(&ends[0], &ends[1]);
        let read = parse(&out)?.header;
        Some((read.delay_permitted, read.receiver_delay))
    }

    /// An option as RFC 6994 section 3.1 has it: kind, length, identifier, content.
    fn option(content: &[u8]) -> Vec<u8> {
        let mut option = vec![253, 6 + content.len() as u8, b'f', b'p', b'R', b'D'];
        option.extend(content);
        option
    }

    #[test]
    fn what_is_told_is_read() {
        let timestamp = Some(Timestamp { value: 5, echo: 6 });
        let longest = LONGEST;
        for (told, read) in [
            (delay(0, 0), delay(0, 0)),
            (delay(90, 40_000), delay(90, 40_000)),
            (delay(longest, longest), delay(longest, longest)),
            (delay(longest + 1, u64::from(u32::MAX)), delay(longest, longest)),
        ] {
            for blocks in 0..3 {
                let mut sack = [None; 3];
                sack[..blocks].fill(Some((9, 12)));
                let ack = Some(7);
                let header = Header {
                    ack,
                    sack,
                    timestamp,
                    receiver_delay: Some(told),
                    ..Header::default()
                };
                let expected = Header { receiver_delay: Some(read), ..header };
                assert_eq!(read_back(&header), Some(expected), "{blocks} blocks");
            }
        }
    }

    /// With timestamps there is room beside two SACK blocks, and beside three without them.
    #[test]
    fn sack_blocks_come_first() {
        let told = Some(delay(1, 2));
        let stamps = Some(Timestamp { value: 5, echo: 6 });
        for (timestamp, blocks, has_room) in
            [(stamps, 2, true), (stamps, 3, false), (None, 3, true)]
        {
            let mut sack = [None; 3];
            sack[..blocks].fill(Some((9, 12)));
            let (ack, receiver_delay) = (Some(7), told);
            let mut header = Header { ack, sack, timestamp, receiver_delay, ..Header::default() };
            header.leave_out_excess();
            assert_eq!(header.receiver_delay.is_some(), has_room, "{blocks} blocks");
            assert!(header.bytes() <= 60);
            assert_eq!(read_back(&header).map(|header| header.sack), Some(sack));
        }
    }

    #[test]
    fn a_syn_agrees_and_tells_nothing() {
        let syn = Header { control: Control::Syn, mss: Some(1460), ..Header::default() };
        for delay_permitted in [false, true] {
            let syn = Header { delay_permitted, ..syn };
            assert_eq!(read_back(&syn), Some(syn));
        }
        assert_eq!(with_options(&syn_without_options(), &padded(&option(&[0; 6]))), NOTHING);
        let bare = padded(&option(&[]));
        assert_eq!(with_options(&syn_without_options(), &bare), Some((true, None)));
        assert_eq!(with_options(&Header::default(), &bare), NOTHING, "no SYN");
    }

    const NOTHING: Option<(bool, Option<ReceiverDelay>)> = Some((false, None));

    fn syn_without_options() -> Header {
        Header { control: Control::Syn, ..Header::default() }
    }

    fn padded(options: &[u8]) -> Vec<u8> {
        let mut padded = options.to_vec();
        padded.resize(options.len().next_multiple_of(4), 1);
        padded
    }

    /// Nonsense is no option, and the first of two counts.
    #[test]
    fn an_impossible_option_is_none() {
        let header = Header::default();
        let sound = option(&[0, 0, 90, 0, 1, 0]);
        let told = Some((false, Some(delay(90, 256))));
        assert_eq!(with_options(&header, &sound), told);
        for count in (0..30).filter(|count| *count != 6) {
            let options = padded(&option(&vec![1; count]));
            assert_eq!(with_options(&header, &options), NOTHING, "{count} bytes");
        }
        let twice = [sound.clone(), option(&[9; 6])].concat();
        assert_eq!(with_options(&header, &twice), told);
        let mut other = sound.clone();
        other[3] = b'x';
        assert_eq!(with_options(&header, &other), NOTHING, "somebody else's experiment");
        let behind = [other, sound.clone()].concat();
        assert_eq!(with_options(&header, &behind), told, "behind somebody else's");
        let after_end = [vec![0; 4], sound.clone()].concat();
        assert_eq!(with_options(&header, &after_end), NOTHING, "behind the end of the list");
        // A length of zero, one, or beyond the header: smoltcp refuses the segment.
        for length in [0, 1, 13, 200] {
            let mut bad = sound.clone();
            bad[1] = length;
            assert_eq!(with_options(&header, &bad), None, "a length of {length}");
        }
    }
}
