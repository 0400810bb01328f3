//! The Huffman code of QPACK's strings (RFC 7541 section 5.2 and appendix B): whether a string is
//! well encoded. h3 takes any padding.

/// The symbols of each length in bits, the shortest first, without EOS, which no string has. The
/// code is canonical, so this is all that tells where a symbol ends.
const SYMBOLS: [(u32, u32); 21] = [
    (5, 10),
    (6, 26),
    (7, 32),
    (8, 6),
    (10, 5),
    (11, 3),
    (12, 2),
    (13, 6),
    (14, 2),
    (15, 3),
    (19, 3),
    (20, 8),
    (21, 13),
    (22, 26),
    (23, 29),
    (24, 12),
    (25, 4),
    (26, 15),
    (27, 19),
    (28, 29),
    (30, 3),
];

/// True if these are whole symbols and a padding of less than a byte, all ones.
pub(super) fn is_sound(string: &[u8]) -> bool {
    let (mut code, mut bits) = (0_u32, 0_u32);
    for byte in string {
        for bit in (0..8).rev().map(|shift| u32::from(byte >> shift & 1)) {
            (code, bits) = (code << 1 | bit, bits + 1);
            if is_symbol(code, bits) {
                (code, bits) = (0, 0);
            }
        }
    }
    bits < 8 && code == (1 << bits) - 1
}

fn is_symbol(code: u32, bits: u32) -> bool {
    let (mut first, mut length_before) = (0, 0);
    for (length, symbols) in SYMBOLS {
        first <<= length - length_before;
        if length >= bits {
            return length == bits && code < first + symbols;
        }
        (first, length_before) = (first + symbols, length);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_complete() {
        let share: u64 = SYMBOLS.iter().map(|(bits, all)| u64::from(*all) << (30 - bits)).sum();
        assert_eq!(share, (1 << 30) - 1, "all but EOS");
        assert_eq!(SYMBOLS.iter().map(|(_, all)| all).sum::<u32>(), 256);
    }

    #[test]
    fn a_string_is_symbols_and_less_than_a_byte_of_ones() {
        for (string, expected) in [
            (&[][..], true),
            // "www.example.com" and "no-cache" of RFC 7541 appendix C.4.
            (&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff], true),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], true),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbe], false),
            // "a" with its padding, with another one, and with a byte more.
            (&[0x1f], true),
            (&[0x1b], false),
            (&[0x1f, 0xff], false),
            (&[0xff], false),
            (&[0xff; 4], false),
            // "X" has a code of eight ones less three.
            (&[0xfc], true),
        ] {
            assert_eq!(is_sound(string), expected, "{string:x?}");
        }
    }
}
