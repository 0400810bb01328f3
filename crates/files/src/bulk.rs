//! Data without a file: a block that repeats, so that a sender costs no disk and a receiver can
//! tell whether every byte is where it belongs.

use std::sync::OnceLock;

use bytes::Bytes;

/// A prime, so that data which is misplaced by a packet, a chunk or a window is not the same.
const BLOCK_BYTES: usize = 65_521;

static BLOCK: OnceLock<Bytes> = OnceLock::new();

/// The block that `GET /bulk` repeats: byte `i` of the answer is byte `i % block.len()` of it.
pub fn bulk_block() -> Bytes {
    BLOCK.get_or_init(|| (0..BLOCK_BYTES as u64).map(noise).collect()).clone()
}

/// A byte that looks random (the finalizer of SplitMix64), so that nothing on the way compresses
/// it.
fn noise(index: u64) -> u8 {
    let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_like_itself_nowhere_else() {
        let block = bulk_block();
        for shift in (1..3000).chain([4096, 16_384, 32_768]) {
            let same = block.iter().zip(block.iter().cycle().skip(shift)).filter(|(a, b)| a == b);
            // By chance one in 256, which is 256 of them.
            let same = same.count();
            assert!((128..512).contains(&same), "{same} bytes at a distance of {shift}");
        }
    }
}
