//! Wrong calls get an error and change nothing: null pointers, values out of range, calls at the
//! wrong time.

use std::ffi::CStr;
use std::mem::{MaybeUninit, size_of};
use std::ptr::{null, null_mut};

use fullpipe::*;

/// The value that `make` writes to its argument; panics on an error.
pub(crate) fn made<T>(make: impl FnOnce(*mut T) -> Status) -> T {
    let mut value = MaybeUninit::uninit();
    assert_eq!(make(value.as_mut_ptr()), Status::Ok);
    // SAFETY: the call succeeded, and so has written it.
    unsafe { value.assume_init() }
}

pub(crate) fn config() -> Config {
    // SAFETY: the pointer is valid.
    made(|out| unsafe { fullpipe_config_init(out, size_of::<Config>(), 1) })
}

pub(crate) fn create(
    algorithm: Option<&CStr>,
    config: *const Config,
) -> Result<*mut Handle, Status> {
    let algorithm = algorithm.map_or(null(), CStr::as_ptr);
    let mut cc = null_mut();
    // SAFETY: each pointer is null or valid.
    match unsafe { fullpipe_new(algorithm, config, 0, &mut cc) } {
        Status::Ok => Ok(cc),
        error => {
            assert!(cc.is_null());
            Err(error)
        }
    }
}

fn send(cc: *mut Handle) -> Packet {
    // SAFETY: both pointers are valid.
    made(|out| unsafe { fullpipe_on_sent(cc, 0, 1200, out) })
}

fn control(cc: *mut Handle) -> Control {
    // SAFETY: both pointers are valid.
    made(|out| unsafe { fullpipe_get_control(cc, out, size_of::<Control>()) })
}

/// What a call that was refused must not change.
fn state(cc: *mut Handle) -> String {
    format!("{:?}", control(cc))
}

#[test]
fn a_controller_is_made_of_valid_values_only() {
    let good = config();
    assert_eq!(create(None, &good), Err(Status::Null));
    assert_eq!(create(Some(c"bbr3"), null()), Err(Status::Null));
    assert_eq!(create(Some(c"bbr"), &good), Err(Status::UnknownAlgorithm));
    assert_eq!(create(Some(c"\xff"), &good), Err(Status::UnknownAlgorithm));
    let bad: [fn(&mut Config); 15] = [
        |c| c.smss = 0,
        |c| c.smss = 131_072,
        |c| c.initial_cwnd = 0,
        |c| c.initial_cwnd = u64::MAX - 1,
        |c| c.handshake_rtt = 0,
        |c| c.pacing_granularity = 1 << 32,
        |c| c.max_pacing_rate = 0,
        |c| c.transport = 2,
        |c| c.cubic_rules = 2,
        |c| c.swift_hops = 256,
        |c| c.swift_base_target = 4_000_000_000,
        |c| c.swift_endpoint_target = 4_000_000_001,
        |c| c.swift_max_receiver_delay = u64::MAX,
        |c| c.has_selective_acks = 2,
        |c| c.paced = 255,
    ];
    for (number, change) in bad.into_iter().enumerate() {
        let mut changed = good;
        change(&mut changed);
        assert_eq!(create(Some(c"bbr3"), &changed), Err(Status::BadConfig), "change {number}");
    }
    // SAFETY: the pointers are null.
    unsafe {
        assert_eq!(fullpipe_config_init(null_mut(), size_of::<Config>(), 1), Status::Null);
        assert_eq!(fullpipe_new(c"bbr3".as_ptr(), &good, 0, null_mut()), Status::Null);
        fullpipe_free(null_mut());
    }
}

