//! One ACK, or one firing of the loss timer.

use fullpipe_cc::{AckBatch, Duration, Instant, PacketState, RttSample};

use crate::handle::{Handle, read, with};
use crate::packet::Packet;
use crate::status::Status;

/// Runs `say` on the open batch.
///
/// # Safety
///
/// As for [`with`].
unsafe fn in_batch(cc: *mut Handle, say: impl FnOnce(&mut AckBatch<'static>)) -> Status {
    // SAFETY: the caller's guarantee.
    unsafe { with(cc, |handle| handle.batch().map(say)) }
}

/// Runs `say` on the open batch and the state of `packet`.
///
/// # Safety
///
/// As for [`with`]; `packet` is null or valid.
unsafe fn of_packet(
    cc: *mut Handle,
    packet: *const Packet,
    say: impl FnOnce(&mut AckBatch<'static>, &PacketState) -> Result<(), Status>,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        with(cc, |handle| {
            let state = read(packet)?.state()?;
            say(handle.batch()?, &state)
        })
    }
}

/// Opens the batch of one ACK, or of one firing of the loss timer. Say what it told with the
/// functions `fullpipe_ack_...`, in any order but losses in the order of sending, then call
/// `fullpipe_ack_finish`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_begin(cc: *mut Handle, now: u64) -> Status {
    let now = Instant::from_nanos(now);
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { with(cc, |handle| handle.open(|cc| cc.ack(now))) }
}

/// `packet` is newly acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_acked(cc: *mut Handle, packet: *const Packet) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        of_packet(cc, packet, |ack, packet| {
            ack.acked(packet);
            Ok(())
        })
    }
}

/// `total` bytes are newly acknowledged, `newest` among them, which was sent last of them: for
/// transports that keep no state of the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_acked_bytes(
    cc: *mut Handle,
    newest: *const Packet,
    total: u64,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        of_packet(cc, newest, |ack, newest| {
            if total < newest.size() {
                return Err(Status::BadArgument);
            }
            ack.acked_bytes(newest, total);
            Ok(())
        })
    }
}

/// `packet` was marked lost, and is now acknowledged after all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_acked_after_loss(
    cc: *mut Handle,
    packet: *const Packet,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        of_packet(cc, packet, |ack, packet| {
            ack.acked_after_loss(packet);
            Ok(())
        })
    }
}

/// `packet` is newly marked lost. Report losses in the order of sending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_lost(cc: *mut Handle, packet: *const Packet) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        of_packet(cc, packet, |ack, packet| {
            ack.lost(packet);
            Ok(())
        })
    }
}

/// `packet` is neither acknowledged nor lost and will not be: see `fullpipe_on_discarded`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_discarded(cc: *mut Handle, packet: *const Packet) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        of_packet(cc, packet, |ack, packet| {
            ack.discarded(packet);
            Ok(())
        })
    }
}

/// A retransmission timeout that declares everything lost; in QUIC, persistent congestion (RFC 9002
/// section 7.6). Report the lost packets in the same batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_timeout(cc: *mut Handle) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { in_batch(cc, AckBatch::timeout) }
}

/// The transport's own round-trip sample for this ACK. It is up to `granularity` more than the
/// truth; 0: as exact as the clock. Without this call the sample is the time since the newest
/// acknowledged packet was sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_rtt(cc: *mut Handle, rtt: u64, granularity: u64) -> Status {
    let [rtt, granularity] = [rtt, granularity].map(Duration::from_nanos);
    let sample = if granularity == Duration::ZERO {
        RttSample::Exact(rtt)
    } else {
        RttSample::Coarse { rtt, granularity }
    };
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { in_batch(cc, |ack| ack.rtt(sample)) }
}

/// This ACK gives no round-trip sample: it may be that of the first copy or of the second (RFC 6298
/// section 3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_rtt_ambiguous(cc: *mut Handle) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { in_batch(cc, |ack| ack.rtt(RttSample::Ambiguous)) }
}

/// The part of this ACK's round trip in nanoseconds for which the newest acknowledged packet, or its
/// ACK, was in the receiver's host because the host was busy, as timestamps of its interface tell
/// it. The receiver's wait for more to acknowledge is not in it. `bbr-swift` takes the round trip
/// without both for the network's, and shrinks its endpoint window for this part; the others ignore
/// it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_receiver_delay(cc: *mut Handle, delay: u64) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { in_batch(cc, |ack| ack.receiver_delay(Duration::from_nanos(delay))) }
}

/// The part of this ACK's round trip in nanoseconds for which the receiver held the ACK back, to
/// acknowledge more with it. QUIC's ACK Delay (RFC 9000 section 19.3) goes here. `bbr-swift` takes
/// it out of the round trip; the others ignore it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_ack_delay(cc: *mut Handle, delay: u64) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { in_batch(cc, |ack| ack.ack_delay(Duration::from_nanos(delay))) }
}

/// `packets` more packets were marked with CE (RFC 3168).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_ce(cc: *mut Handle, packets: u64) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { in_batch(cc, |ack| ack.ce(packets)) }
}

/// Sets the bytes in flight to the transport's own count after this ACK and its losses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_resync_inflight(cc: *mut Handle, bytes: u64) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { in_batch(cc, |ack| ack.resync_inflight(bytes)) }
}

/// Closes the batch: updates the model, the state, the window, the pacing rate and the quantum.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ack_finish(cc: *mut Handle) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { with(cc, Handle::finish) }
}
