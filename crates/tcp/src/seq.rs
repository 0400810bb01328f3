//! Sequence numbers without an end.
//!
//! A place in a stream is 64 bits, of which the low 32 are the sequence number on the wire (RFC
//! 9293 section 3.4). Everything inside compares places, so only the two functions here know of the
//! wrap.

/// Places begin here, so that a number from before the first one is still a place.
const ORIGIN: u64 = 1 << 32;

/// The place of an initial sequence number.
pub(crate) const fn first(wire: u32) -> u64 {
    ORIGIN + wire as u64
}

/// The place that a sequence number on the wire means: the one that is nearest to `near`.
pub(crate) const fn place(near: u64, wire: u32) -> u64 {
    let ahead = wire.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(ahead as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_the_nearest_place() {
        let near = first(u32::MAX - 1);
        assert_eq!(place(near, u32::MAX), near + 1);
        assert_eq!(place(near, 3), near + 5, "over the wrap");
        assert_eq!(place(near, u32::MAX - 11), near - 10);
        assert_eq!(place(first(0), u32::MAX), first(0) - 1, "before the first one");
    }
}