#[test]
fn no_function_follows_a_null_pointer() {
    let (good, name) = (config(), c"cubic".as_ptr());
    let cc = create(Some(c"bbr3"), &good).expect("a controller");
    let packet = send(cc);
    let before = state(cc);
    let none: *mut Handle = null_mut();
    let mut copy = packet;
    // SAFETY: each pointer is null or valid.
    let all = unsafe {
        [
            fullpipe_can_send(none, 0, null_mut(), 0),
            fullpipe_can_send(cc, 0, null_mut(), 0),
            fullpipe_ready_at(none, 0, 0, null_mut()),
            fullpipe_ready_at(cc, 0, 0, null_mut()),
            fullpipe_send_rate_estimate(none, null_mut()),
            fullpipe_send_rate_estimate(cc, null_mut()),
            fullpipe_probe_bandwidth(none, 0, 0, null_mut()),
            fullpipe_probe_bandwidth(cc, 0, 0, null_mut()),
            fullpipe_get_control(none, null_mut(), 0),
            fullpipe_get_control(cc, null_mut(), 0),
            fullpipe_get_info(none, null_mut(), 0),
            fullpipe_get_info(cc, null_mut(), 0),
            fullpipe_on_sent(none, 0, 1200, &mut copy),
            fullpipe_on_sent(cc, 0, 1200, null_mut()),
            fullpipe_on_app_limited(none),
            fullpipe_on_cwnd_limited(none),
            fullpipe_on_idle(none, 0, 0),
            fullpipe_on_spurious_loss(none, 0),
            fullpipe_on_discarded(none, &packet),
            fullpipe_on_discarded(cc, null()),
            fullpipe_forget_flight(none),
            fullpipe_on_migration(none, 0, 2, &good),
            fullpipe_on_migration(cc, 0, 2, null()),
            fullpipe_set_algorithm(none, name, 0, &good),
            fullpipe_set_algorithm(cc, null(), 0, &good),
            fullpipe_set_algorithm(cc, name, 0, null()),
            fullpipe_on_ack_frequency(none, 0, 0),
            fullpipe_on_mtu_update(none, 0, 1200, &good),
            fullpipe_on_mtu_update(cc, 0, 1200, null()),
            fullpipe_packet_split(null(), 1, &mut copy, &mut copy),
            fullpipe_packet_split(&packet, 1, null_mut(), &mut copy),
            fullpipe_packet_split(&packet, 1, &mut copy, null_mut()),
            fullpipe_ack_begin(none, 0),
            fullpipe_ack_acked(none, &packet),
            fullpipe_ack_acked(cc, null()),
            fullpipe_ack_acked_bytes(none, &packet, 1200),
            fullpipe_ack_acked_bytes(cc, null(), 1200),
            fullpipe_ack_acked_after_loss(none, &packet),
            fullpipe_ack_acked_after_loss(cc, null()),
            fullpipe_ack_lost(none, &packet),
            fullpipe_ack_lost(cc, null()),
            fullpipe_ack_discarded(none, &packet),
            fullpipe_ack_discarded(cc, null()),
            fullpipe_ack_timeout(none),
            fullpipe_ack_rtt(none, 1, 0),
            fullpipe_ack_rtt_ambiguous(none),
            fullpipe_ack_receiver_delay(none, 1),
            fullpipe_ack_ack_delay(none, 1),
            fullpipe_ack_ce(none, 1),
            fullpipe_ack_resync_inflight(none, 0),
            fullpipe_ack_finish(none),
        ]
    };
    for (number, status) in all.into_iter().enumerate() {
        assert_eq!(status, Status::Null, "call {number}");
    }
    assert_eq!(state(cc), before);
    // SAFETY: it comes from `fullpipe_new` and is freed once.
    unsafe { fullpipe_free(cc) };
}

#[test]
fn values_out_of_range_are_refused() {
    let good = config();
    let cc = create(Some(c"bbr3"), &good).expect("a controller");
    let packet = send(cc);
    let before = state(cc);
    let zero = Packet { opaque: [0; 6] };
    let bad = Config { smss: 0, ..good };
    let mut out = zero;
    // SAFETY: each pointer is valid.
    unsafe {
        assert_eq!(fullpipe_on_sent(cc, 0, 0, &mut out), Status::BadArgument);
        assert_eq!(fullpipe_on_sent(cc, 0, 131_072, &mut out), Status::BadArgument);
        assert_eq!(fullpipe_on_mtu_update(cc, 0, 0, &good), Status::BadArgument);
        assert_eq!(fullpipe_on_mtu_update(cc, 0, 1200, &bad), Status::BadConfig);
        assert_eq!(fullpipe_on_migration(cc, 0, 2, &bad), Status::BadConfig);
        let name = c"vegas".as_ptr();
        assert_eq!(fullpipe_set_algorithm(cc, name, 0, &good), Status::UnknownAlgorithm);
        assert_eq!(fullpipe_on_discarded(cc, &zero), Status::BadPacket);
        let mut rest = zero;
        for bytes in [0, 1200, 1201] {
            let status = fullpipe_packet_split(&packet, bytes, &mut out, &mut rest);
            assert_eq!(status, Status::BadArgument);
        }
        assert_eq!(fullpipe_ack_begin(cc, 1), Status::Ok);
        assert_eq!(fullpipe_ack_acked(cc, &zero), Status::BadPacket);
        assert_eq!(fullpipe_ack_acked_bytes(cc, &packet, 1199), Status::BadArgument);
        assert_eq!(fullpipe_ack_finish(cc), Status::Ok);
        assert_eq!(state(cc), before);
        fullpipe_free(cc);
    }
}

