//! Life of a controller, its decisions, and the events that are no ACK.

use core::ffi::{CStr, c_char};
use core::mem::{offset_of, size_of};
use core::ptr;

use fullpipe_cc::{Algorithm, Controller, Instant, NotNow, Rate, SendDecision};

use crate::FULLPIPE_NONE;
use crate::config::{Config, ack_frequency};
use crate::handle::{Handle, guard, read, with, write};
use crate::packet::{MAX_BYTES, Packet};
use crate::status::Status;
use crate::versioned::{self, Versioned};

/// The three answers to a transport that wants to send a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum SendKind {
    /// Up to `quantum` bytes may leave at once; at least one full packet.
    Now,
    /// The pacer has no credit for a full packet before `at`.
    At,
    /// The window is full: wait for an ACK or a loss.
    CwndLimited,
}

/// The answer to a transport that wants to send a packet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SendAdvice {
    /// The size of this struct in the library. A program's field beyond it is 0.
    pub known: usize,
    /// The kind of the answer.
    pub kind: SendKind,
    /// Bytes that may leave at once, for FULLPIPE_SEND_KIND_NOW; else 0.
    pub quantum: u64,
    /// Time of the next send, for FULLPIPE_SEND_KIND_AT; else 0.
    pub at: u64,
}

impl Versioned for SendAdvice {
    const FIRST: usize = size_of::<Self>();
}

const _: () = assert!(offset_of!(SendAdvice, at) + size_of::<u64>() == size_of::<SendAdvice>());

impl From<SendDecision> for SendAdvice {
    fn from(decision: SendDecision) -> Self {
        let (kind, quantum, at) = match decision {
            SendDecision::Now { quantum } => (SendKind::Now, quantum, 0),
            SendDecision::At(at) => (SendKind::At, 0, at.as_nanos()),
            SendDecision::CwndLimited => (SendKind::CwndLimited, 0, 0),
        };
        Self { known: size_of::<Self>(), kind, quantum, at }
    }
}

/// The answer to an application that would send at a higher rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum BandwidthProbe {
    /// `fullpipe_send_rate_estimate` is at the target already.
    Reached,
    /// The algorithm takes more data now, and learns from it.
    Probing,
    /// Not now: no round trip is measured yet.
    NoRoundTrip,
    /// Not now: the queue of an earlier probe, or of Startup, is not empty yet.
    Draining,
    /// Not now: BBR measures the round trip of the empty path.
    ProbeRtt,
    /// Not now: a loss-based algorithm recovers from a loss or a mark.
    Congestion,
    /// Not now: the newest probe was too short a time ago.
    TooSoon,
    /// Never: the target is above `max_pacing_rate`, or the rate is fixed.
    Limit,
    /// Not now, for a reason that this interface has no name for.
    Other,
}

impl From<fullpipe_cc::BandwidthProbe> for BandwidthProbe {
    fn from(answer: fullpipe_cc::BandwidthProbe) -> Self {
        use fullpipe_cc::BandwidthProbe as Core;
        match answer {
            Core::Reached => Self::Reached,
            Core::Probing => Self::Probing,
            Core::NotNow(NotNow::NoRoundTrip) => Self::NoRoundTrip,
            Core::NotNow(NotNow::Draining) => Self::Draining,
            Core::NotNow(NotNow::ProbeRtt) => Self::ProbeRtt,
            Core::NotNow(NotNow::Congestion) => Self::Congestion,
            Core::NotNow(NotNow::TooSoon) => Self::TooSoon,
            Core::NotNow(NotNow::Limit) => Self::Limit,
            _ => Self::Other,
        }
    }
}

/// Control parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Control {
    /// The size of this struct in the library. A program's field beyond it is 0.
    pub known: usize,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub inflight: u64,
    /// Pacing rate in bytes per second. FULLPIPE_NONE: the algorithm leaves pacing to the
    /// transport.
    pub pacing_rate: u64,
    /// The largest aggregate in bytes to hand to the network as one.
    pub send_quantum: u64,
}

impl Versioned for Control {
    const FIRST: usize = size_of::<Self>();
}

const _: () = assert!(offset_of!(Control, send_quantum) + size_of::<u64>() == size_of::<Control>());

/// The algorithm of this name.
///
/// # Safety
///
/// `name` is null or a valid string.
unsafe fn algorithm(name: *const c_char) -> Result<Algorithm, Status> {
    if name.is_null() {
        return Err(Status::Null);
    }
    // SAFETY: not null, and so valid by the caller's guarantee.
    let name = unsafe { CStr::from_ptr(name) };
    let known = name.to_str().ok().and_then(|name| name.parse().ok());
    known.ok_or(Status::UnknownAlgorithm)
}

/// Runs `call` on the controller, unless a batch is open.
///
/// # Safety
///
/// As for [`with`].
unsafe fn on(cc: *mut Handle, call: impl FnOnce(&mut Controller)) -> Status {
    // SAFETY: the caller's guarantee.
    unsafe { with(cc, |handle| handle.controller().map(call)) }
}

