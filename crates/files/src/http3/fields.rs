//! The pseudo-header fields of a message (RFC 9114 section 4.3), read from its encoded field
//! section (RFC 9204 section 4.5). h3 takes the last of several and takes them in any order, and
//! does not tell.

use super::huffman::is_sound;

/// The pseudo-header fields of a field section, each counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Pseudo {
    method: u32,
    scheme: u32,
    authority: u32,
    path: u32,
    /// Those that no request of a client has here: `:status`, `:protocol`, and unknown ones.
    foreign: u32,
    has_empty_path: bool,
    /// True if one comes behind a field that is none.
    comes_late: bool,
    /// True if the value of one of the foreign ones begins with 1.
    begins_with_1: bool,
}

impl Pseudo {
    /// Reads a field section. `None` if it is not well encoded or needs the dynamic table.
    pub(super) fn read(section: &[u8]) -> Option<Self> {
        // Required Insert Count is 0, and Base is not negative (RFC 9204 section 4.5.1).
        let (&[0, 0..0x80], _) = section.split_first_chunk()? else { return None };
        let mut rest = &section[1..];
        integer(&mut rest, 7)?;
        let (mut pseudo, mut is_behind) = (Self::default(), false);
        while let Some(&first) = rest.first() {
            let (kind, value) = field_line(&mut rest, first)?;
            match kind {
                Kind::Plain => is_behind = true,
                _ if is_behind => pseudo.comes_late = true,
                Kind::Method => pseudo.method += 1,
                Kind::Scheme => pseudo.scheme += 1,
                Kind::Authority => pseudo.authority += 1,
                Kind::Path => {
                    pseudo.path += 1;
                    pseudo.has_empty_path = value.is_empty();
                }
                Kind::Foreign => {
                    pseudo.foreign += 1;
                    pseudo.begins_with_1 |= value.begins_with_1();
                }
            }
        }
        Some(pseudo)
    }

    /// The reason why a request with these is malformed; `is_connect` if its method is CONNECT.
    pub(super) fn malformed(&self, is_connect: bool) -> Option<&'static str> {
        // CONNECT has an authority and neither scheme nor path (RFC 9114 section 4.4).
        let wanted = u32::from(!is_connect);
        match *self {
            Self { comes_late: true, .. } => Some("a pseudo-header field behind another field"),
            Self { foreign: 1.., .. } => Some("a pseudo-header field that no request has"),
            Self { method, scheme, path, authority, .. }
                if method > 1 || scheme > 1 || path > 1 || authority > 1 =>
            {
                Some("a pseudo-header field twice")
            }
            Self { method: 0, .. } => Some("no :method"),
            Self { scheme, path, .. } if scheme != wanted || path != wanted => {
                Some("not the pseudo-header fields of its method")
            }
            Self { has_empty_path: true, .. } => Some("an empty :path"),
            _ => None,
        }
    }

    /// True if this is an interim answer (RFC 9110 section 15.2), unless it is malformed.
    pub(super) fn is_interim(&self) -> bool {
        self.begins_with_1
    }

    /// The reason why an answer with these is malformed. h3 asks for `:status` in its header.
    pub(super) fn malformed_of_answer(&self, in_trailers: bool) -> Option<&'static str> {
        match *self {
            Self { comes_late: true, .. } => Some("a pseudo-header field behind another field"),
            Self { method: 0, scheme: 0, authority: 0, path: 0, foreign, .. } => match foreign {
                0 => None,
                _ if in_trailers => Some("a pseudo-header field in trailers"),
                1 => None,
                _ => Some("a pseudo-header field twice"),
            },
            _ => Some("a pseudo-header field that no answer has"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Method,
    Scheme,
    Authority,
    Path,
    Foreign,
    /// A field that is no pseudo-header field.
    Plain,
}

const NAMES: [(&str, Kind); 4] = [
    (":method", Kind::Method),
    (":scheme", Kind::Scheme),
    (":authority", Kind::Authority),
    (":path", Kind::Path),
];

impl Kind {
    /// The name at an index of the static table (RFC 9204 appendix A).
    fn of_index(index: usize) -> Self {
        match index {
            0 => Self::Authority,
            1 => Self::Path,
            15..=21 => Self::Method,
            22 | 23 => Self::Scheme,
            24..=28 | 63..=71 => Self::Foreign,
            _ => Self::Plain,
        }
    }

    /// A name that is written out.
    fn of_name(name: &[u8], is_huffman: bool) -> Self {
        // A colon has seven bits in Huffman code (RFC 7541 appendix B).
        let is_pseudo = match name.first() {
            Some(first) if is_huffman => first >> 1 == 0x5c,
            first => first == Some(&b':'),
        };
        if !is_pseudo {
            return Self::Plain;
        }
        let is_it = |known: &str| match is_huffman {
            true => huffman(known) == name,
            false => known.as_bytes() == name,
        };
        NAMES.iter().find(|(known, _)| is_it(known)).map_or(Self::Foreign, |(_, kind)| *kind)
    }
}

/// A field's value.
enum Value<'a> {
    /// That of an index of the static table.
    Of(usize),
    /// Its own, as it is encoded.
    Own { bytes: &'a [u8], is_huffman: bool },
}

impl Value<'_> {
    /// True if it is its own, and nothing.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Own { bytes: [], .. })
    }

    /// True if a status begins with 1.
    fn begins_with_1(&self) -> bool {
        match *self {
            // :status 103 and 100 (RFC 9204 appendix A).
            Self::Of(index) => matches!(index, 24 | 63),
            // 1 has five bits in Huffman code (RFC 7541 appendix B).
            Self::Own { bytes: [first, ..], is_huffman: true } => first >> 3 == 1,
            Self::Own { bytes, .. } => bytes.starts_with(b"1"),
        }
    }
}

