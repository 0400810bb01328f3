//! The header fields of a packet on a path.

/// The ECN codepoint in a packet's IP header (RFC 3168 section 5, RFC 9331).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ecn {
    /// The transport does not speak ECN: a queue that wants to signal has to drop.
    #[default]
    NotEct,
    /// ECN-capable, classic: a mark means the same as a loss.
    Ect0,
    /// ECN-capable, scalable (L4S): a queue may mark early and often.
    Ect1,
    /// Congestion experienced: a queue on the way has marked it.
    Ce,
}

impl Ecn {
    /// True if a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// The part of a packet that the path reads: the rest is the caller's payload.
///
/// A plain number converts to a packet of that size, of flow 0, whose transport does not support
/// ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The size on the wire, IP and UDP headers included.
    pub wire_bytes: u32,
    /// Whose packet it is: what a queue per flow tells flows apart by.
    pub flow: u32,
    /// The ECN codepoint.
    pub ecn: Ecn,
}

impl From<u32> for Header {
    fn from(wire_bytes: u32) -> Self {
        Self { wire_bytes, flow: 0, ecn: Ecn::NotEct }
    }
}
