//! The applications at both ends of a flow as one machine.

use fullpipe_cc::{BandwidthProbe, Duration, Instant, Rate};
use fullpipe_path::Exponential;

use crate::Application;
use crate::media::{Live, MediaStats, SenderView};

/// An action of a flow's application, at one of its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing until [`Traffic::wakes`], or until another event.
    Nothing,
    /// The sender opens a connection.
    Connect,
    /// The sender's application has so many bytes more to write.
    Write {
        /// The bytes.
        bytes: u64,
        /// The time at which they were due; a driver that is late has its event after that.
        due: Instant,
    },
    /// The sender's application has data without an end from now on.
    Resume,
    /// The sender's application has no data until [`Action::Resume`]: what it has not written yet
    /// it does not write.
    Pause,
    /// The receiver's application sends a request.
    Request,
    /// The applications fall silent for good.
    Stop,
}

/// The meaning of a read for the receiver's application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// There is more to come.
    More,
    /// All bytes of [`Application::Bytes`] are there. Said once.
    All,
    /// An answer is complete, after this time since its request.
    Answer(Duration),
    /// A frame is complete, after this time since its capture. Others may be as well: the driver
    /// asks again with the same numbers.
    Frame(Duration),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Before the first connection's begin.
    Idle,
    /// Waits for [`Traffic::on_connected`].
    Connecting,
    Connected,
    Stopped,
}

/// The applications of one flow: one writes at the sender, one reads at the receiver.
///
/// A driver that has both ends in one thread has one machine for them. One with a thread for each
/// end has a machine at each, tells each the events of its end, and carries out the actions of that
/// end: no event of one end changes what the other does.
///
/// The connections of [`Application::ShortFlows`] are the driver's: each writes
/// [`Application::connection_bytes`], and none of them is told by [`Self::on_connected`].
#[derive(Clone, Debug)]
pub struct Traffic {
    application: Application,
    stop: Option<Instant>,
    state: State,
    /// The time of the next step.
    next: Option<Instant>,
    is_on: bool,
    /// All bytes of [`Application::Bytes`] have been read.
    is_complete: bool,
    /// The time of the request whose answer is awaited.
    asked: Option<Instant>,
    /// The bytes read with which that answer is complete.
    until: u64,
    /// The random process that starts connections.
    chance: Exponential,
    /// The encoder and the player of [`Application::Media`].
    live: Option<Box<Live>>,
}

impl Traffic {
    /// Applications that begin at `start`, and fall silent at `stop`. `seed` decides the starts of
    /// [`Application::ShortFlows`].
    pub fn new(application: Application, start: Instant, stop: Option<Instant>, seed: u64) -> Self {
        Self {
            application,
            stop,
            state: State::Idle,
            next: Some(start),
            is_on: false,
            is_complete: false,
            asked: None,
            until: 0,
            chance: Exponential::new(seed),
            live: match application {
                Application::Media(media) => Some(Box::new(Live::new(media))),
                _ => None,
            },
        }
    }

    /// The application.
    pub fn application(&self) -> Application {
        self.application
    }

    /// The time of the next step; `None` if there is none before another event.
    pub fn wakes(&self) -> Option<Instant> {
        let stop = self.stop.filter(|_| self.state != State::Stopped);
        self.next.map_or(stop, |next| Some(stop.map_or(next, |stop| stop.min(next))))
    }

    /// The time is `now`: the next step that is due. Called again until it gives
    /// [`Action::Nothing`].
    pub fn on_time(&mut self, now: Instant) -> Action {
        if self.state != State::Stopped && self.stop.is_some_and(|stop| stop <= now) {
            self.stop();
            return Action::Stop;
        }
        let Some(due) = self.next.take_if(|next| *next <= now) else { return Action::Nothing };
        match self.application {
            Application::ShortFlows { mean_interval, .. } => {
                self.next = Some(due + self.chance.draw(mean_interval));
                // The first one's start is drawn too.
                let is_first = self.state == State::Idle;
                self.state = State::Connected;
                if is_first { self.on_time(now) } else { Action::Connect }
            }
            _ if self.state == State::Idle => {
                self.state = State::Connecting;
                Action::Connect
            }
            Application::Bulk => Action::Resume,
            Application::Bytes(bytes) => Action::Write { bytes, due },
            Application::RateLimited { rate, write_bytes } => {
                self.next = Some(due + rate.time_for(write_bytes));
                Action::Write { bytes: write_bytes, due }
            }
            Application::OnOff { on, off } => {
                self.is_on = !self.is_on;
                self.next = Some(due + if self.is_on { on } else { off });
                if self.is_on { Action::Resume } else { Action::Pause }
            }
            Application::Media(_) => {
                let Some(live) = &mut self.live else { return Action::Nothing };
                let made = live.step(now);
                self.next = Some(live.wakes());
                made.map_or_else(|| self.on_time(now), |(bytes, due)| Action::Write { bytes, due })
            }
            Application::RequestResponse { response_bytes, .. } => {
                self.asked = Some(now);
                self.until += response_bytes;
                Action::Request
            }
        }
    }

