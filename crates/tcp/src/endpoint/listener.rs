//! A listener: LISTEN of RFC 9293, with a limit to what strangers can make it keep.

use alloc::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use super::Handle;
use crate::config::Config;

/// Time after the last cookie for which ACKs are searched for one.
const COOKIE_LIFE: Duration = Duration::from_secs(128);

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) config: Config,
    backlog: usize,
    half_open: usize,
    /// Connections whose handshake is over, and that nobody has accepted.
    queue: VecDeque<Handle>,
    last_cookie: Option<Instant>,
}

impl Listener {
    pub(super) fn new(backlog: usize, config: &Config) -> Self {
        let queue = VecDeque::new();
        Self { config: *config, backlog: backlog.max(1), half_open: 0, queue, last_cookie: None }
    }

    /// True if a connection may wait to be accepted.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.backlog
    }

    /// True if a SYN may be remembered.
    pub(super) fn may_keep_syn(&self) -> bool {
        self.half_open < self.backlog && self.half_open + self.queue.len() < 2 * self.backlog
    }

    pub(super) fn on_half_open(&mut self) {
        self.half_open += 1;
    }

    pub(super) fn on_established(&mut self, handle: Handle) {
        self.half_open = self.half_open.saturating_sub(1);
        self.queue.push_back(handle);
    }

    pub(super) fn on_removed(&mut self, half_open: bool) {
        self.half_open = self.half_open.saturating_sub(usize::from(half_open));
    }

    pub(super) fn on_cookie(&mut self, now: Instant) {
        self.last_cookie = Some(now);
    }

    /// True if an ACK may be the answer to a cookie.
    pub(super) fn expects_cookie(&self, now: Instant) -> bool {
        self.last_cookie.is_some_and(|at| now.since(at) < COOKIE_LIFE)
    }

    pub(super) fn accepted(&mut self) -> Option<Handle> {
        self.queue.pop_front()
    }
}
