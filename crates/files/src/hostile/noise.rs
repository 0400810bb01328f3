//! Numbers that look random and are the same in every run, and what they change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Noise(u64);

/// One of them for several owners.
#[derive(Clone, Debug)]
pub(crate) struct SharedNoise(Arc<Mutex<Noise>>);

impl SharedNoise {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Noise::new(seed))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Noise> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Less than `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number at or near a limit of a variable-length integer, a small one, or any.
    pub(super) fn number(&mut self) -> u64 {
        let most = (1 << 62) - 1;
        match self.below(8) {
            0 => self.next() & most,
            1 => self.next() & 0xffff,
            2 => self.pick(&[63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, most - 1, most]),
            _ => self.next() % 24,
        }
    }

    /// Changes some bytes without changing their number.
    pub(super) fn change(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.byte(),
                2 => bytes[at] = self.pick(&[0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff]),
                3 => {
                    let end = bytes.len().min(at + 1 + self.below(16));
                    bytes[at..end].fill_with(|| self.byte());
                }
                4 => {
                    let end = bytes.len().min(at + 1 + self.below(16));
                    let from = self.below(bytes.len() - (end - at) + 1);
                    bytes.copy_within(from..from + (end - at), at);
                }
                _ => {
                    let end = bytes.len().min(at + 1 + self.below(8));
                    bytes[at..end].fill(0);
                }
            }
        }
    }

    /// Changes bytes, perhaps also how many there are.
    pub(super) fn mangle(&mut self, bytes: &mut Vec<u8>) {
        match self.below(8) {
            0 => bytes.truncate(self.below(bytes.len() + 1)),
            1 => {
                let more = 1 + self.below(64);
                let more = self.bytes(more);
                bytes.extend_from_slice(&more);
            }
            2 => {
                let at = self.below(bytes.len() + 1);
                let end = bytes.len().min(at + 1 + self.below(40));
                drop(bytes.drain(at..end));
            }
            3 => {
                let at = self.below(bytes.len() + 1);
                let count = 1 + self.below(8);
                let more = self.bytes(count);
                drop(bytes.splice(at..at, more));
            }
            _ => {}
        }
        self.change(bytes);
    }
}
