//! C interface of [`fullpipe_cc`].
//!
//! `include/fullpipe.h` declares it, `README.md` shows its use, and [`fullpipe_cc::Controller`]
//! documents the order of the calls. A C transport calls the functions of this crate as a Rust one
//! calls the methods of the same names.
//!
//! # Errors
//!
//! A function returns a [`Status`]. It refuses a null pointer, a value out of range, and a call
//! while a batch is open. A panic does not cross the interface: it becomes [`Status::Panicked`],
//! and the controller takes no further calls.
//!
//! # Safety
//!
//! The caller of every function guarantees the same:
//!
//! - A pointer is null or points to a valid object of its type, aligned and, where the function
//!   writes, writable. An object that is only written may be uninitialised. A struct of another
//!   version has as many bytes as its `size` says.
//! - A string ends with a null byte.
//! - A controller comes from [`fullpipe_new`] and was not freed.
//! - No two threads use one controller at the same time.
#![expect(clippy::missing_safety_doc, reason = "the same for all functions: see Safety above")]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod batch;
mod config;
mod controller;
mod handle;
mod info;
mod packet;
mod status;
mod versioned;

use core::ffi::{CStr, c_char};
use core::ptr;

pub use batch::*;
pub use config::{
    Config, FULLPIPE_CUBIC_LINUX, FULLPIPE_CUBIC_RFC9438, FULLPIPE_TRANSPORT_QUIC,
    FULLPIPE_TRANSPORT_TCP, fullpipe_config_init,
};
pub use controller::*;
pub use handle::Handle;
pub use info::{Info, State, fullpipe_get_info, fullpipe_state_name};
pub use packet::{Packet, fullpipe_packet_split};
pub use status::{Status, fullpipe_status_message};

/// The value of a field that is absent: a limit that is not set, an estimate that does not exist
/// yet, or one that the algorithm does not have.
pub const FULLPIPE_NONE: u64 = u64::MAX;

/// The names of the algorithms, as `fullpipe_cc::Algorithm::NAMES` has them.
const ALGORITHMS: [&CStr; 9] = [
    c"bbr3",
    c"bbr3x",
    c"bbr3-linux",
    c"bbr3x-linux",
    c"bbr-swift",
    c"prague",
    c"bbr1",
    c"cubic",
    c"reno",
];

/// Returns the name of the algorithm with this number, from 0, or NULL after the last one.
#[unsafe(no_mangle)]
pub extern "C" fn fullpipe_algorithm_name(number: usize) -> *const c_char {
    ALGORITHMS.get(number).map_or(ptr::null(), |name| name.as_ptr())
}

/// Returns the version of the library: major * 1000000 + minor * 1000 + patch. Before 1.0 libraries
/// of one minor version have the same interface, in which structs grow at their ends.
#[unsafe(no_mangle)]
pub extern "C" fn fullpipe_version() -> u32 {
    const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
        + number(env!("CARGO_PKG_VERSION_PATCH"));
    VERSION
}

/// The decimal number in `digits`.
const fn number(digits: &str) -> u32 {
    match u32::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_core() {
        let names = ALGORITHMS.map(|name| name.to_str().expect("ASCII"));
        assert_eq!(names, fullpipe_cc::Algorithm::NAMES);
        assert!(fullpipe_algorithm_name(names.len()).is_null());
    }

    #[test]
    fn the_version_is_the_crates() {
        let version = fullpipe_version();
        let text =
            format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000);
        assert_eq!(text, env!("CARGO_PKG_VERSION"));
    }
}
