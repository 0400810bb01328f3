//! The two ends of a flow.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc};
use std::time;

use fullpipe_cc::Duration;
use fullpipe_traffic::Application;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;

use super::end::{End, Listener, Unconnected};
use super::latency::{Times, Writes};

use super::short::Shorts;
use crate::backend::RunError;
use crate::backend::realtime::Event;
use crate::scenario::KernelCc;

/// The largest write and read.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Sleep of a silent application between two checks for data.
const SILENCE: time::Duration = time::Duration::from_millis(1);

/// Longest sleep of an end between two checks whether to stop.
pub(super) const NAP_MS: u16 = 20;

/// The first flow's beginning, for those that begin with it.
#[derive(Debug, Default)]
pub(super) struct Opening {
    zero: Mutex<Option<Duration>>,
    opened: Condvar,
}

impl Opening {
    /// The first flow began at `zero`, counted from the epoch.
    pub(super) fn open(&self, zero: Duration) {
        *self.zero.lock().unwrap_or_else(PoisonError::into_inner) = Some(zero);
        self.opened.notify_all();
    }

    /// Waits for that time; `None` if the run ends before.
    fn wait(&self, has_ended: impl Fn() -> bool) -> Option<Duration> {
        let nap = time::Duration::from_millis(NAP_MS.into());
        let mut zero = self.zero.lock().unwrap_or_else(PoisonError::into_inner);
        while zero.is_none() && !has_ended() {
            let woken = self.opened.wait_timeout(zero, nap);
            zero = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *zero
    }
}

/// A sender's time to connect and to begin, counted from the epoch.
pub(super) enum Begin {
    /// The first flow connects before its time, and makes the zero of all.
    First(Duration),
    /// Connects before its time too, and begins with the first: a handshake later it would find
    /// the first one's queue.
    WithFirst(Arc<Opening>),
    /// Connects when its time has come.
    At { start: Duration, zero: Duration },
}

/// State that both ends of a flow share.
pub(super) struct TcpFlow {
    pub(super) number: usize,
    pub(super) epoch: time::Instant,
    /// Nothing where the flow is not ours.
    pub(super) cc: Option<KernelCc>,
    pub(super) application: Application,
    /// Time at which its application falls silent, counted from the first flow's first request.
    pub(super) stop: Option<Duration>,
    /// Limit of unsent data at the sender (TCP_NOTSENT_LOWAT).
    pub(super) unsent_bytes: u32,
    /// Timeout of a connection attempt.
    pub(super) connect_timeout: time::Duration,
    /// The receiver's address.
    pub(super) to: SocketAddr,
    /// The sender, once it is connected.
    pub(super) sender: OnceLock<End>,
    /// The first flow's first request, since the epoch.
    pub(super) zero: OnceLock<Duration>,
    /// Servers of other people's that do not listen yet: no flow starts before.
    pub(super) unready: Arc<AtomicUsize>,
    /// Application bytes that the receiver got.
    pub(super) received: AtomicU64,
    pub(super) writes: Writes,
    pub(super) latencies: Times,
    /// Times from a request to the last byte of its answer.
    pub(super) completions: Times,
    /// True if an answer was asked for and has not arrived.
    pub(super) is_waiting: AtomicBool,
    /// The connections of an application that has many.
    pub(super) shorts: Shorts,
    /// Becomes true when the run is over.
    pub(super) ended: Arc<AtomicBool>,
    pub(super) told: mpsc::Sender<Event>,
}

impl TcpFlow {
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed().into()
    }

    /// Whoever does not listen any more has ended the run.
    pub(super) fn tell(&self, event: Event) {
        let _ = self.told.send(event);
    }

    /// Reports the failure of an end. A connection that breaks after the end of the run is not
    /// reported.
    pub(super) fn answer(&self, done: io::Result<()>) {
        if let Err(source) = done
            && !self.has_ended()
        {
            self.tell(Event::Failed(RunError::TcpFlow { flow: self.number, source }));
        }
    }

    /// Connects, and writes from its beginning on.
    pub(super) fn send(&self, socket: Unconnected, begin: &Begin) {
        self.answer(self.try_send(socket, begin));
    }

