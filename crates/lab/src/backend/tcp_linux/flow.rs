//! The two ends of a flow.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc};
use std::time;

use fullpipe_cc::{Duration, Instant};
use fullpipe_scenario::KernelCc;
use fullpipe_traffic::{Action, Application, Reading, Supply, Traffic};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;

use super::end::{Listener, TcpEnd, Unconnected};
use super::latency::{SharedTally, Writes};

use super::short::Shorts;
use crate::backend::RunError;
use crate::backend::realtime::Event;

/// The largest write and read.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Sleep between two looks whether servers of other people's listen.
const SILENCE: time::Duration = time::Duration::from_millis(1);

/// Longest sleep of an end between two checks whether to stop.
pub(super) const NAP_MS: u16 = 20;

/// The same.
const NAP: Duration = Duration::from_millis(NAP_MS as u64);

/// Requests that a sender reads at once; a receiver has one on its way at a time.
const MAX_REQUESTS: usize = 16;

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
    /// Of the starts of short connections.
    pub(super) seed: u64,
    /// Time at which its application falls silent, counted from the first flow's first request.
    pub(super) stop: Option<Duration>,
    /// Limit of unsent data at the sender (TCP_NOTSENT_LOWAT).
    pub(super) unsent_bytes: u32,
    /// Timeout of a connection attempt.
    pub(super) connect_timeout: time::Duration,
    /// The receiver's address.
    pub(super) to: SocketAddr,
    /// The sender, once it is connected.
    pub(super) sender: OnceLock<TcpEnd>,
    /// The first flow's first request, since the epoch.
    pub(super) zero: OnceLock<Duration>,
    /// Servers of other people's that do not listen yet: no flow starts before.
    pub(super) unready: Arc<AtomicUsize>,
    /// Application bytes that the receiver got.
    pub(super) received: AtomicU64,
    pub(super) writes: Writes,
    pub(super) latencies: SharedTally,
    /// Times from a request to the last byte of its answer.
    pub(super) completions: SharedTally,
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

    /// The same as applications have it.
    pub(super) fn instant(&self) -> Instant {
        since_epoch(self.now())
    }

    /// Whoever does not listen any more has ended the run.
    pub(super) fn tell(&self, event: Event) {
        let _ = self.told.send(event);
    }

    /// Reports the failure of an end. A connection that breaks after the end of the run, or when
    /// the other end has stopped, is not reported.
    pub(super) fn answer(&self, done: io::Result<()>) {
        if let Err(source) = done
            && !self.has_stopped()
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
        let mut traffic = self.traffic(begun, self.stop.map(|stop| zero + stop));
        traffic.on_connected(since_epoch(begun));
        self.write(stream, traffic, Some(&self.writes))
    }

    /// The flow's applications as one of its ends has them; times are since the epoch.
    pub(super) fn traffic(&self, start: Duration, stop: Option<Duration>) -> Traffic {
        Traffic::new(self.application, since_epoch(start), stop.map(since_epoch), self.seed)
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
            let nap = (at - self.now()).min(NAP);
            std::thread::sleep(nap.into());
        }
        !self.has_ended()
    }

    /// True if the application falls silent for good.
    pub(super) fn has_stopped(&self) -> bool {
        let stop = self.stop.zip(self.zero.get()).map(|(stop, zero)| *zero + stop);
        self.has_ended() || stop.is_some_and(|stop| self.now() >= stop)
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

    /// Writes what the sender's application has, until it falls silent or never has more. `writes`
    /// hears of each piece before it is there to be read.
    pub(super) fn write(
        &self,
        stream: &TcpEnd,
        mut traffic: Traffic,
        writes: Option<&Writes>,
    ) -> io::Result<()> {
        let application = traffic.application();
        let answers = matches!(application, Application::RequestResponse { .. });
        let chunk = vec![0; CHUNK_BYTES];
        let mut supply = Supply::default();
        while !self.has_ended() {
            match traffic.on_time(self.instant()) {
                Action::Nothing => {}
                Action::Stop => return Ok(()),
                action => {
                    supply_at(&mut supply, application, action, writes);
                    continue;
                }
            }
            if supply.left() > 0 {
                self.write_some(stream, &mut supply, &chunk, writes, application)?;
                continue;
            }
            match traffic.wakes() {
                _ if answers => {
                    for _ in 0..self.read(stream, &mut [0; MAX_REQUESTS])?.unwrap_or(0) {
                        let action = traffic.on_request(self.instant());
                        supply_at(&mut supply, application, action, writes);
                    }
                }
                Some(at) => {
                    self.sleep_until(at.since(Instant::default()));
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Writes as much of the application's data as the transport takes within a nap.
    fn write_some(
        &self,
        stream: &TcpEnd,
        supply: &mut Supply,
        chunk: &[u8],
        writes: Option<&Writes>,
        application: Application,
    ) -> io::Result<()> {
        if !stream.is_writable()? {
            return Ok(());
        }
        // Those at certain times are known since then.
        let writes = writes.filter(|_| !application.writes_at_times());
        let want = supply.left().min(chunk.len() as u64);
        if let Some(writes) = writes {
            writes.write(supply.taken() + want, self.instant());
        }
        match stream.write(&chunk[..want as usize]) {
            Ok(n) => supply.take(n as u64),
            Err(e) if is_nothing(&e) => {}
            Err(e) => return Err(e),
        }
        if let Some(writes) = writes {
            writes.written(supply.taken());
        }
        Ok(())
    }

    /// The bytes that were there to be read within a nap; nothing if there were none.
    pub(super) fn read(&self, stream: &TcpEnd, to: &mut [u8]) -> io::Result<Option<u64>> {
        if !stream.is_readable()? {
            return Ok(None);
        }
        match stream.read(to) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => Ok(Some(n as u64)),
            Err(e) if is_nothing(&e) => Ok(None),
            Err(e) => Err(e),
        }
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
            if let Some((stream, _)) = listener.accept()? {
                break stream;
            }
        };
        let mut chunk = vec![0; 4 * CHUNK_BYTES];
        let mut received = 0;
        let asks = matches!(self.application, Application::RequestResponse { .. });
        let mut traffic = self.traffic(self.now(), None);
        traffic.on_connected(self.instant());
        loop {
            if self.has_ended() {
                return Ok(());
            }
            if self.has_stopped() {
                self.tell(Event::Finished { flow: self.number, at: self.now() });
                return Ok(());
            }
            if asks {
                if traffic.on_time(self.instant()) == Action::Request {
                    self.is_waiting.store(true, Ordering::Relaxed);
                    self.request(&stream)?;
                }
                if let Some(at) = traffic.wakes() {
                    self.sleep_until(at.since(Instant::default()).min(self.now() + NAP));
                    continue;
                }
            }
            let Some(count) = self.read(&stream, &mut chunk)? else { continue };
            received += count;
            self.received.store(received, Ordering::Relaxed);
            self.writes.read(received, self.instant(), &self.latencies);
            match traffic.on_read(self.instant(), received) {
                // Media is refused before.
                Reading::More | Reading::Frame(_) => {}
                Reading::Answer(time) => {
                    self.completions.record(time);
                    self.is_waiting.store(false, Ordering::Relaxed);
                }
                Reading::All => {
                    self.tell(Event::Finished { flow: self.number, at: self.now() });
                    return Ok(());
                }
            }
        }
    }

    /// The receiver's application asks for an answer: a byte.
    fn request(&self, stream: &TcpEnd) -> io::Result<()> {
        while !self.has_ended() {
            match stream.write(&[0]) {
                Ok(1..) => break,
                Ok(_) => {}
                Err(e) if is_nothing(&e) => {}
                Err(e) => return Err(e),
            }
            stream.is_writable()?;
        }
        Ok(())
    }
}

/// A time since the epoch as applications have it.
fn since_epoch(time: Duration) -> Instant {
    Instant::default() + time
}

/// The data of a sender's application changes; `writes` hears of what is written at its time.
fn supply_at(
    supply: &mut Supply,
    application: Application,
    action: Action,
    writes: Option<&Writes>,
) {
    let mut end = supply.wanted();
    supply.on_action(application, action);
    if let (Action::Write { due, .. }, Some(writes)) = (action, writes)
        && application.writes_at_times()
    {
        while end < supply.wanted() {
            end = supply.wanted().min(end + CHUNK_BYTES as u64);
            writes.write(end, due);
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
