//! Flow control: the amount of data that the receiver lets the sender have under way (RFC 9000
//! section 4).

use fullpipe_cc::{Duration, Instant};

use crate::config::ReceiveWindow;

#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Window {
    read: u64,
    size: u64,
    max: u64,
    /// The receiver's last check of its reading speed: its time, and the bytes read until then.
    looked: (Instant, u64),
}

impl Window {
    pub(crate) fn new(config: ReceiveWindow) -> Self {
        let (size, max) = match config {
            ReceiveWindow::Unlimited => (u64::MAX, u64::MAX),
            ReceiveWindow::Fixed(bytes) => (bytes, bytes),
            ReceiveWindow::Auto { initial, max } => (initial, max.max(initial)),
        };
        Self { size, max, read: 0, looked: (Instant::default(), 0) }
    }

    /// The offset up to which the sender may send.
    pub(crate) fn max_data(&self) -> u64 {
        self.read.saturating_add(self.size)
    }

    /// The application read up to here. Half a window in less than two round trips means that the
    /// window may be what holds the sender back; it grows with room to spare, because a round trip
    /// passes until the sender has filled it.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, read: u64, rtt: impl Fn() -> Duration) {
        self.read = read;
        if self.size >= self.max || read - self.looked.1 < self.size / 2 {
            return;
        }
        if now.since(self.looked.0) < rtt().times(2) {
            self.size = self.size.saturating_mul(2).min(self.max);
        }
        self.looked = (now, read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_read_fast_grows_to_its_bound_and_one_read_slowly_stays() {
        let rtt = Duration::from_millis(10);
        let mut window = Window::new(ReceiveWindow::Auto { initial: 1000, max: 3000 });
        let mut now = Instant::default();
        for read in [600, 1200, 2400, 4000, 6000] {
            now += rtt;
            window.on_read(now, read, || rtt);
        }
        assert_eq!(window.max_data(), 6000 + 3000);
        let mut slow = Window::new(ReceiveWindow::Auto { initial: 1000, max: 3000 });
        slow.on_read(now + rtt.times(9), 600, || rtt);
        assert_eq!(slow.max_data(), 600 + 1000);
    }
}
