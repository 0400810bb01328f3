//! The extension headers of an IPv6 packet (RFC 8200 section 4).

/// Most extension headers that are looked at: each kind in its order once, and one more of the
/// kind that may come twice (section 4.1), are five.
const MOST: usize = 5;

const HOP_BY_HOP: u8 = 0;
const TCP: u8 = 6;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// The TCP segment of a packet whose first header is of the type `next` and begins `bytes`. `None`
/// if there is none, if options ask that who does not know them throws the packet away, if a
/// routing header leads on, or if it is a fragment; one that is the whole packet (RFC 6946) is
/// taken.
pub(super) fn segment(next: u8, bytes: &[u8]) -> Option<&[u8]> {
    let (mut next, mut bytes) = (next, bytes);
    for i in 0..=MOST {
        let end = match next {
            TCP => return Some(bytes),
            FRAGMENT => 8,
            _ => 8 + 8 * usize::from(*bytes.get(1)?),
        };
        let header = bytes.get(..end)?;
        let may_pass = match next {
            // Only in front of all others (section 4.1).
            HOP_BY_HOP => i == 0 && knows_options(&header[2..]),
            DESTINATION => knows_options(&header[2..]),
            // Segments left (section 4.4).
            ROUTING => header[3] == 0,
            // Offset and more fragments.
            FRAGMENT => header[2] == 0 && header[3] & 0xf9 == 0,
            _ => false,
        };
        if !may_pass {
            return None;
        }
        (next, bytes) = (header[0], &bytes[end..]);
    }
    None
}

/// Section 4.2: an option that this end does not know is passed over if the first two bits of its
/// type are 0. Padding is among these.
fn knows_options(options: &[u8]) -> bool {
    let mut rest = options;
    while let Some((&kind, tail)) = rest.split_first() {
        if kind == 0 {
            rest = tail;
            continue;
        }
        let Some((&len, tail)) = tail.split_first() else { return false };
        if kind >> 6 != 0 || tail.len() < usize::from(len) {
            return false;
        }
        rest = &tail[usize::from(len)..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_before_the_segment_are_passed_over() {
        let pad = [DESTINATION, 0, 1, 4, 0, 0, 0, 0];
        let more = [ROUTING, 1, 0, 5, 2, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0];
        let mut routing = [FRAGMENT, 0, 4, 0, 0, 0, 0, 0];
        let atomic = [TCP, 0, 0, 0, 1, 2, 3, 4];
        let all = |routing: [u8; 8], atomic: [u8; 8]| {
            [&pad[..], &more, &routing, &atomic, b"segment"].concat()
        };
        assert_eq!(segment(HOP_BY_HOP, &all(routing, atomic)), Some(&b"segment"[..]));
        assert_eq!(segment(DESTINATION, &all(routing, atomic)), Some(&b"segment"[..]));
        assert_eq!(segment(TCP, b"segment"), Some(&b"segment"[..]));
        for fragment in [[TCP, 0, 0, 1, 1, 2, 3, 4], [TCP, 0, 0, 8, 1, 2, 3, 4]] {
            assert_eq!(segment(HOP_BY_HOP, &all(routing, fragment)), None, "a fragment");
        }
        routing[3] = 1;
        assert_eq!(segment(HOP_BY_HOP, &all(routing, atomic)), None, "it is for somebody else");
        assert_eq!(segment(59, &[]), None, "no next header");
        for cut in 0..32 {
            let whole = all([FRAGMENT, 0, 4, 0, 0, 0, 0, 0], atomic);
            assert_eq!(segment(HOP_BY_HOP, &whole[..cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn options_and_orders_that_forbid_it_are_obeyed() {
        let option = |kind: u8| [TCP, 0, kind, 4, 0, 0, 0, 0, b'x'];
        assert_eq!(segment(DESTINATION, &option(0x1e)), Some(&b"x"[..]));
        for kind in [0x41, 0x81, 0xc2] {
            assert_eq!(segment(DESTINATION, &option(kind)), None);
        }
        assert_eq!(segment(DESTINATION, &[TCP, 0, 1, 9, 0, 0, 0, 0, b'x']), None, "too long");
        let late = [HOP_BY_HOP, 0, 1, 4, 0, 0, 0, 0, TCP, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(segment(DESTINATION, &late), None);
        let many = [DESTINATION, 0, 1, 4, 0, 0, 0, 0].repeat(20);
        assert_eq!(segment(DESTINATION, &many), None);
    }
}