/// The next field line (RFC 9204 section 4.5), which begins with `first`.
fn field_line<'a>(rest: &mut &'a [u8], first: u8) -> Option<(Kind, Value<'a>)> {
    let is_static = |bit: u8| first & bit != 0;
    let kind = match first {
        0x80.. => {
            let index = integer(rest, 6)?;
            return is_static(0x40).then(|| (Kind::of_index(index), Value::Of(index)));
        }
        0x40..=0x7f => {
            let index = integer(rest, 4)?;
            is_static(0x10).then(|| Kind::of_index(index))?
        }
        0x20..=0x3f => {
            let length = integer(rest, 3)?;
            let (name, is_huffman) = (take(rest, length)?, first & 0x08 != 0);
            if is_huffman && !is_sound(name) {
                return None;
            }
            Kind::of_name(name, is_huffman)
        }
        _ => return None,
    };
    let is_huffman = rest.first()? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let bytes = take(rest, length)?;
    (!is_huffman || is_sound(bytes)).then_some((kind, Value::Own { bytes, is_huffman }))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

/// An integer with a prefix of so many bits (RFC 7541 section 5.1), of less than 2^28 above the
/// prefix: frames are shorter.
fn integer(rest: &mut &[u8], prefix_bits: u32) -> Option<usize> {
    let (&first, mut behind) = rest.split_first()?;
    let most = usize::from(u8::MAX >> (8 - prefix_bits));
    let mut value = usize::from(first) & most;
    if value == most {
        for shift in [0, 7, 14, 21] {
            let (&next, after) = behind.split_first()?;
            behind = after;
            value += usize::from(next & 0x7f) << shift;
            if next < 0x80 {
                *rest = behind;
                return Some(value);
            }
        }
        return None;
    }
    *rest = behind;
    Some(value)
}

/// The Huffman code of a name of [`NAMES`] (RFC 7541 section 5.2 and appendix B).
fn huffman(name: &str) -> Vec<u8> {
    let (mut code, mut bits) = (0_u128, 0_u32);
    for letter in name.bytes() {
        let (of_letter, length) = match letter {
            b':' => (0x5c, 7),
            b'a' => (0x03, 5),
            b'c' => (0x04, 5),
            b'd' => (0x24, 6),
            b'e' => (0x05, 5),
            b'h' => (0x27, 6),
            b'i' => (0x06, 5),
            b'm' => (0x29, 6),
            b'o' => (0x07, 5),
            b'p' => (0x2b, 6),
            b'r' => (0x2c, 6),
            b's' => (0x08, 5),
            b't' => (0x09, 5),
            b'u' => (0x2d, 6),
            _ => (0x7a, 7), // y
        };
        (code, bits) = (code << length | of_letter, bits + length);
    }
    let padding = bits.wrapping_neg() & 7;
    let padded = (code << padding) | ((1 << padding) - 1);
    let bytes = ((bits + padding) / 8) as usize;
    padded.to_be_bytes()[16 - bytes..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GET https /, with an authority of one letter.
    const SOUND: [u8; 8] = [0, 0, 0xc0 | 17, 0xc0 | 23, 0xc0 | 1, 0x50, 1, b'x'];

    fn verdict(lines: &[&[u8]]) -> Option<&'static str> {
        let section = [&SOUND[..], &lines.concat()].concat();
        Pseudo::read(&section).expect("well encoded").malformed(false)
    }

    #[test]
    fn each_comes_once_before_the_other_fields() {
        // user-agent by its index, and as a literal name.
        let plain: [&[u8]; 2] = [&[0x5f, 80, 1, b'f'], &[0x21, b'a', 1, b'b']];
        assert_eq!(verdict(&[]), None);
        assert_eq!(verdict(&plain), None);
        for twice in [&[0xc0 | 17][..], &[0xc0 | 22], &[0xc0 | 1], &[0x50, 1, b'y']] {
            assert_eq!(verdict(&[twice]), Some("a pseudo-header field twice"));
            let late = verdict(&[plain[1], twice]);
            assert_eq!(late, Some("a pseudo-header field behind another field"));
        }
        // :method written out, plain and in Huffman code.
        let name = huffman(":method");
        let coded = [&[0x28 | name.len() as u8][..], &name, &[1, b'G']].concat();
        let written = [&[0x27, 0][..], b":method", &[1, b'G']].concat();
        for twice in [&coded, &written] {
            assert_eq!(verdict(&[twice]), Some("a pseudo-header field twice"), "{twice:x?}");
        }
        let foreign = Some("a pseudo-header field that no request has");
        assert_eq!(verdict(&[&[0xc0 | 25]]), foreign, ":status 200");
        assert_eq!(verdict(&[&[0x27, 2][..], b":protocol", &[1, b'w']]), foreign);
    }

    #[test]
    fn what_a_request_needs_depends_on_its_method() {
        let connect = [0, 0, 0xc0 | 15, 0x50, 1, b'x'];
        let pseudo = Pseudo::read(&connect).expect("well encoded");
        assert_eq!(pseudo.malformed(true), None);
        assert_eq!(pseudo.malformed(false), Some("not the pseudo-header fields of its method"));
        let get = Pseudo::read(&SOUND).expect("well encoded");
        assert_eq!(get.malformed(true), Some("not the pseudo-header fields of its method"));
        let empty = [0, 0, 0xc0 | 17, 0xc0 | 23, 0x51, 0, 0x50, 1, b'x'];
        let empty = Pseudo::read(&empty).expect("well encoded");
        assert_eq!(empty.malformed(false), Some("an empty :path"));
    }

    #[test]
    fn an_interim_answer_is_known_however_its_status_is_encoded() {
        let interim = |line: &[u8]| {
            let section = [&[0, 0], line].concat();
            Pseudo::read(&section).expect("well encoded").is_interim()
        };
        // 103 and 100 of the static table; the name of it; 103 and 199 in Huffman code.
        for line in [
            &[0xc0 | 24][..],
            &[0xff, 0],
            &[0x5f, 9, 3, b'1', b'0', b'0'],
            &[0x5f, 9, 0x82, 0x08, 0x19],
            &[0x5f, 9, 0x83, 0x0b, 0xef, 0xff],
            b"\x27\x00:status\x03103",
        ] {
            assert!(interim(line), "{line:x?}");
        }
        // 200, 204 and 503 of the static table; 200 in Huffman code; a field that is none.
        for line in [
            &[0xc0 | 25][..],
            &[0xff, 1],
            &[0xc0 | 28],
            &[0x5f, 9, 3, b'2', b'0', b'0'],
            &[0x5f, 9, 0x82, 0x10, 0x01],
            b"\x21x\x011",
        ] {
            assert!(!interim(line), "{line:x?}");
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        for cut in 0..SOUND.len() {
            let _ = Pseudo::read(&SOUND[..cut]);
        }
        for wrong in [&[][..], &[0], &[0, 0, 0x00], &[0, 0, 0x80], &[0, 0, 0x27, 0xff]] {
            assert_eq!(Pseudo::read(wrong), None, "{wrong:x?}");
        }
        let mut bytes = [0xff_u8; 40];
        for i in 0..20_000_u32 {
            let at = i as usize % bytes.len();
            bytes[at] = (i.wrapping_mul(0x9e37_79b1) >> 24) as u8;
            let _ = Pseudo::read(&bytes);
        }
    }
}
