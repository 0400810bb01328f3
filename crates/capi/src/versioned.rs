//! Structs of which a program may have an older or a newer version than the library.
//!
//! A version of a struct adds fields at its end and changes nothing else, so that its size alone
//! tells it from the others. That needs a last field that ends where the struct does: another one
//! behind it would be in its padding, and the size would stay.

use core::mem::{align_of, size_of};
use core::{ptr, slice};

use crate::status::Status;

/// A struct that grows at its end.
pub(crate) trait Versioned: Copy {
    /// The size of the first version.
    const FIRST: usize;
}

/// No struct is larger: a word that is no size is not followed through the memory.
const MAX_SIZE: usize = 4096;

/// Refuses what is no place for a `T` of any version: null, or a size that no version has.
pub(crate) fn check<T: Versioned>(place: *const T, size: usize) -> Result<(), Status> {
    if place.is_null() {
        return Err(Status::Null);
    }
    let is_size = (T::FIRST..=MAX_SIZE).contains(&size) && size.is_multiple_of(align_of::<T>());
    if is_size { Ok(()) } else { Err(Status::BadSize) }
}

/// Fills the `size` bytes at `out` with the fields of `value` that fit; what this library does not
/// know is 0.
///
/// # Safety
///
/// [`check`] took both, and so many bytes can be written.
pub(crate) unsafe fn fill<T: Versioned>(out: *mut T, size: usize, value: T) {
    let known = size.min(size_of::<T>());
    let out = out.cast::<u8>();
    // SAFETY: `known` bytes of `value` are there, and `size` bytes at `out` by the caller's
    // guarantee.
    unsafe {
        ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), out, known);
        ptr::write_bytes(out.add(known), 0, size - known);
    }
}

/// The struct of `size` bytes behind `pointer`. A field that it does not have is that of `default`.
/// One that this library does not know has to be 0.
///
/// # Safety
///
/// `pointer` is null, or so many initialised bytes are there. Each value of its bytes is a valid
/// `T`.
pub(crate) unsafe fn read_over<T: Versioned>(
    pointer: *const T,
    size: usize,
    default: T,
) -> Result<T, Status> {
    check(pointer, size)?;
    let known = size.min(size_of::<T>());
    let bytes = pointer.cast::<u8>();
    // SAFETY: `size` bytes are there by the caller's guarantee.
    let unknown = unsafe { slice::from_raw_parts(bytes.add(known), size - known) };
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(Status::UnknownField);
    }
    let mut value = default;
    // SAFETY: `known` bytes are in both, and each value of them is valid.
    unsafe { ptr::copy_nonoverlapping(bytes, (&raw mut value).cast::<u8>(), known) };
    Ok(value)
}
