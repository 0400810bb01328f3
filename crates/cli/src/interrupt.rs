//! Ctrl-C, and the signals that mean the same: SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::failure::Failure;

/// Request to end the run, for callers that poll and for those that await.
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    raised: watch::Receiver<bool>,
}

impl Interrupt {
    /// Takes the signals from now on; once in a process.
    pub(crate) fn install() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        let (raise, raised) = watch::channel(false);
        let handler_flag = flag.clone();
        ctrlc::set_handler(move || {
            handler_flag.store(true, Ordering::Relaxed);
            raise.send_replace(true);
        })
        .map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))?;
        Ok(Self { flag, raised })
    }

    /// For a loop that looks at it now and then.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    /// Ends when the user wants an end; never otherwise.
    pub(crate) async fn wait(&self) {
        if self.raised.clone().wait_for(|raised| *raised).await.is_err() {
            // The handler is gone, which ends only with the process.
            std::future::pending::<()>().await;
        }
    }
}
