//! quinn on tokio, with timers as fine as the kernel's and a socket that paces.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use fullpipe_adapter::Timers;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use crate::path::Path;
use crate::socket::PacedSocket;

/// The runtime of an endpoint: tokio, with finer timers and with a socket that sends the datagrams
/// of each connection at the pacing rate of its controller. Connections with controllers of quinn's
/// own are not paced by it.
///
/// Needs a tokio runtime around the caller.
pub fn runtime() -> Arc<dyn Runtime> {
    Arc::new(PacedRuntime { timers: Timers::start() })
}

#[derive(Debug)]
struct PacedRuntime {
    timers: Timers,
}

impl Runtime for PacedRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(self.timers.timer(deadline)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        Ok(Arc::new(PacedSocket::new(socket, self.timers.clone())))
    }

    /// A connection's task asks for the time before it makes datagrams. What was made on this
    /// thread before is not its own: a controller of ours without this runtime leaves it, and who
    /// makes datagrams without a controller of ours would find it.
    fn now(&self) -> Instant {
        Path::forget_made();
        self.timers.now()
    }
}

/// One of our timers as quinn sees it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    /// By another clock quinn would find nothing due, wait for the timer again, and so on.
    #[tokio::test(start_paused = true)]
    async fn what_a_timer_waited_for_is_past_when_it_expires() {
        let runtime = runtime();
        let deadline = runtime.now() + Duration::from_millis(2);
        let mut timer = runtime.new_timer(deadline);
        poll_fn(|cx| timer.as_mut().poll(cx)).await;
        assert!(runtime.now() >= deadline);
    }
}
