//! Result codes.

use core::ffi::{CStr, c_char};

/// The result of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum Status {
    /// The call had its effect.
    Ok,
    /// A pointer is NULL.
    Null,
    /// No algorithm has this name.
    UnknownAlgorithm,
    /// A field of the configuration is out of its range.
    BadConfig,
    /// An argument is out of its range.
    BadArgument,
    /// A packet was not made by `fullpipe_on_sent`.
    BadPacket,
    /// The call is not allowed before `fullpipe_ack_finish`.
    BatchOpen,
    /// The call is not allowed before `fullpipe_ack_begin`.
    NoBatch,
    /// A defect of the library. Every further call on the controller except `fullpipe_free` returns
    /// this.
    Panicked,
    /// The size of a struct is less than that of its first version, above 4096, or no multiple of
    /// its alignment.
    BadSize,
    /// The program's struct is newer than this library, and a field is not 0 that the library does
    /// not know.
    UnknownField,
}

impl Status {
    const ALL: [Self; 11] = [
        Self::Ok,
        Self::Null,
        Self::UnknownAlgorithm,
        Self::BadConfig,
        Self::BadArgument,
        Self::BadPacket,
        Self::BatchOpen,
        Self::NoBatch,
        Self::Panicked,
        Self::BadSize,
        Self::UnknownField,
    ];

    const fn message(self) -> &'static CStr {
        match self {
            Self::Ok => c"no error",
            Self::Null => c"a pointer is NULL",
            Self::UnknownAlgorithm => c"no algorithm has this name",
            Self::BadConfig => c"a field of the configuration is out of its range",
            Self::BadArgument => c"an argument is out of its range",
            Self::BadPacket => c"the packet was not made by fullpipe_on_sent",
            Self::BatchOpen => c"the call is not allowed before fullpipe_ack_finish",
            Self::NoBatch => c"the call is not allowed before fullpipe_ack_begin",
            Self::Panicked => c"the library has a defect, and the controller is unusable",
            Self::BadSize => c"no version of the struct has this size",
            Self::UnknownField => c"the program sets a field that this library is too old to know",
        }
    }
}

impl From<Result<(), Self>> for Status {
    fn from(result: Result<(), Self>) -> Self {
        result.err().unwrap_or(Self::Ok)
    }
}

/// Returns one line of English for a status, never NULL. The string is static.
#[unsafe(no_mangle)]
pub extern "C" fn fullpipe_status_message(status: i32) -> *const c_char {
    let known = Status::ALL.into_iter().find(|known| *known as i32 == status);
    known.map_or(c"unknown status", Status::message).as_ptr()
}
