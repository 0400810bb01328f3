//! The signals that a server takes.

use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// A wish of whoever sent the signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    /// SIGINT: the end, at once.
    Stop,
    /// SIGTERM: the end, when the answers that are on their way are done.
    Finish,
    /// SIGHUP: files are to be read or opened again.
    Reload,
}

pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    /// Takes the signals from now on.
    pub(crate) fn install() -> Result<Self, Failure> {
        let take = |kind| {
            unix::signal(kind)
                .map_err(|error| Failure::run(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            hang_up: take(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Finish,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }

    /// Ends when the user wants an end, or another one of a server that is ending already.
    pub(crate) async fn end(&mut self) {
        while self.next().await == Signal::Reload {}
    }
}