    /// The flow's connection is there: at the sender, or for [`Application::RequestResponse`],
    /// which the receiver begins, at the receiver. Its first step is due now.
    pub fn on_connected(&mut self, now: Instant) {
        if matches!(self.state, State::Idle | State::Connecting) {
            self.state = State::Connected;
            self.next = Some(now);
            if let Some(live) = &mut self.live {
                live.begin(now);
            }
        }
    }

    /// The sender is as the application sees it then: told before the steps of an application that
    /// [heeds it](Application::heeds_sender).
    pub fn on_sender(&mut self, view: SenderView) {
        if let Some(live) = &mut self.live {
            live.on_sender(view);
        }
    }

    /// The rate for which the application wants to have the bandwidth probed now. The driver asks
    /// the sender and tells the answer by [`Self::on_probe`].
    pub fn wanted_rate(&self, now: Instant) -> Option<Rate> {
        let is_running = self.state == State::Connected;
        self.live.as_ref().filter(|_| is_running)?.wanted_rate(now)
    }

    /// The sender's answer for [`Self::wanted_rate`].
    pub fn on_probe(&mut self, now: Instant, answer: BandwidthProbe) {
        if let Some(live) = self.live.as_mut().filter(|_| self.state == State::Connected) {
            live.on_probe(now, answer);
            // Padding may be due before the next frame.
            self.next = self.next.map(|next| next.min(live.wakes()));
        }
    }

    /// Counters of [`Application::Media`].
    pub fn media_stats(&self, now: Instant) -> Option<MediaStats> {
        self.live.as_ref().map(|live| live.stats(now))
    }

