//! Programs that were built with another version of a struct: an older one is shorter, a newer one
//! longer.

use std::mem::{align_of, offset_of, size_of};
use std::ops::Range;

use fullpipe::*;

use crate::misuse::{config, create, made};

/// What is in a program's memory before a call.
const OLD: u8 = 0xa5;
/// Bytes for the largest struct that a program may have, and more behind it.
const MEMORY: usize = 4096 + 64;

/// The sizes of a struct's versions, of which the first has `first` bytes.
fn is_version<T>(first: usize, size: usize) -> bool {
    (first..=4096).contains(&size) && size.is_multiple_of(align_of::<T>())
}

/// Calls `fill` with each size, right or wrong. A version gets its bytes of `whole` but for those
/// of `padding`, then zeros; nothing else is written to.
fn each_version_is_filled<T>(
    first: usize,
    padding: Range<usize>,
    fill: impl Fn(*mut T, usize) -> Status,
    whole: impl Fn(usize) -> T,
) {
    for size in 0..MEMORY {
        let mut memory = [u64::from_ne_bytes([OLD; 8]); MEMORY / 8];
        let status = fill(memory.as_mut_ptr().cast(), size);
        let written = if is_version::<T>(first, size) { size } else { 0 };
        let expected = if written == 0 { Status::BadSize } else { Status::Ok };
        assert_eq!(status, expected, "{size}");
        let whole = whole(size);
        for at in (0..MEMORY).filter(|at| *at >= written || !padding.contains(at)) {
            let expected = match at {
                _ if at >= written => OLD,
                _ if at >= size_of::<T>() => 0,
                // SAFETY: the byte is within `whole`, and no padding.
                _ => unsafe { (&raw const whole).cast::<u8>().add(at).read() },
            };
            // SAFETY: the byte is within `memory`, and was written before or by the call.
            let byte = unsafe { memory.as_ptr().cast::<u8>().add(at).read() };
            assert_eq!(byte, expected, "byte {at} of {size}");
        }
    }
}

#[test]
fn each_struct_is_filled_up_to_the_size_that_the_program_has() {
    let cc = create(Some(c"bbr3"), &config()).expect("a controller");
    // SAFETY: the pointers are valid for each size.
    unsafe {
        each_version_is_filled(
            offset_of!(Info, max_bw),
            0..0,
            |out, size| fullpipe_get_info(cc, out, size),
            |_| made(|out| fullpipe_get_info(cc, out, size_of::<Info>())),
        );
        each_version_is_filled(
            size_of::<Control>(),
            0..0,
            |out, size| fullpipe_get_control(cc, out, size),
            |_| made(|out| fullpipe_get_control(cc, out, size_of::<Control>())),
        );
        each_version_is_filled(
            size_of::<SendAdvice>(),
            offset_of!(SendAdvice, kind) + 4..offset_of!(SendAdvice, quantum),
            |out, size| fullpipe_can_send(cc, 0, out, size),
            |_| made(|out| fullpipe_can_send(cc, 0, out, size_of::<SendAdvice>())),
        );
        each_version_is_filled(
            offset_of!(Config, swift_base_target),
            0..0,
            |out, size| fullpipe_config_init(out, size, 1),
            |size| Config { size, ..config() },
        );
        fullpipe_free(cc);
    }
}

/// The library tells a program of another version what it knows itself.
#[test]
fn each_struct_says_how_much_of_it_is_known() {
    let cc = create(Some(c"cubic"), &config()).expect("a controller");
    let mut memory = [0_u64; 64];
    let out = memory.as_mut_ptr();
    for size in [offset_of!(Info, max_bw), size_of::<Info>(), 512] {
        // SAFETY: each pointer is valid, and `known` stands first.
        let known = |status| unsafe { (status, out.cast::<usize>().read()) };
        // SAFETY: as above, and there is room for all of them.
        unsafe {
            let info = fullpipe_get_info(cc, out.cast(), size);
            assert_eq!(known(info), (Status::Ok, size_of::<Info>()));
            let control = fullpipe_get_control(cc, out.cast(), size);
            assert_eq!(known(control), (Status::Ok, size_of::<Control>()));
            let advice = fullpipe_can_send(cc, 0, out.cast(), size);
            assert_eq!(known(advice), (Status::Ok, size_of::<SendAdvice>()));
        }
    }
    // SAFETY: it comes from `fullpipe_new` and is freed once.
    unsafe { fullpipe_free(cc) };
}

