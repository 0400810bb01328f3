//! The object behind a C pointer, and the checks that every function begins with.

use core::mem;
use core::ptr::NonNull;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fullpipe_cc::{AckBatch, Controller};

use crate::status::Status;

/// Congestion control of one flow on one path.
pub struct Handle {
    /// Owned, in an allocation of its own. While `batch` is there, only `batch` uses it.
    controller: NonNull<Controller>,
    batch: Option<AckBatch<'static>>,
    has_panicked: bool,
}

impl Handle {
    pub(crate) fn new(controller: Controller) -> Self {
        let controller = NonNull::from(Box::leak(Box::new(controller)));
        Self { controller, batch: None, has_panicked: false }
    }

    /// The controller, unless a batch is open.
    pub(crate) fn controller(&mut self) -> Result<&mut Controller, Status> {
        if self.batch.is_some() {
            return Err(Status::BatchOpen);
        }
        // SAFETY: the pointer comes from a box that only `drop` frees. No batch is open, so nothing
        // else refers to it, and the result borrows `self`.
        Ok(unsafe { self.controller.as_mut() })
    }

    /// Opens a batch with `open`.
    pub(crate) fn open(
        &mut self,
        open: impl FnOnce(&'static mut Controller) -> AckBatch<'static>,
    ) -> Result<(), Status> {
        if self.batch.is_some() {
            return Err(Status::BatchOpen);
        }
        // SAFETY: the pointer comes from a box that only `drop` frees, after the batch. No batch is
        // open, so nothing else refers to it, and nothing else will while `self.batch` is there:
        // `controller` refuses.
        let controller = unsafe { self.controller.as_mut() };
        self.batch = Some(open(controller));
        Ok(())
    }

    /// The open batch.
    pub(crate) fn batch(&mut self) -> Result<&mut AckBatch<'static>, Status> {
        self.batch.as_mut().ok_or(Status::NoBatch)
    }

    /// Closes the batch.
    pub(crate) fn finish(&mut self) -> Result<(), Status> {
        self.batch.take().ok_or(Status::NoBatch)?.finish();
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Whoever frees the controller does not ask for what the batch would change.
        mem::forget(self.batch.take());
        // SAFETY: the pointer comes from a box, is freed here only, and the batch is gone.
        drop(unsafe { Box::from_raw(self.controller.as_ptr()) });
    }
}

/// Runs `call`; a panic in it becomes [`Status::Panicked`].
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Status>) -> Status {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Status::Panicked)).into()
}

/// Runs `call` on the controller behind `handle`. After a panic the controller takes no further
/// calls.
///
/// # Safety
///
/// `handle` is null, or points to a valid controller that nothing else uses during the call.
pub(crate) unsafe fn with(
    handle: *mut Handle,
    call: impl FnOnce(&mut Handle) -> Result<(), Status>,
) -> Status {
    // SAFETY: the caller's guarantee.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return Status::Null };
    if handle.has_panicked {
        return Status::Panicked;
    }
    let status = guard(|| call(handle));
    if status == Status::Panicked {
        handle.has_panicked = true;
        // Its end would run the code that panicked.
        mem::forget(handle.batch.take());
    }
    status
}

/// The value behind `pointer`.
///
/// # Safety
///
/// `pointer` is null, or points to a valid `T`.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Result<T, Status> {
    if pointer.is_null() {
        return Err(Status::Null);
    }
    // SAFETY: not null, and so valid by the caller's guarantee.
    Ok(unsafe { pointer.read() })
}

/// Writes `value` to `pointer`.
///
/// # Safety
///
/// `pointer` is null, or a `T` can be written there.
pub(crate) unsafe fn write<T: Copy>(pointer: *mut T, value: T) -> Result<(), Status> {
    if pointer.is_null() {
        return Err(Status::Null);
    }
    // SAFETY: not null, and so writable by the caller's guarantee.
    unsafe { pointer.write(value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::{Algorithm, Config, Instant};

    use super::*;

    #[test]
    fn a_panic_becomes_a_status_and_ends_the_controller() {
        let now = Instant::default();
        let mut handle = Handle::new(Controller::new(Algorithm::BBR3, Config::new(1), now));
        let pointer: *mut Handle = &mut handle;
        // SAFETY: `pointer` is valid, and nothing else uses it.
        let with = |call: fn(&mut Handle) -> Result<(), Status>| unsafe { with(pointer, call) };
        assert_eq!(with(|handle| handle.open(|cc| cc.ack(Instant::default()))), Status::Ok);
        assert_eq!(with(|_| panic!("a defect of the test")), Status::Panicked);
        assert_eq!(with(|_| Ok(())), Status::Panicked);
    }
}
