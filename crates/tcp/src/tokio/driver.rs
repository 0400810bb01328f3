//! The task that drives an endpoint.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time;
use std::vec;
use std::vec::Vec;

use ::tokio::io::unix::AsyncFd;

use super::timer::Timer;
use super::{Device, Shared};

/// Packets that are read, and that are sent, before others get their turn.
const BURST: usize = 64;
/// The largest IP packet.
const LARGEST: usize = 65_536;

struct Driver<D: Device> {
    device: D,
    /// A second descriptor of the device, to wait for.
    ready: AsyncFd<OwnedFd>,
    timer: Timer,
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    /// A packet that waits for room in the device; none when empty.
    packet: Vec<u8>,
}

/// The next thing to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// There is more to do at once.
    Nothing,
    /// Room in the device.
    Room,
    /// A packet, somebody's work, or this time.
    Event(Option<time::Instant>),
}

pub(super) fn spawn(device: impl Device, shared: Arc<Shared>) -> io::Result<()> {
    let descriptor = device.as_fd().try_clone_to_owned()?;
    #[expect(
        deprecated,
        reason = "the other way is unsafe; an OwnedFd keeps what that asks for: it stays open and the same"
    )]
    let ready = AsyncFd::new(descriptor)?;
    let (timer, buffer) = (Timer::new()?, vec![0; LARGEST]);
    let driver = Driver { device, ready, timer, shared, buffer, packet: Vec::new() };
    ::tokio::spawn(driver.run());
    Ok(())
}

impl<D: Device> Driver<D> {
    async fn run(mut self) {
        loop {
            let done = match self.work() {
                Ok(Next::Event(_)) if self.is_over() => return,
                Ok(Next::Nothing) => {
                    ::tokio::task::yield_now().await;
                    Ok(())
                }
                Ok(Next::Room) => self.ready.writable().await.map(|mut guard| guard.clear_ready()),
                Ok(Next::Event(at)) => self.wait(at).await,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                return self.shared.lock().fail(error.kind());
            }
        }
    }

    /// Nobody has the stack any more, and no connection is left.
    fn is_over(&self) -> bool {
        Arc::strong_count(&self.shared) == 1 && self.shared.lock().endpoint.connections() == 0
    }

    async fn wait(&mut self, at: Option<time::Instant>) -> io::Result<()> {
        ::tokio::select! {
            ready = self.ready.readable() => ready?.clear_ready(),
            () = self.shared.work.notified() => {}
            due = self.timer.wait(at) => due?,
        }
        Ok(())
    }

    /// Takes in packets, does what is due, and sends what may leave.
    fn work(&mut self) -> io::Result<Next> {
        let Self { device, shared, buffer, packet, .. } = self;
        let device = &*device;
        let mut state = shared.lock();
        let mut more = true;
        for _ in 0..BURST {
            match receive(device, buffer)? {
                Some(count) => state.endpoint.receive(shared.now(), &buffer[..count]),
                None => {
                    more = false;
                    break;
                }
            }
        }
        state.endpoint.on_timer(shared.now());
        let mut next = Next::Nothing;
        for _ in 0..BURST {
            if packet.is_empty() && !state.endpoint.transmit(shared.now(), packet) {
                let at = state.endpoint.poll_at();
                let at = at.map(|at| shared.epoch + time::Duration::from_nanos(at.as_nanos()));
                next = Next::Event(at);
                break;
            }
            if !send(device, packet)? {
                next = Next::Room;
                break;
            }
            packet.clear();
        }
        state.wake();
        Ok(if more { Next::Nothing } else { next })
    }
}

/// A packet, if there is one.
fn receive(device: &impl Device, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match device.receive(buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Whether the device took the packet. One that it refuses is lost, as on any network.
fn send(device: &impl Device, packet: &[u8]) -> io::Result<bool> {
    loop {
        match device.send(packet) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Err(e),
            _ => return Ok(true),
        }
    }
}
