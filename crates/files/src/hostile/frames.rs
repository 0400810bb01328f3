//! Frames that nobody sane would send (RFC 9000 section 19), for packets that are protected as they
//! should be.

use fullpipe_noq_repairs::wire::write_integer;

use super::noise::Noise;

/// Types of frames: those of the RFCs, of noq's extensions, and some that are nobody's.
const KINDS: [u64; 46] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
    0x30, 0x31, 0xaf, 0x3e, 0x3f, 0x9f_81a6, 0x9f_81a7, 0x3d_7e90, 0x3d_7e91, 0x3d_7e92, 0x3d_7e93,
    0x3d_7e94, 0x3d_7e95, 0x21,
];

/// As many frames as fit into so many bytes, the rest PADDING.
pub(super) fn fill(noise: &mut Noise, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 64);
    let least = noise.below(bytes + 1);
    while out.len() < least {
        frame(noise, &mut out);
    }
    out.resize(bytes, 0);
    out
}

/// One frame, mostly of the right form.
fn frame(noise: &mut Noise, out: &mut Vec<u8>) {
    let kind = noise.pick(&KINDS);
    write_integer(kind, out);
    let numbers = match kind {
        0x02 | 0x03 => return ack(noise, kind, out),
        0x06 => return crypto(noise, out),
        0x07 => return with_length(noise, out),
        0x08..=0x0f => return stream(noise, kind, out),
        0x04 => 3,
        0x05 | 0x11 | 0x15 => 2,
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => 1,
        0x18 => {
            let (number, before) = (noise.number(), noise.number());
            write_integer(number, out);
            write_integer(if noise.percent(80) { before.min(number) } else { before }, out);
            let length = noise.pick(&[0, 1, 4, 8, 8, 8, 20, 21, 255]);
            out.push(length);
            let bytes = noise.bytes(usize::from(length.min(20)) + 16);
            return out.extend_from_slice(&bytes);
        }
        0x1a | 0x1b => return out.extend_from_slice(&noise.bytes(8)),
        0x1c => {
            write_integer(noise.number(), out);
            write_integer(noise.number(), out);
            return with_length(noise, out);
        }
        0x1d => {
            write_integer(noise.number(), out);
            return with_length(noise, out);
        }
        0x31 => return with_length(noise, out),
        0xaf => 4,
        0x00 | 0x01 | 0x1e | 0x1f | 0x30 => 0,
        _ => noise.below(5),
    };
    for _ in 0..numbers {
        write_integer(noise.number(), out);
    }
}

fn ack(noise: &mut Noise, kind: u64, out: &mut Vec<u8>) {
    let ranges = noise.pick(&[0, 0, 1, 2, 40, 300]);
    for number in [noise.number(), noise.number()] {
        write_integer(number, out);
    }
    write_integer(if noise.percent(5) { noise.number() } else { ranges }, out);
    write_integer(noise.number(), out);
    for _ in 0..ranges * 2 {
        write_integer(noise.number(), out);
    }
    if kind == 0x03 {
        for _ in 0..3 {
            write_integer(noise.number(), out);
        }
    }
}

fn crypto(noise: &mut Noise, out: &mut Vec<u8>) {
    write_integer(noise.number(), out);
    with_length(noise, out);
}

fn stream(noise: &mut Noise, kind: u64, out: &mut Vec<u8>) {
    // Streams of either end, of both kinds, also those that nobody opened.
    write_integer(noise.number(), out);
    if kind & 4 != 0 {
        write_integer(noise.number(), out);
    }
    if kind & 2 != 0 {
        return with_length(noise, out);
    }
    let count = noise.below(60);
    let bytes = content(noise, count);
    out.extend_from_slice(&bytes);
}

/// Bytes behind their length, which is a lie now and then.
fn with_length(noise: &mut Noise, out: &mut Vec<u8>) {
    let count = noise.below(80);
    write_integer(if noise.percent(5) { noise.number() } else { count as u64 }, out);
    let bytes = content(noise, count);
    out.extend_from_slice(&bytes);
}

/// The content of a stream: requests of both protocols, frames of HTTP/3, or noise.
fn content(noise: &mut Noise, count: usize) -> Vec<u8> {
    let mut bytes = match noise.below(5) {
        0 => b"GET /bulk/1000\r\n".to_vec(),
        1 => b"GET /../../etc/passwd HTTP/1.1\r\n\r\n".to_vec(),
        2 => http3(noise),
        _ => noise.bytes(count),
    };
    bytes.resize(count, 0);
    bytes
}

/// Frames of HTTP/3 (RFC 9114 section 7.2), behind the type of a stream now and then.
pub(super) fn http3(noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    if noise.percent(30) {
        write_integer(noise.pick(&[0, 1, 2, 3, 0x21, 0x54]), &mut out);
    }
    for _ in 0..=noise.below(3) {
        write_integer(noise.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xd, 0x21, 0x40]), &mut out);
        let count = noise.below(40);
        write_integer(if noise.percent(10) { noise.number() } else { count as u64 }, &mut out);
        let mut bytes = noise.bytes(count);
        if noise.percent(50) {
            // The field lines of a GET with QPACK's static table.
            let get = [0, 0, 0xd1, 0xd7, 0xc1, 0x50, 9];
            bytes.iter_mut().zip(get).for_each(|(byte, of)| *byte = of);
        }
        out.extend_from_slice(&bytes);
    }
    out
}