    fn try_send(&self, socket: Unconnected, begin: &Begin) -> io::Result<()> {
        if !self.wait_for_servers() {
            return Ok(());
        }
        if let Begin::At { start, .. } = begin
            && !self.sleep_until(*start)
        {
            return Ok(());
        }
        let Some(sender) = socket.connect(self)? else { return Ok(()) };
        let zero = match begin {
            Begin::First(start) => self.sleep_until(*start).then(|| self.now()),
            Begin::WithFirst(opening) => opening.wait(|| self.has_ended()),
            Begin::At { zero, .. } => (!self.has_ended()).then_some(*zero),
        };
        let Some(zero) = zero else { return Ok(()) };
        let stream = self.sender.get_or_init(|| sender);
        let begun = self.now();
        self.zero.get_or_init(|| zero);
        self.tell(Event::Started { flow: self.number, at: begun });
        match self.application {
            Application::Bytes(bytes) => self.write(stream, bytes, |_| true),
            // Short flows have connections of their own.
            Application::Bulk | Application::ShortFlows { .. } => {
                self.write(stream, u64::MAX, |_| true)
            }
            Application::OnOff { on, off } => {
                let cycle = (on + off).as_nanos().max(1);
                self.write(stream, u64::MAX, move |t| t.as_nanos() % cycle < on.as_nanos())
            }
            Application::RateLimited { rate, write_bytes } => {
                self.write_at_rate(stream, rate.time_for(write_bytes), write_bytes)
            }
            Application::RequestResponse { response_bytes, .. } => {
                self.answer_requests(stream, response_bytes)
            }
        }
    }

    /// The settings of a sender's socket.
    pub(super) fn prepare(&self, socket: &socket2::Socket) -> io::Result<()> {
        if let Some(cc) = self.cc {
            socket.set_tcp_congestion(cc.name().as_bytes())?;
        }
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_notsent_lowat(self.unsent_bytes)?;
        abort_on_close(socket)?;
        socket.set_nonblocking(true)
    }

    /// True if all of them listen before the end of the run.
    pub(super) fn wait_for_servers(&self) -> bool {
        while self.unready.load(Ordering::Acquire) > 0 && !self.has_ended() {
            std::thread::sleep(SILENCE);
        }
        !self.has_ended()
    }

    /// True if that time came before the end of the run.
    pub(super) fn sleep_until(&self, at: Duration) -> bool {
        while self.now() < at {
            if self.has_ended() {
                return false;
            }
            let nap = (at - self.now()).min(Duration::from_millis(u64::from(NAP_MS)));
            std::thread::sleep(nap.into());
        }
        !self.has_ended()
    }

    /// True if the application falls silent for good.
    pub(super) fn has_stopped(&self) -> bool {
        let zero = self.zero.get().copied().unwrap_or_default();
        self.has_ended() || self.stop.is_some_and(|stop| self.now() >= zero + stop)
    }

