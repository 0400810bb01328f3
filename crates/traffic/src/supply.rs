//! Data of a sender's application, for a transport that takes bytes when it has room.

use crate::{Action, Application};

/// The data that an application has had to write to one connection, and the part of it that the
/// transport has taken. Both are bytes since the connection's begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Supply {
    /// The largest number is data without an end.
    wanted: u64,
    taken: u64,
}

impl Supply {
    /// An application's action: the data that it has then. Actions that are no writer's change
    /// nothing.
    pub fn on_action(&mut self, application: Application, action: Action) {
        match action {
            Action::Write { bytes, .. } => self.offer(bytes),
            Action::Resume => self.offer(u64::MAX),
            Action::Pause => self.withhold(),
            // What was written at its time still leaves.
            Action::Stop if !application.writes_at_times() => self.withhold(),
            Action::Stop | Action::Nothing | Action::Connect | Action::Request => {}
        }
    }

    /// There are so many bytes more; the largest number is data without an end.
    pub fn offer(&mut self, bytes: u64) {
        self.wanted = self.wanted.saturating_add(bytes);
    }

    /// Bytes that the transport has not taken yet are not written.
    pub fn withhold(&mut self) {
        self.wanted = self.taken;
    }

    /// The transport took so many bytes.
    pub fn take(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// Bytes that the application has and the transport has not taken.
    pub fn left(&self) -> u64 {
        self.wanted - self.taken
    }

    /// Bytes that the application has had to write so far.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Bytes that the transport has taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::{Duration, Instant, Rate};

    use super::*;

    const WRITE: Action = Action::Write { bytes: 100, due: Instant::from_nanos(0) };

    #[test]
    fn a_pause_takes_back_what_no_transport_has() {
        let application = Application::OnOff { on: Duration::ZERO, off: Duration::ZERO };
        let mut supply = Supply::default();
        supply.on_action(application, Action::Resume);
        supply.take(70);
        assert_eq!(supply.left(), u64::MAX - 70);
        supply.on_action(application, Action::Pause);
        assert_eq!((supply.left(), supply.taken()), (0, 70));
        supply.on_action(application, Action::Resume);
        assert_eq!(supply.wanted(), u64::MAX);
    }

    #[test]
    fn at_the_stop_writes_at_times_still_leave_and_others_do_not() {
        let at_times = Application::RateLimited { rate: Rate::ZERO, write_bytes: 100 };
        for (application, left) in [(at_times, 90), (Application::Bytes(100), 0)] {
            let mut supply = Supply::default();
            supply.on_action(application, WRITE);
            supply.take(10);
            supply.on_action(application, Action::Stop);
            assert_eq!(supply.left(), left, "{application:?}");
        }
    }
}