/// A configuration of each size, with one byte behind the fields of this library or none. A wrong
/// `size` is not followed: the memory behind the struct has no zeros.
#[test]
fn a_larger_configuration_is_taken_while_the_rest_is_zero() {
    let first = offset_of!(Config, swift_base_target);
    let new = |memory: &[u64]| {
        let made = create(Some(c"bbr3"), memory.as_ptr().cast());
        // SAFETY: it comes from `fullpipe_new` and is freed once.
        made.map(|cc| unsafe { fullpipe_free(cc) })
    };
    for size in (0..MEMORY).chain([1 << 32, usize::MAX - 7, usize::MAX]) {
        let mut memory = [u64::from_ne_bytes([OLD; 8]); MEMORY / 8];
        let place: *mut Config = memory.as_mut_ptr().cast();
        let room = if is_version::<Config>(first, size) { size } else { size_of::<Config>() };
        // SAFETY: so many bytes are there.
        assert_eq!(unsafe { fullpipe_config_init(place, room, 1) }, Status::Ok);
        memory[0] = size as u64;
        let is_version = is_version::<Config>(first, size);
        assert_eq!(new(&memory), if is_version { Ok(()) } else { Err(Status::BadSize) }, "{size}");
        if is_version && size > size_of::<Config>() {
            for at in [size_of::<Config>(), (size_of::<Config>() + size) / 2, size - 1] {
                let mut memory = memory;
                memory[at / 8] |= 1 << (8 * (at % 8));
                assert_eq!(new(&memory), Err(Status::UnknownField), "byte {at} of {size}");
            }
        }
    }
}

/// An older library does not know what a newer one keeps in the room that was left.
#[test]
fn the_room_for_later_fields_is_zero() {
    for at in 0..4 {
        let mut config = config();
        config.reserved[at] = 1;
        assert_eq!(create(Some(c"bbr3"), &config), Err(Status::UnknownField));
    }
}

macro_rules! offsets {
    ($of:ty: $($field:ident)*) => { [$(offset_of!($of, $field)),*] };
}

/// Programs were built with these places. A line is added for a new version, and none changes.
#[cfg(target_pointer_width = "64")]
#[test]
fn no_field_moves() {
    assert_eq!(
        offsets!(Config: size seed initial_cwnd handshake_rtt pacing_granularity max_pacing_rate
            max_ack_delay ack_threshold smss transport cubic_rules has_selective_acks paced
            bbr1_ack_aggregation ecn reserved),
        [0, 8, 16, 24, 32, 40, 48, 56, 60, 64, 68, 72, 73, 74, 75, 76]
    );
    assert_eq!(
        offsets!(Config: swift_base_target swift_hop_delay swift_flow_scaling_range
            swift_endpoint_target swift_max_receiver_delay swift_hops),
        [80, 88, 96, 104, 112, 120]
    );
    assert_eq!(
        offsets!(Info: known algorithm state is_cwnd_limited app_limited wants_ecn full_bw_reached
            delivered lost srtt latest_rtt ssthresh initial_cwnd burst_bound send_buffer_windows),
        [0, 8, 16, 20, 21, 22, 23, 24, 32, 40, 48, 56, 64, 72, 80]
    );
    assert_eq!(
        offsets!(Info: max_bw bw bw_shortterm inflight_shortterm inflight_longterm min_rtt bdp
            extra_acked max_inflight round_count pacing_gain_percent cwnd_gain_percent),
        [88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 172]
    );
    let control = offsets!(Control: known cwnd inflight pacing_rate send_quantum);
    assert_eq!(control, [0, 8, 16, 24, 32]);
    assert_eq!(offsets!(SendAdvice: known kind quantum at), [0, 8, 16, 24]);
    assert_eq!(size_of::<Packet>(), 48);
}
