//! The threads of the server.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::failure::Failure;

/// The most threads unless it is said: each has descriptors of its own.
const MOST_UNSAID: usize = 16;

/// Descriptors of a thread's runtime.
const DESCRIPTORS: u64 = 4;

/// Threads that run connections beside the main one, until this is dropped.
pub(super) struct Threads(Vec<(Handle, oneshot::Sender<()>)>);

/// A runtime of the thread that calls it.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::run(format!("cannot start: {error}")))
}

impl Threads {
    /// So many in all, the main one included; as many as there are processors, and at most 16,
    /// unless it is said.
    pub(super) fn start(wanted: Option<NonZeroUsize>) -> Result<Self, Failure> {
        let processors = || available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_UNSAID);
        let all = wanted.map_or_else(processors, NonZeroUsize::get);
        (1..all).map(Self::one).collect::<Result<_, _>>().map(Self)
    }

    fn one(number: usize) -> Result<(Handle, oneshot::Sender<()>), Failure> {
        // Signals are the main thread's.
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Failure::run(format!("cannot start: {error}")))?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let run = move || {
            // Its end is that the sender is gone.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(format!("serve-{number}")).spawn(run);
        thread.map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
        Ok((handle, end))
    }

    /// Descriptors that they have open.
    pub(super) fn descriptors(&self) -> u64 {
        self.0.len() as u64 * DESCRIPTORS
    }

    pub(super) fn handles(&self) -> Vec<Handle> {
        self.0.iter().map(|(handle, _)| handle.clone()).collect()
    }
}
