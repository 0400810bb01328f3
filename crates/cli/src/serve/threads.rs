//! The threads of the server.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::failure::Failure;

/// Threads that run connections beside the main one, until this is dropped.
pub(super) struct Threads(Vec<(Handle, oneshot::Sender<()>)>);

/// A runtime of the thread that calls it.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::run(format!("cannot start: {error}")))
}

impl Threads {
    /// So many in all, the main one included; as many as there are processors unless it is said.
    pub(super) fn start(wanted: Option<NonZeroUsize>) -> Result<Self, Failure> {
        let all = wanted.or(available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        (1..all).map(Self::one).collect::<Result<_, _>>().map(Self)
    }

    fn one(number: usize) -> Result<(Handle, oneshot::Sender<()>), Failure> {
        let runtime = runtime()?;
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

    pub(super) fn handles(&self) -> Vec<Handle> {
        self.0.iter().map(|(handle, _)| handle.clone()).collect()
    }
}
