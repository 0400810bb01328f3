//! The task that drives an endpoint.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time;
use std::vec;
use std::vec::Vec;

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

use super::timer::Timer;
use super::wakers::Wakes;
use super::{Device, Shared};

/// Packets that are read, and that are sent, before others get their turn.
const BURST: usize = 64;
/// Time for which a packet waits for room in the device; then it is lost, as in any full queue.
/// Meanwhile no timer of a connection's is known: it takes its turn when the packet is gone.
const FULL: time::Duration = time::Duration::from_millis(100);
/// The largest IP packet, with a virtio network header.
const LARGEST: usize = 65_536 + 10;

/// A TUN device that was deleted has an error and is not readable.
const TO_READ: Interest = Interest::READABLE.add(Interest::ERROR);

struct Driver<D: Device> {
    device: D,
    /// A second descriptor of the device, to wait for.
    ready: AsyncFd<OwnedFd>,
    timer: Timer,
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    /// A packet that waits for room in the device; none when empty.
    packet: Vec<u8>,
    /// The time at which it is lost.
    lost_at: Option<time::Instant>,
    wakes: Wakes,
    /// The reason of its end.
    reason: io::ErrorKind,
}

/// The next thing to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// There is more to do at once.
    Nothing,
    /// A packet, somebody's work, this time, or room in the device if a packet waits for it.
    Event { at: Option<time::Instant>, room: bool },
}

pub(super) fn spawn(device: impl Device, shared: Arc<Shared>) -> io::Result<()> {
    let descriptor = device.as_fd().try_clone_to_owned()?;
    #[expect(
        deprecated,
        reason = "the other way is unsafe; an OwnedFd keeps what that asks for: it stays open and the same"
    )]
    let ready = AsyncFd::with_interest(descriptor, TO_READ.add(Interest::WRITABLE))?;
    let driver = Driver {
        device,
        ready,
        timer: Timer::new()?,
        shared,
        buffer: vec![0; LARGEST],
        packet: Vec::new(),
        lost_at: None,
        wakes: Wakes::default(),
        reason: io::ErrorKind::ConnectionAborted,
    };
    ::tokio::spawn(driver.run());
    Ok(())
}

impl<D: Device> Driver<D> {
    async fn run(mut self) {
        loop {
            let done = match self.work() {
                Ok(Next::Event { .. }) if self.is_over() => return,
                Ok(Next::Event { at, room }) => self.wait(at, room).await,
                Ok(Next::Nothing) => {
                    ::tokio::task::yield_now().await;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                self.reason = error.kind();
                return;
            }
        }
    }

    /// Nobody has the stack any more, and no connection and no packet is left.
    fn is_over(&self) -> bool {
        self.packet.is_empty()
            && self.shared.shares.load(Ordering::Acquire) == 0
            && self.shared.lock().endpoint.connections() == 0
    }

    async fn wait(&mut self, at: Option<time::Instant>, room: bool) -> io::Result<()> {
        ::tokio::select! {
            ready = self.ready.ready(TO_READ) => ready?.clear_ready(),
            ready = self.ready.writable(), if room => ready?.clear_ready(),
            () = self.shared.work.notified() => {}
            due = self.timer.wait(at) => due?,
        }
        Ok(())
    }

    /// Takes in packets, does what is due, and sends what may leave. The lock is free while the
    /// device is at work, which takes most of the time.
    fn work(&mut self) -> io::Result<Next> {
        let Self { device, shared, buffer, packet, lost_at, wakes, .. } = self;
        let device = &*device;
        let has_header = device.has_virtio_header();
        let mut more = true;
        for _ in 0..BURST {
            let Some(count) = receive(device, buffer)? else {
                more = false;
                break;
            };
            let (endpoint, now) = (&mut shared.lock().endpoint, shared.now());
            match has_header {
                true => endpoint.receive_virtio(now, &buffer[..count]),
                false => endpoint.receive(now, &buffer[..count]),
            }
        }
        shared.lock().on_timer(shared.now());
        if lost_at.is_some_and(|at| at <= time::Instant::now()) {
            packet.clear();
            *lost_at = None;
        }
        let (mut is_quiet, mut room) = (false, false);
        for _ in 0..BURST {
            is_quiet = packet.is_empty() && !transmit(shared, has_header, packet);
            room = !is_quiet && !send(device, packet)?;
            if is_quiet || room {
                break;
            }
            packet.clear();
            *lost_at = None;
        }
        let at = {
            let mut state = shared.lock();
            state.find_changed(wakes);
            state.poll_at()
        };
        wakes.wake();
        if more || !(is_quiet || room) {
            return Ok(Next::Nothing);
        }
        let mut at = at.map(|at| shared.epoch + time::Duration::from_nanos(at.as_nanos()));
        if room {
            let lost_at = *lost_at.get_or_insert_with(|| time::Instant::now() + FULL);
            at = Some(at.map_or(lost_at, |at| at.min(lost_at)));
        }
        Ok(Next::Event { at, room })
    }
}

/// However it ends: by an error, by a panic, or with its runtime.
impl<D: Device> Drop for Driver<D> {
    fn drop(&mut self) {
        self.shared.lock().fail(self.reason, &mut self.wakes);
        self.shared.ended.notify_waiters();
        self.wakes.wake();
    }
}

/// A packet, if there is one.
fn receive(device: &impl Device, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match device.receive(buffer) {
            Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(count) => return Ok(Some(count)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// True if there is a packet that may leave.
fn transmit(shared: &Shared, has_header: bool, packet: &mut Vec<u8>) -> bool {
    let (endpoint, now) = (&mut shared.lock().endpoint, shared.now());
    match has_header {
        true => endpoint.transmit_virtio(now, packet),
        false => endpoint.transmit(now, packet),
    }
}

/// True if the device took the packet. One that it refuses is lost, as on any network.
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
