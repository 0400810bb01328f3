//! Filters.

/// Moves the datagrams that noq may see together, and gives the bytes that they have. All but the
/// last of what was received as one has the length `stride`.
pub(crate) fn keep(
    received: &mut [u8],
    stride: usize,
    is_acceptable: impl Fn(&[u8]) -> bool,
) -> usize {
    let stride = stride.max(1);
    if received.chunks(stride).all(&is_acceptable) {
        return received.len();
    }
    let (mut kept, mut at) = (0, 0);
    while at < received.len() {
        let end = received.len().min(at + stride);
        if is_acceptable(&received[at..end]) {
            received.copy_within(at..end, kept);
            kept += end - at;
        }
        at = end;
    }
    kept
}