/// Writes what `answer` says of the controller to `out`, unless a batch is open.
///
/// # Safety
///
/// As for [`with`]; `out` is null or a `T` can be written there.
unsafe fn ask<T: Copy>(
    cc: *mut Handle,
    out: *mut T,
    answer: impl FnOnce(&mut Controller) -> T,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        with(cc, |handle| {
            let controller = handle.controller()?;
            if out.is_null() {
                return Err(Status::Null);
            }
            write(out, answer(controller))
        })
    }
}

/// Fills the program's struct of `size` bytes at `out` with what `say` says of the controller,
/// unless a batch is open.
///
/// # Safety
///
/// As for [`with`]; `out` is null or so many bytes can be written there.
pub(crate) unsafe fn answer<T: Versioned>(
    cc: *mut Handle,
    out: *mut T,
    size: usize,
    say: impl FnOnce(&mut Controller) -> T,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        with(cc, |handle| {
            let controller = handle.controller()?;
            versioned::check(out, size)?;
            versioned::fill(out, size, say(controller));
            Ok(())
        })
    }
}

/// Makes a controller for a flow that starts `now`, and writes it to `out`; NULL on an error.
/// `algorithm` is a name, such as "bbr3": see `fullpipe_algorithm_name`. Free it with
/// `fullpipe_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_new(
    algorithm: *const c_char,
    config: *const Config,
    now: u64,
    out: *mut *mut Handle,
) -> Status {
    guard(|| {
        // SAFETY: the caller's guarantee for the three pointers.
        unsafe {
            write(out, ptr::null_mut())?;
            let algorithm = self::algorithm(algorithm)?;
            let read = Config::read(config)?;
            let (algorithm, now) = (read.options_of(algorithm), Instant::from_nanos(now));
            let controller = Controller::new(algorithm, read.config, now);
            write(out, Box::into_raw(Box::new(Handle::new(controller))))
        }
    })
}

/// Frees a controller. NULL is allowed. An open batch is dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_free(cc: *mut Handle) {
    if !cc.is_null() {
        // SAFETY: not null, and so from `fullpipe_new` and not freed, by the caller's guarantee.
        drop(unsafe { Box::from_raw(cc) });
    }
}

/// Tells if a full packet may leave now, and if not, when. `size` is `sizeof(struct
/// fullpipe_send_advice)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_can_send(
    cc: *mut Handle,
    now: u64,
    out: *mut SendAdvice,
    size: usize,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe { answer(cc, out, size, |cc| cc.can_send(Instant::from_nanos(now)).into()) }
}

/// Writes the time at which the pacer allows `bytes` to leave at once: for a transport that waits
/// until it can fill an aggregate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_ready_at(
    cc: *mut Handle,
    now: u64,
    bytes: u64,
    out: *mut u64,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe { ask(cc, out, |cc| cc.ready_at(Instant::from_nanos(now), bytes).as_nanos()) }
}

/// Writes the rate, in bytes per second, that an application may plan with, as a video encoder:
/// what the path has carried so far, with headers and retransmissions. FULLPIPE_NONE before the
/// first round trip. BBR: the model's bandwidth; other algorithms: window over smoothed round-trip
/// time, in slow start half of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_send_rate_estimate(cc: *mut Handle, out: *mut u64) -> Status {
    let rate = |rate: Rate| rate.as_bytes_per_sec();
    // SAFETY: the caller's guarantee for both.
    unsafe { ask(cc, out, |cc| cc.send_rate_estimate().map_or(FULLPIPE_NONE, rate)) }
}

/// Asks whether the path carries `target` bytes per second, for an application that would send more
/// than it does. At FULLPIPE_BANDWIDTH_PROBE_PROBING it offers what fills the target up, such as
/// padding or redundant data, and asks again a few times in a round trip.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_probe_bandwidth(
    cc: *mut Handle,
    now: u64,
    target: u64,
    out: *mut BandwidthProbe,
) -> Status {
    let target = Rate::from_bytes_per_sec(target);
    // SAFETY: the caller's guarantee for both.
    unsafe { ask(cc, out, |cc| cc.probe_bandwidth(Instant::from_nanos(now), target).into()) }
}

/// Writes the window, the bytes in flight, the pacing rate and the quantum. `size` is `sizeof(struct
/// fullpipe_control)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_get_control(
    cc: *mut Handle,
    out: *mut Control,
    size: usize,
) -> Status {
    let none = |rate: Option<Rate>| rate.map_or(FULLPIPE_NONE, Rate::as_bytes_per_sec);
    // SAFETY: the caller's guarantee for both.
    unsafe {
        answer(cc, out, size, |cc| Control {
            known: size_of::<Control>(),
            cwnd: cc.cwnd(),
            inflight: cc.inflight(),
            pacing_rate: none(cc.pacing_rate()),
            send_quantum: cc.send_quantum(),
        })
    }
}

