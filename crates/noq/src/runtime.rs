//! noq on tokio, with timers as fine as the kernel's, and as many datagrams in a call as it takes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use fullpipe_adapter::Timers;
use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use crate::CongestionControl;
use crate::batch::{Batching, Turns};
use crate::congestion::wants_ecn;
use crate::not_ect::NotEct;

/// The runtime of an endpoint: tokio, with finer timers and larger batches. `congestion` is the one
/// of the endpoint's connections; where it has no answer to CE marks, packets do not ask for them.
///
/// Needs a tokio runtime around the caller.
pub fn runtime(congestion: impl Into<CongestionControl>) -> Arc<dyn Runtime> {
    Arc::new(FineRuntime { congestion: congestion.into(), timers: Timers::start() })
}

#[derive(Debug)]
struct FineRuntime {
    congestion: CongestionControl,
    timers: Timers,
}

impl Runtime for FineRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(self.timers.timer(deadline)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(Box::pin(Turns::of(future)));
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        let socket = Box::new(Batching(TokioRuntime.wrap_udp_socket(socket)?));
        if wants_ecn(self.congestion) { Ok(socket) } else { Ok(Box::new(NotEct(socket))) }
    }

    /// By the clock of the timers, or a deadline would be compared with another clock where tokio's
    /// is paused.
    fn now(&self) -> Instant {
        self.timers.now()
    }
}

/// One of our timers as noq sees it.
#[derive(Debug)]
struct Timer(fullpipe_adapter::Timer);

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.0.reset(deadline);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(cx)
    }
}