    /// Frames of [`Application::Media`] that were made and have not arrived.
    pub fn frames_under_way(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.under_way())
    }

    /// The sender's application read a request: it writes the answer.
    pub fn on_request(&self, now: Instant) -> Action {
        match self.application {
            Application::RequestResponse { response_bytes, .. } => {
                Action::Write { bytes: response_bytes, due: now }
            }
            _ => Action::Nothing,
        }
    }

    /// The receiver's application has read so many bytes in all.
    #[inline]
    pub fn on_read(&mut self, now: Instant, read: u64) -> Reading {
        match self.application {
            Application::Bytes(all) if read >= all && !self.is_complete => {
                self.is_complete = true;
                Reading::All
            }
            Application::RequestResponse { think, .. } if read >= self.until => {
                let Some(asked) = self.asked.take() else { return Reading::More };
                self.next = Some(now + think);
                Reading::Answer(now.since(asked))
            }
            Application::Media(_) => {
                let live = self.live.as_mut();
                live.and_then(|live| live.on_read(now, read)).map_or(Reading::More, Reading::Frame)
            }
            _ => Reading::More,
        }
    }

    /// The time of the request whose answer is awaited.
    #[inline]
    pub fn asked(&self) -> Option<Instant> {
        self.asked
    }

    /// True if the applications have fallen silent for good.
    pub fn has_stopped(&self) -> bool {
        self.state == State::Stopped
    }

    /// The applications fall silent for good, before their time.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
        (self.next, self.asked) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Rate;

    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// All actions until `end`, each with its time, of an application that is connected in 10 ms.
    fn actions(
        application: Application,
        stop: Option<Duration>,
        end: Duration,
    ) -> Vec<(Duration, Action)> {
        let mut traffic = Traffic::new(application, START, stop.map(|stop| START + stop), 1);
        let (mut all, mut connected) = (Vec::new(), None);
        while let Some(at) = connected.or(traffic.wakes()).filter(|at| *at <= START + end) {
            if connected.take().is_some() {
                traffic.on_connected(at);
            }
            match traffic.on_time(at) {
                Action::Nothing => {}
                action => {
                    let opens = action == Action::Connect && !application.has_many_connections();
                    connected = opens.then_some(at + ms(10));
                    all.push((at.since(START), action));
                }
            }
        }
        all
    }

    #[test]
    fn bulk_has_data_from_its_connection_to_its_stop() {
        let all = actions(Application::Bulk, Some(ms(30)), ms(100));
        let expected = [(ms(0), Action::Connect), (ms(10), Action::Resume), (ms(30), Action::Stop)];
        assert_eq!(all, expected);
        let never = actions(Application::Bulk, Some(Duration::ZERO), ms(100));
        assert_eq!(never, [(ms(0), Action::Stop)]);
    }

    #[test]
    fn writes_at_a_rate_are_due_at_equal_distances_however_late_the_driver_is() {
        let rate = Rate::from_bytes_per_sec(100_000);
        let application = Application::RateLimited { rate, write_bytes: 500 };
        let mut traffic = Traffic::new(application, START, None, 1);
        assert_eq!(traffic.on_time(START), Action::Connect);
        traffic.on_connected(START);
        let late = START + ms(12);
        for due in [0, 5, 10] {
            let due = START + ms(due);
            assert_eq!(traffic.on_time(late), Action::Write { bytes: 500, due });
        }
        assert_eq!(traffic.on_time(late), Action::Nothing);
        assert_eq!(traffic.wakes(), Some(START + ms(15)));
    }

    #[test]
    fn times_with_and_without_data_take_turns() {
        let all = actions(Application::OnOff { on: ms(5), off: ms(3) }, None, ms(24));
        let expected = [
            (ms(0), Action::Connect),
            (ms(10), Action::Resume),
            (ms(15), Action::Pause),
            (ms(18), Action::Resume),
            (ms(23), Action::Pause),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_request_follows_an_answer_after_the_time_to_think() {
        let application = Application::RequestResponse { response_bytes: 100, think: ms(7) };
        let stop = START + ms(60);
        let mut traffic = Traffic::new(application, START, Some(stop), 1);
        assert_eq!(traffic.on_time(START), Action::Connect);
        traffic.on_connected(START + ms(1));
        let mut at = START + ms(1);
        for answer in 1..=3 {
            assert_eq!(traffic.on_time(at), Action::Request);
            assert_eq!(traffic.on_request(at), Action::Write { bytes: 100, due: at });
            assert_eq!(traffic.asked(), Some(at));
            assert_eq!(traffic.on_time(at + ms(1)), Action::Nothing, "one request at a time");
            assert_eq!(traffic.on_read(at + ms(2), 100 * answer - 1), Reading::More);
            let read = traffic.on_read(at + ms(3), 100 * answer);
            assert_eq!(read, Reading::Answer(ms(3)));
            at += ms(10);
            assert_eq!(traffic.wakes(), Some(at));
        }
        assert_eq!(traffic.on_time(at), Action::Request);
        assert_eq!(traffic.on_time(stop), Action::Stop);
        assert_eq!(traffic.on_read(stop, 400), Reading::More, "nobody waits for it any more");
        assert_eq!((traffic.wakes(), traffic.asked()), (None, None));
    }

    #[test]
    fn all_bytes_are_there_once_also_after_the_stop() {
        let mut traffic = Traffic::new(Application::Bytes(10), START, Some(START + ms(2)), 1);
        assert_eq!(traffic.on_time(START), Action::Connect);
        traffic.on_connected(START);
        assert_eq!(traffic.on_time(START), Action::Write { bytes: 10, due: START });
        assert_eq!(traffic.on_time(START + ms(2)), Action::Stop);
        let reads = [9, 10, 10].map(|read| traffic.on_read(START + ms(3), read));
        assert_eq!(reads, [Reading::More, Reading::All, Reading::More]);
    }

    #[test]
    fn connections_start_at_the_times_of_a_poisson_process() {
        let application = Application::ShortFlows { bytes: 1, mean_interval: ms(10) };
        let starts = actions(application, Some(ms(10_000)), ms(20_000));
        let (last, starts) = starts.split_last().expect("there are some");
        assert_eq!(last.1, Action::Stop);
        assert!(starts.iter().all(|(_, action)| *action == Action::Connect));
        assert!((900..1100).contains(&starts.len()), "{} of about 1000", starts.len());
        assert!(starts[0].0 > Duration::ZERO, "the first start is drawn too");
        let mut chance = Exponential::new(1);
        let first = chance.draw(ms(10));
        assert_eq!([starts[0].0, starts[1].0], [first, first + chance.draw(ms(10))]);
    }

    #[test]
    fn a_connection_that_comes_after_the_stop_begins_nothing() {
        let mut traffic = Traffic::new(Application::Bulk, START, Some(START + ms(5)), 1);
        assert_eq!(traffic.on_time(START), Action::Connect);
        assert_eq!(traffic.on_time(START + ms(5)), Action::Stop);
        traffic.on_connected(START + ms(6));
        assert_eq!((traffic.on_time(START + ms(6)), traffic.wakes()), (Action::Nothing, None));
    }
}
