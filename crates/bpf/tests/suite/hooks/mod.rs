//! What the kernel program makes of TCP's reports: `c/bbr3.bpf.c` in this process, called as TCP
//! calls it.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::ptr;

use libloading::{Library, Symbol};

use super::twin::native::compile;

/// The program, compiled for this machine.
fn program(directory: &Path) -> Library {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/hooks");
    let headers = here.to_str().expect("a path in UTF-8");
    // GCC knows no attributes of clang, and the stand-ins use few of their arguments.
    let flags = ["-I", headers, "-Wno-unknown-pragmas", "-Wno-unused", "-Wno-unused-parameter"];
    let library = compile(directory, &here.join("hooks.c"), &flags);
    // SAFETY: the library was just made of hooks.c, which has no constructors.
    unsafe { Library::new(library) }.expect("the compiler said that it made it")
}

/// TCP's bit says that the window was full within a whole window. To remember it for another flight
/// holds UP for up to a round more.
#[test]
fn the_window_is_the_limit_for_as_long_as_tcp_says() {
    let directory = tempfile::tempdir().expect("a place for the library");
    let library = program(directory.path());
    // SAFETY: hooks.c defines it so.
    let limited: Symbol<'_, unsafe extern "C" fn(u32, *mut u32) -> u32> =
        unsafe { library.get("hooks_limited_packets") }.expect("hooks.c defines it");
    for flight in [10, 100, 1000] {
        let mut tcp_says = 0;
        // SAFETY: the count outlives the call.
        let packets = unsafe { limited(flight, &raw mut tcp_says) };
        assert_eq!((packets, tcp_says), (flight, flight), "in flight: {flight}");
    }
}

/// A kernel refuses a program that reads a member which it does not have.
#[test]
fn no_address_of_ipv6_is_read_where_the_kernel_has_none() {
    let directory = tempfile::tempdir().expect("a place for the library");
    let library = program(directory.path());
    // SAFETY: hooks.c defines it so.
    let reads: Symbol<'_, unsafe extern "C" fn(*const c_char, *mut u8) -> u32> =
        unsafe { library.get("hooks_reads_of_lacking") }.expect("hooks.c defines it");
    let shown = |member: Option<&CStr>| {
        let mut first = 0;
        // SAFETY: the string and the byte outlive the call.
        let reads = unsafe { reads(member.map_or(ptr::null(), CStr::as_ptr), &raw mut first) };
        (reads, first)
    };
    assert_eq!(shown(None), (0, 0xfd), "a kernel with IPv6 shows the address");
    assert_eq!(shown(Some(c"skc_v6")).0, 0);
}

/// TCP knows the round trip of its handshake, so that the first rate is made once: from then on it
/// only rises until the pipe was full.
#[test]
fn a_long_first_round_trip_does_not_lower_the_first_rate() {
    let directory = tempfile::tempdir().expect("a place for the library");
    let library = program(directory.path());
    // SAFETY: hooks.c defines it so.
    let rates: Symbol<'_, unsafe extern "C" fn(u32, *mut u64, *mut u64)> =
        unsafe { library.get("hooks_first_rates") }.expect("hooks.c defines it");
    for rtt_us in [40_000, 41_000, 80_000, 400_000] {
        let (mut at_start, mut after_ack) = (0, 0);
        // SAFETY: both outlive the call.
        unsafe { rates(rtt_us, &raw mut at_start, &raw mut after_ack) };
        assert!(at_start > 0 && after_ack >= at_start, "{at_start}, {after_ack} at {rtt_us} us");
    }
}
