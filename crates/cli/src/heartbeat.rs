//! A word now and then from a command that takes long and has nothing else to tell.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::say;

/// Silence on stderr that needs no word about what is going on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Says every two seconds that the work goes on, until it is dropped.
pub(crate) struct Heartbeat {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    pub(crate) fn start(name: String) -> Self {
        let (over, ended) = channel();
        let begun = Instant::now();
        let thread = std::thread::Builder::new().spawn(move || {
            while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                say(&format!("{name}: {} s so far", begun.elapsed().as_secs()));
            }
        });
        Self { over: Some(over), thread: thread.ok() }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        // Its end is what the thread waits for.
        self.over = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
