//! Settings of connections that may change, and requests to them.

use fullpipe_cc::{Algorithm, BandwidthProbe, Duration, Instant, Rate};

use super::{Endpoint, Handle};
use crate::config::Error;
use crate::connection::Connection;

impl Endpoint {
    fn change(&mut self, handle: Handle, change: impl FnOnce(&mut Connection)) {
        if let Ok(connection) = self.connection_mut(handle) {
            change(connection);
            self.touch(handle.index);
        }
    }

    /// As [`Connection::set_congestion`].
    pub fn set_congestion(&mut self, now: Instant, handle: Handle, algorithm: Algorithm) {
        self.change(handle, |connection| connection.set_congestion(now, algorithm));
    }

    /// As [`Connection::probe_bandwidth`].
    ///
    /// # Errors
    /// [`Error::Closed`] when there is no such connection.
    pub fn probe_bandwidth(
        &mut self,
        now: Instant,
        handle: Handle,
        target: Rate,
    ) -> Result<BandwidthProbe, Error> {
        // It lets nothing leave that could not before.
        Ok(self.connection_mut(handle)?.probe_bandwidth(now, target))
    }

    /// As [`Connection::set_nagle`].
    pub fn set_nagle(&mut self, handle: Handle, nagle: bool) {
        self.change(handle, |connection| connection.set_nagle(nagle));
    }

    /// As [`Connection::set_cork`].
    pub fn set_cork(&mut self, now: Instant, handle: Handle, is_corked: bool) {
        self.change(handle, |connection| connection.set_cork(now, is_corked));
    }

    /// As [`Connection::set_keep_alive`].
    pub fn set_keep_alive(
        &mut self,
        handle: Handle,
        idle: Option<Duration>,
        interval: Option<Duration>,
        probes: u32,
    ) {
        self.change(handle, |connection| connection.set_keep_alive(idle, interval, probes));
    }

    /// As [`Connection::set_user_timeout`].
    pub fn set_user_timeout(&mut self, handle: Handle, timeout: Duration) {
        self.change(handle, |connection| connection.set_user_timeout(timeout));
    }
}
