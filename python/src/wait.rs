//! Work beside Python: the calling thread lets go of the interpreter, and looks at signals
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::algorithm::Call;

/// Time between two looks at signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Messages between the work and the thread that waits for it.
#[derive(Default)]
pub(crate) struct Shared {
    /// Whose work it is, and whether it shall end early.
    pub(crate) call: Arc<Call>,
    /// Number of runs that are done.
    pub(crate) done: AtomicUsize,
}

/// Does work on a thread of its own until it is over. `progress` is called with the number of runs
/// that are done, at most twenty times a second.
///
/// # Errors
/// A signal's handler, `progress` or an algorithm in Python raised, as Ctrl-C does: the work was
/// stopped before this returns.
pub(crate) fn wait<R: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Shared) -> R + Send,
) -> PyResult<R> {
    let shared = Shared::default();
    let (ended, end) = mpsc::channel::<()>();
    let tell = |shared: &Shared| match progress {
        Some(progress) => progress.call1((shared.done.load(Ordering::Relaxed),)).map(drop),
        None => Ok(()),
    };
    let mut failed = None;
    let result = std::thread::scope(|scope| {
        let at_work = &shared;
        let thread = scope.spawn(move || {
            // Dropped when the work is over, however it ends.
            let _ended = ended;
            work(at_work)
        });
        let end = std::sync::Mutex::new(end);
        let is_over = || {
            let end = end.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            end.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected)
        };
        while !py.detach(is_over) {
            let look = || shared.call.failure().map_or(Ok(()), Err);
            if failed.is_none()
                && let Err(error) =
                    py.check_signals().and_then(|()| tell(&shared)).and_then(|()| look())
            {
                shared.call.stop.store(true, Ordering::Relaxed);
                failed = Some(error);
            }
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    match failed {
        Some(error) => Err(error),
        None => {
            shared.call.failure().map_or(Ok(()), Err)?;
            tell(&shared)?;
            Ok(result)
        }
    }
}
