//! A flow of the kernel's CUBIC beside a command in a namespace.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fullpipe_emu::EmuError;

use super::location::Link;
use super::run::CompetingDirection;
use fullpipe_lab::backend::RunError;

/// The time for which a socket that has nothing to do holds its thread.
const PATIENCE: Duration = Duration::from_millis(200);

const CHUNK: usize = 64 * 1024;

/// A running flow. It ends when this is dropped.
pub struct CompetingFlow {
    stop: Arc<AtomicBool>,
    ends: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl CompetingFlow {
    /// Starts a flow between the command's end of a link and the other one.
    ///
    /// # Errors
    /// A namespace cannot be entered, or the system gives no socket or thread.
    pub fn start(link: &Link, way: CompetingDirection) -> Result<Self, RunError> {
        let wrong =
            |source| RunError::Link(EmuError::Io { action: "start a flow of CUBIC", source });
        let address = link.address();
        if address.port() != 0 {
            return Err(RunError::Scenario("a relay has no flow of CUBIC".to_owned()));
        }
        // A socket stays in the namespace in which it was made.
        let listener = link.enter_server(|| TcpListener::bind((address.ip(), 0)))?;
        let listener = listener.map_err(wrong)?;
        let server = listener.local_addr().map_err(wrong)?;
        let inside = link.enter(|| TcpStream::connect(server))?.map_err(wrong)?;
        let (outside, _) = listener.accept().map_err(wrong)?;
        let (from, to) = match way {
            CompetingDirection::Up => (inside, outside),
            CompetingDirection::Down => (outside, inside),
        };
        socket2::SockRef::from(&from).set_tcp_congestion(b"cubic").map_err(wrong)?;
        from.set_write_timeout(Some(PATIENCE)).map_err(wrong)?;
        to.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ends = vec![from.try_clone().map_err(wrong)?, to.try_clone().map_err(wrong)?];
        let (quit, quit_too) = (Arc::clone(&stop), Arc::clone(&stop));
        let send = move || {
            let (mut from, data) = (from, vec![0; CHUNK]);
            until_stopped(&quit, || from.write(&data));
        };
        let receive = move || {
            let (mut to, mut data) = (to, vec![0; CHUNK]);
            until_stopped(&quit_too, || to.read(&mut data));
        };
        let threads = vec![thread::spawn(send), thread::spawn(receive)];
        Ok(Self { stop, ends, threads })
    }
}

/// Does it again and again until the other end is gone or it is to stop.
fn until_stopped(stop: &AtomicBool, mut work: impl FnMut() -> std::io::Result<usize>) {
    while !stop.load(Ordering::Relaxed) {
        match work() {
            Ok(0) => return,
            Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return,
            _ => {}
        }
    }
}

impl Drop for CompetingFlow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in &self.ends {
            // One that is closed already is no error.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
