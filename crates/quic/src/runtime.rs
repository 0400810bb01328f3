//! noq on tokio, with timers as fine as the kernel's.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use fullpipe_adapter::Timers;
use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use crate::CongestionControl;
use crate::not_ect::NotEct;

/// The runtime of one endpoint.
#[derive(Debug)]
pub(crate) struct FineRuntime {
    /// Congestion control of the endpoint's connections.
    congestion: CongestionControl,
    timers: Timers,
}

impl FineRuntime {
    /// Needs a tokio runtime around the caller.
    pub(crate) fn new(congestion: CongestionControl) -> Arc<Self> {
        Arc::new(Self { congestion, timers: Timers::start() })
    }
}

impl Runtime for FineRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(self.timers.timer(deadline)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        if crate::congestion::wants_ecn(self.congestion) {
            Ok(socket)
        } else {
            Ok(Box::new(NotEct(socket)))
        }
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