/// A packet of `bytes`, 1 to 131071, left `now`; an aggregate that leaves as one counts as one
/// packet. Keep what is written to `out` until the packet is acknowledged, lost or discarded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_sent(
    cc: *mut Handle,
    now: u64,
    bytes: u32,
    out: *mut Packet,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        with(cc, |handle| {
            let controller = handle.controller()?;
            if out.is_null() {
                return Err(Status::Null);
            }
            if !(1..=MAX_BYTES).contains(&bytes) {
                return Err(Status::BadArgument);
            }
            write(out, Packet::new(controller.on_sent(Instant::from_nanos(now), bytes)))
        })
    }
}

/// The application is the limit: window and pacer would let data leave, and there is none. Call it
/// when the application writes, before the new data is queued, at the start of ACK and timer
/// processing, and when sending ends, each time that nothing is unsent and nothing waits to be sent
/// again. Do not call it for data that exists and may not leave because of the receiver's window, a
/// full send buffer, the limit against amplification or missing keys: that is a limit as the path's,
/// and with this call BBR would stay in Startup for as long as it lasts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_app_limited(cc: *mut Handle) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { on(cc, Controller::on_app_limited) }
}

/// The transport was stopped by the window: for transports that test it themselves instead of
/// calling `fullpipe_can_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_cwnd_limited(cc: *mut Handle) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { on(cc, Controller::on_cwnd_limited) }
}

/// The flow was idle for so long that its transport trusts no more than `cwnd` bytes of the window
/// (RFC 2861). `cubic` and `reno` obey; the others have their own rules for a restart.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_idle(cc: *mut Handle, now: u64, cwnd: u64) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { on(cc, |cc| cc.on_idle(Instant::from_nanos(now), cwnd)) }
}

/// Every packet of the recent recovery episode that was marked lost has arrived after all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_spurious_loss(cc: *mut Handle, now: u64) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { on(cc, |cc| cc.on_spurious_loss(Instant::from_nanos(now))) }
}

/// `packet` is out of the transport's sight, neither acknowledged nor lost: its keys were
/// discarded, or it was a probe that is not repeated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_discarded(cc: *mut Handle, packet: *const Packet) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        with(cc, |handle| {
            let state = read(packet)?.state()?;
            handle.controller()?.on_discarded(&state);
            Ok(())
        })
    }
}

/// The flow goes on from or to another address over the same path (RFC 9000 section 9.4: only the
/// port changed): the model stays, and nothing is in flight. Calls about packets from before have
/// no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_forget_flight(cc: *mut Handle) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { on(cc, Controller::forget_flight) }
}

/// The flow goes on over another path (RFC 9000 section 9.4): everything begins anew. `seed` is a
/// new one; that of `config` is not used, nor is its `handshake_rtt`, which is of the old path.
/// Calls about packets from before have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_migration(
    cc: *mut Handle,
    now: u64,
    seed: u64,
    config: *const Config,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        with(cc, |handle| {
            let read = Config::read(config)?;
            let cc = handle.controller()?;
            // As on_migration of the core, which keeps the options: here the struct has them.
            let algorithm = read.options_of(cc.algorithm());
            let config = fullpipe_cc::Config { seed, handshake_rtt: None, ..read.config };
            cc.set_algorithm(algorithm, Instant::from_nanos(now), &config);
            Ok(())
        })
    }
}

/// Another algorithm takes the flow over and begins as on a new one. Calls about packets from
/// before have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_set_algorithm(
    cc: *mut Handle,
    algorithm: *const c_char,
    now: u64,
    config: *const Config,
) -> Status {
    // SAFETY: the caller's guarantee for the three pointers.
    unsafe {
        with(cc, |handle| {
            let algorithm = self::algorithm(algorithm)?;
            let read = Config::read(config)?;
            let algorithm = read.options_of(algorithm);
            handle.controller()?.set_algorithm(algorithm, Instant::from_nanos(now), &read.config);
            Ok(())
        })
    }
}

/// The receiver was asked for another ACK frequency: an ACK for every `ack_threshold` packets, and
/// after `max_ack_delay` at the latest. A threshold of 0: as in RFC 9000 section 13.2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_ack_frequency(
    cc: *mut Handle,
    ack_threshold: u32,
    max_ack_delay: u64,
) -> Status {
    // SAFETY: the caller's guarantee for `cc`.
    unsafe { on(cc, |cc| cc.on_ack_frequency(ack_frequency(ack_threshold, max_ack_delay))) }
}

/// The maximum packet size is `smss` from now on, 1 to 131071 bytes. Of `config` the initial window
/// is used, if nothing was delivered yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_on_mtu_update(
    cc: *mut Handle,
    now: u64,
    smss: u32,
    config: *const Config,
) -> Status {
    // SAFETY: the caller's guarantee for both.
    unsafe {
        with(cc, |handle| {
            let read = Config::read(config)?;
            if !(1..=MAX_BYTES).contains(&smss) {
                return Err(Status::BadArgument);
            }
            handle.controller()?.on_mtu_update(
                Instant::from_nanos(now),
                smss,
                read.config.initial_cwnd,
            );
            Ok(())
        })
    }
}