#[test]
fn a_batch_excludes_everything_else() {
    let good = config();
    let cc = create(Some(c"reno"), &good).expect("a controller");
    let packet = send(cc);
    // SAFETY: each pointer is valid.
    unsafe {
        assert_eq!(fullpipe_ack_acked(cc, &packet), Status::NoBatch);
        assert_eq!(fullpipe_ack_timeout(cc), Status::NoBatch);
        assert_eq!(fullpipe_ack_finish(cc), Status::NoBatch);
        assert_eq!(fullpipe_ack_begin(cc, 1), Status::Ok);
        let mut out = packet;
        assert_eq!(fullpipe_ack_begin(cc, 1), Status::BatchOpen);
        assert_eq!(fullpipe_on_sent(cc, 1, 1200, &mut out), Status::BatchOpen);
        assert_eq!(fullpipe_on_app_limited(cc), Status::BatchOpen);
        assert_eq!(fullpipe_on_discarded(cc, &packet), Status::BatchOpen);
        assert_eq!(fullpipe_on_migration(cc, 1, 2, &good), Status::BatchOpen);
        assert_eq!(fullpipe_ack_acked(cc, &packet), Status::Ok);
        assert_eq!(fullpipe_ack_finish(cc), Status::Ok);
        let control = control(cc);
        // One packet in flight does not use a window of ten: it stays.
        assert_eq!((control.inflight, control.cwnd), (0, 12_000));
        // An open batch goes with its controller.
        assert_eq!(fullpipe_ack_begin(cc, 2), Status::Ok);
        fullpipe_free(cc);
    }
}

#[test]
fn any_words_in_a_packet_are_survived() {
    let good = config();
    let cc = create(Some(c"bbr3"), &good).expect("a controller");
    let mut word = 1_u64;
    for _ in 0..10_000 {
        let opaque = std::array::from_fn(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.rotate_left((word >> 59) as u32)
        });
        let packet = Packet { opaque };
        // SAFETY: each pointer is valid.
        unsafe {
            assert_eq!(fullpipe_ack_begin(cc, word >> 20), Status::Ok);
            for say in [fullpipe_ack_acked, fullpipe_ack_lost] {
                assert!([Status::Ok, Status::BadPacket].contains(&say(cc, &packet)));
            }
            assert_eq!(fullpipe_ack_finish(cc), Status::Ok);
        }
    }
    // SAFETY: it comes from `fullpipe_new` and is freed once.
    unsafe { fullpipe_free(cc) };
}

/// The window after 1000 round trips of 300 us to a receiver that takes two thirds of them, in its
/// host or on purpose.
fn swift_window(config: &Config, say: unsafe extern "C" fn(*mut Handle, u64) -> Status) -> u64 {
    let cc = create(Some(c"bbr-swift"), config).expect("a controller");
    // SAFETY: each pointer is valid, and freed once.
    unsafe {
        for round in 0..1000 {
            let (sent, acked) = (300_000 * round, 300_000 * (round + 1));
            let packets: [Packet; 10] =
                std::array::from_fn(|_| made(|out| fullpipe_on_sent(cc, sent, 1200, out)));
            assert_eq!(fullpipe_ack_begin(cc, acked), Status::Ok);
            for packet in &packets {
                assert_eq!(fullpipe_ack_acked(cc, packet), Status::Ok);
            }
            assert_eq!(say(cc, 200_000), Status::Ok);
            assert_eq!(fullpipe_ack_finish(cc), Status::Ok);
        }
        let cwnd = control(cc).cwnd;
        fullpipe_free(cc);
        cwnd
    }
}

/// The options are those of the core: with a target above the host's delay the endpoint window does
/// not shrink; and a wait is no delay of the host.
#[test]
fn bbr_swift_has_its_options_and_both_delays() {
    let strict = Config { swift_base_target: 100_000, ..config() };
    let patient = Config { swift_endpoint_target: 300_000, ..strict };
    let small = swift_window(&strict, fullpipe_ack_receiver_delay);
    let large = swift_window(&patient, fullpipe_ack_receiver_delay);
    assert!(small * 4 < large, "{small} and {large}");
    let waiting = swift_window(&strict, fullpipe_ack_ack_delay);
    assert!(small * 4 < waiting, "{small} and {waiting}");
}
