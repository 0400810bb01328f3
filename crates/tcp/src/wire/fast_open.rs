//! The Fast Open option (RFC 7413 section 4.1.1): a cookie in a SYN or SYN-ACK. smoltcp does not
//! know it, so it is read and written here.

use smoltcp::wire::{TcpOption, TcpPacket};

use super::insert_options;

/// The kind of the option (RFC 7413 section 9).
const KIND: u8 = 34;
/// A byte for the kind, and one for the length.
const HEAD: usize = 2;
/// NOP of RFC 9293 section 3.1.
const NOP: u8 = 1;
/// Bytes of the smallest and the largest cookie (RFC 7413 section 4.1.1).
const SMALLEST: usize = 4;
const LARGEST: usize = 16;

/// A Fast Open cookie, or the request for one (RFC 7413 section 4.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FastOpen {
    bytes: [u8; LARGEST],
    count: u8,
}

impl FastOpen {
    /// The request for a cookie: the option without one.
    pub const REQUEST: Self = Self { bytes: [0; LARGEST], count: 0 };

    /// A cookie of 4 to 16 bytes, whose number is even, or none for a request; `None` for any other
    /// length, with which the option is ignored (RFC 7413 section 4.1.1).
    pub fn new(cookie: &[u8]) -> Option<Self> {
        let is_sound = cookie.len().is_multiple_of(2)
            && (cookie.is_empty() || (SMALLEST..=LARGEST).contains(&cookie.len()));
        if !is_sound {
            return None;
        }
        let mut bytes = [0; LARGEST];
        bytes[..cookie.len()].copy_from_slice(cookie);
        Some(Self { bytes, count: cookie.len() as u8 })
    }

    /// The cookie; empty for a request.
    pub fn cookie(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }

    /// True for the request for a cookie.
    pub fn is_request(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the option with NOPs in front, so that those of others stay where they belong.
    pub(super) fn len(&self) -> usize {
        (HEAD + usize::from(self.count)).next_multiple_of(4)
    }

    /// Puts the option in front of the others in a TCP header that has `bytes` without it, and
    /// whose buffer has room for both.
    pub(super) fn put(&self, tcp: &mut [u8], bytes: usize) {
        let option = insert_options(tcp, bytes, self.len());
        option.fill(NOP);
        let start = option.len() - HEAD - self.cookie().len();
        option[start] = KIND;
        option[start + 1] = (HEAD + self.cookie().len()) as u8;
        option[start + HEAD..].copy_from_slice(self.cookie());
    }
}

/// The option of a SYN. One with an impossible length is none, and what follows on an option that
/// cannot be read is passed by.
pub(super) fn read(tcp: &TcpPacket<&[u8]>) -> Option<FastOpen> {
    if !tcp.syn() {
        // Section 4.1.1: it counts with the SYN flag alone.
        return None;
    }
    let mut options = tcp.options();
    while !options.is_empty() {
        let (rest, option) = TcpOption::parse(options).ok()?;
        match option {
            TcpOption::EndOfList => return None,
            TcpOption::Unknown { kind: KIND, data } => return FastOpen::new(data),
            _ => options = rest,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 4.1.1.
    #[test]
    fn a_cookie_has_an_even_number_of_bytes_from_4_to_16() {
        for count in 0..20 {
            let cookie = [7; 20];
            let option = FastOpen::new(&cookie[..count]);
            let is_sound = count % 2 == 0 && (count == 0 || (4..=16).contains(&count));
            assert_eq!(option.is_some(), is_sound, "{count} bytes");
            assert!(option.is_none_or(|option| option.cookie() == &cookie[..count]));
        }
    }
}