    /// True if it is connected; not when the run ended first.
    pub(super) fn connect(&self, socket: &socket2::Socket) -> io::Result<bool> {
        let deadline = time::Instant::now() + self.connect_timeout;
        match socket.connect(&self.to.into()) {
            Err(e) if e.raw_os_error() != Some(Errno::EINPROGRESS as i32) => return Err(e),
            _ => {}
        }
        while !wait(socket, PollFlags::POLLOUT)? {
            if self.has_ended() {
                return Ok(false);
            }
            if time::Instant::now() > deadline {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        socket.take_error()?.map_or(Ok(true), Err)
    }

    /// Writes `bytes` as fast as the kernel takes them, at the times since now at which `has_data`.
    fn write(
        &self,
        stream: &End,
        bytes: u64,
        has_data: impl Fn(Duration) -> bool,
    ) -> io::Result<()> {
        let begun = time::Instant::now();
        let chunk = vec![0; CHUNK_BYTES];
        let mut sent = 0;
        while sent < bytes && !self.has_stopped() {
            if !has_data(begun.elapsed().into()) {
                std::thread::sleep(SILENCE);
                continue;
            }
            if !stream.is_writable()? {
                continue;
            }
            let want = (bytes - sent).min(CHUNK_BYTES as u64);
            self.writes.write(sent + want, time::Instant::now());
            match stream.write(&chunk[..want as usize]) {
                Ok(n) => sent += n as u64,
                Err(e) if is_nothing(&e) => {}
                Err(e) => return Err(e),
            }
            self.writes.written(sent);
        }
        Ok(())
    }

    /// Writes so much in every interval. What the kernel does not take in time is as old as it is
    /// due.
    fn write_at_rate(&self, stream: &End, interval: Duration, write_bytes: u64) -> io::Result<()> {
        let begun = time::Instant::now();
        let chunk = vec![0; write_bytes as usize];
        for i in 0_u64.. {
            let due = begun + time::Duration::from(interval.times(i));
            if !self.sleep_until(due.duration_since(self.epoch).into()) || self.has_stopped() {
                return Ok(());
            }
            self.writes.write((i + 1) * write_bytes, due);
            if !self.write_whole(stream, &chunk)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers each byte that the other end sends.
    fn answer_requests(&self, stream: &End, response_bytes: u64) -> io::Result<()> {
        let chunk = vec![0; CHUNK_BYTES];
        let mut sent = 0;
        while !self.has_stopped() {
            if !stream.is_readable()? {
                continue;
            }
            match stream.read(&mut [0]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if is_nothing(&e) => continue,
                Err(e) => return Err(e),
            }
            let mut left = response_bytes;
            while left > 0 {
                let part = left.min(CHUNK_BYTES as u64);
                sent += part;
                self.writes.write(sent, time::Instant::now());
                if !self.write_whole(stream, &chunk[..part as usize])? {
                    return Ok(());
                }
                left -= part;
            }
        }
        Ok(())
    }

    /// True if all of it was written before the end of the run.
    pub(super) fn write_whole(&self, stream: &End, mut bytes: &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            if self.has_ended() {
                return Ok(false);
            }
            if !stream.is_writable()? {
                continue;
            }
            match stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if is_nothing(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Takes the one connection and reads it to its end.
    pub(super) fn receive(&self, listener: &Listener) {
        self.answer(self.try_receive(listener));
    }

    fn try_receive(&self, listener: &Listener) -> io::Result<()> {
        let stream = loop {
            if self.has_ended() {
                return Ok(());
            }
            if let Some(stream) = listener.accept()? {
                break stream;
            }
        };
        let mut chunk = vec![0; 4 * CHUNK_BYTES];
        let mut received = 0;
        let mut requests = Requests::of(self.application);
        loop {
            if self.has_ended() {
                return Ok(());
            }
            if self.stop.is_some() && self.zero.get().is_some() && self.has_stopped() {
                self.tell(Event::Finished { flow: self.number, at: self.now() });
                return Ok(());
            }
            if let Some(requests) = &mut requests {
                requests.ask(&stream)?;
                self.is_waiting.store(requests.asked.is_some(), Ordering::Relaxed);
            }
            if !stream.is_readable()? {
                continue;
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => received += n as u64,
                Err(e) if is_nothing(&e) => continue,
                Err(e) => return Err(e),
            }
            self.received.store(received, Ordering::Relaxed);
            self.writes.read(received, time::Instant::now(), &self.latencies);
            if let Some(requests) = &mut requests {
                requests.received(received, &self.completions);
                self.is_waiting.store(requests.asked.is_some(), Ordering::Relaxed);
            }
            if matches!(self.application, Application::Bytes(n) if received >= n) {
                self.tell(Event::Finished { flow: self.number, at: self.now() });
                return Ok(());
            }
        }
    }
}

/// The receiver's side of requests and answers.
struct Requests {
    response_bytes: u64,
    think: time::Duration,
    /// Time of the request whose answer is awaited.
    asked: Option<time::Instant>,
    next: time::Instant,
    /// Bytes of all answers that were asked for.
    wanted: u64,
}

impl Requests {
    fn of(application: Application) -> Option<Self> {
        let Application::RequestResponse { response_bytes, think } = application else {
            return None;
        };
        let next = time::Instant::now();
        Some(Self { response_bytes, think: think.into(), asked: None, next, wanted: 0 })
    }

    /// Asks for the next answer if it is time.
    fn ask(&mut self, stream: &End) -> io::Result<()> {
        if self.asked.is_some() {
            return Ok(());
        }
        let wait = self.next.saturating_duration_since(time::Instant::now());
        std::thread::sleep(wait.min(time::Duration::from_millis(u64::from(NAP_MS))));
        if time::Instant::now() < self.next {
            return Ok(());
        }
        match stream.write(&[0]) {
            Ok(1) => {
                self.asked = Some(time::Instant::now());
                self.wanted += self.response_bytes;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(e) if is_nothing(&e) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn received(&mut self, received: u64, completions: &Times) {
        if let Some(asked) = self.asked.filter(|_| received >= self.wanted) {
            completions.record(asked.elapsed());
            self.asked = None;
            self.next = time::Instant::now() + self.think;
        }
    }
}

/// Closing then resets the connection: what the kernel went on sending after the process is gone
/// would keep the namespace alive.
pub(super) fn abort_on_close<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    socket.into().set_linger(Some(time::Duration::ZERO))
}

pub(super) fn is_nothing(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// True if something happened within a nap.
pub(super) fn wait(socket: &impl AsFd, flags: PollFlags) -> io::Result<bool> {
    match poll(&mut [PollFd::new(socket.as_fd(), flags)], PollTimeout::from(NAP_MS)) {
        Ok(happened) => Ok(happened > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
