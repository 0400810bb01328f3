//! The bytes that say what happens, as a fuzzer gives them.

pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// 0 when they are used up.
    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// A small difference, mostly.
    pub(crate) fn near(&mut self) -> u32 {
        let (Some(kind), Some(by)) = (self.next(), self.next()) else { return 0 };
        let by = i32::from(by as i8);
        match kind % 8 {
            0..=3 => 0,
            4 => by as u32,
            5 => (by * 100) as u32,
            6 => (by * 5000) as u32,
            _ => (by as u32) << 24,
        }
    }
}
