//! One path of a connection: the core, and the datagrams between quinn and the socket. The
//! controller and the socket share it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time;

use fullpipe_adapter::{Batch, Clock, Marks, Unsent, View};
use fullpipe_cc::{Algorithm, Config, Controller as Core, Instant, Transport};

use crate::flight::{Flight, SMALL};

thread_local! {
    /// The path for which quinn made datagrams last on this thread.
    static MADE: RefCell<Weak<Path>> = const { RefCell::new(Weak::new()) };
}

/// A path of a connection.
#[derive(Debug)]
pub(crate) struct Path {
    state: Mutex<State>,
}

/// All that is known of a path.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: Core,
    /// C.SMSS in bytes.
    pub(crate) smss: u32,
    pub(crate) clock: Clock,
    pub(crate) flight: Flight,
    pub(crate) batch: Batch,
    /// The batch is an ACK after which the application has nothing to send.
    pub(crate) ends_limited: bool,
    leaving: Option<Leaving>,
    /// The number of packets that were marked, where it is known.
    marks: Option<Marks>,
    /// The application's data that quinn has not taken.
    pub(crate) unsent: Unsent,
    /// For a clone: for `congestion_state`, until an event says that it is for a new path.
    pub(crate) at_clone: Option<Box<Cloned>>,
}

/// The path that a clone was made from, and what its controller told then.
#[derive(Debug)]
pub(crate) struct Cloned {
    view: View,
    of: Arc<Path>,
}

/// Datagrams that quinn made together and that have not all left.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    made: Instant,
    bytes: u64,
    gone: u64,
    /// The socket is ours, and has asked when they may leave.
    is_asked: bool,
    /// The time that the socket was told to wait for.
    due: Option<Instant>,
}

impl Leaving {
    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.gone)
    }
}

/// The pacer's answer for the datagrams that quinn made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// After so many bytes that have left, so many more may now.
    Now { gone: u64, bytes: u64 },
    /// None before this time.
    At(time::Instant),
    /// They are none of the controller's: probes for the MTU, for one.
    Unpaced,
}

impl Path {
    pub(crate) fn new(
        algorithm: Algorithm,
        config: Config,
        base: time::Instant,
        mtu: u16,
        marks: Option<Marks>,
    ) -> Arc<Self> {
        let config = Config { smss: u32::from(mtu), transport: Transport::Quic, ..config };
        Self::of(State {
            core: Core::new(algorithm, config, Instant::default()),
            smss: config.smss,
            clock: Clock::new(base),
            flight: Flight::default(),
            batch: Batch::default(),
            ends_limited: false,
            leaving: None,
            marks,
            unsent: Unsent::default(),
            at_clone: None,
        })
    }

    pub(crate) fn of(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// A panic while the lock was held leaves a model that is merely out of date.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the controller tells: on a clone, what it told when it was cloned.
    pub(crate) fn view(&self) -> View {
        let mut state = self.lock();
        state.close_batch();
        state.view()
    }

    /// The same path after a migration, or for an onlooker: with the model, and nothing in flight.
    pub(crate) fn clone_of(path: &Arc<Self>) -> Arc<Self> {
        let mut state = path.lock();
        state.close_batch();
        let cloned = Cloned { view: state.view(), of: path.clone() };
        let mut core = state.core.clone();
        core.forget_flight();
        Self::of(State {
            core,
            smss: state.smss,
            clock: state.clock,
            flight: Flight::default(),
            batch: Batch::default(),
            ends_limited: false,
            leaving: None,
            marks: state.marks.clone(),
            unsent: state.unsent.clone(),
            at_clone: Some(Box::new(cloned)),
        })
    }

    /// The path itself, or the one that it is an onlooker's clone of.
    pub(crate) fn of_the_connection(path: &Arc<Self>) -> Arc<Self> {
        let mut path = path.clone();
        loop {
            let of = path.lock().at_clone.as_ref().map(|cloned| cloned.of.clone());
            match of {
                Some(of) => path = of,
                None => return path,
            }
        }
    }

    /// quinn made datagrams of so many bytes. It gives them to the socket next, on this thread.
    pub(crate) fn made(self: &Arc<Self>, now: time::Instant, bytes: u64) {
        let mut state = self.lock();
        state.at_clone = None;
        state.close_batch();
        state.leave_unseen();
        // Of one look at the clock quinn makes several batches, between which the first of them
        // leave: this is no event.
        let made = state.clock.of(now);
        state.leaving = Some(Leaving { made, bytes, gone: 0, is_asked: false, due: None });
        MADE.with_borrow_mut(|last| *last = Arc::downgrade(self));
    }

    /// Another connection's datagrams come next on this thread.
    pub(crate) fn forget_made() {
        MADE.take();
    }

    /// The path for which quinn has just made datagrams on this thread.
    pub(crate) fn take_made() -> Option<Arc<Self>> {
        MADE.take().upgrade()
    }

    /// The time at which the next datagrams may leave, and their number of bytes.
    pub(crate) fn may_leave(&self, now: time::Instant) -> Leave {
        let mut state = self.lock();
        let Some(leaving) = &mut state.leaving else { return Leave::Unpaced };
        leaving.is_asked = true;
        let due = leaving.due.take();
        let leaving = *leaving;
        let left = leaving.left();
        if leaving.bytes <= SMALL {
            return Leave::Now { gone: 0, bytes: left };
        }
        let now = state.clock.at(now);
        let smss = u64::from(state.smss);
        let core = &mut state.core;
        if let Some(due) = due {
            core.on_pacing_timer(now, due);
        }
        let at = core.ready_at(now, left.min(smss));
        if at > now {
            if let Some(leaving) = &mut state.leaving {
                leaving.due = Some(at);
            }
            return Leave::At(state.clock.back(at));
        }
        let most = left.min(core.send_quantum()).min(core.burst_bound());
        let packets = (2..=most / smss).rev().find(|n| core.ready_at(now, n * smss) <= now);
        Leave::Now { gone: leaving.gone, bytes: left.min(packets.unwrap_or(1) * smss) }
    }

    /// Datagrams of these sizes have left.
    pub(crate) fn have_left(&self, now: time::Instant, sizes: impl Iterator<Item = usize>) {
        let mut state = self.lock();
        let now = state.clock.at(now);
        state.close_batch();
        let Some(mut leaving) = state.leaving.take() else { return };
        for size in sizes {
            let bytes = u32::try_from(size).unwrap_or(u32::MAX);
            state.sent(leaving.made, now, bytes);
            leaving.gone += u64::from(bytes);
        }
        state.leaving = Some(leaving).filter(|leaving| leaving.left() > 0);
    }

    /// True if datagrams may be marked as ECN-capable.
    pub(crate) fn wants_ecn(&self) -> bool {
        self.lock().core.wants_ecn()
    }
}

impl State {
    /// Bytes that quinn counts as sent and that have not left.
    pub(crate) fn waiting(&self) -> u64 {
        self.leaving.as_ref().map_or(0, Leaving::left)
    }

    /// A datagram that quinn made at `made`, if the socket is not ours: it left at that time.
    pub(crate) fn leave_unseen_at(&mut self, made: Instant) {
        // Of the same time there may be several batches, of which the last still waits for the
        // pacer.
        if self.leaving.is_some_and(|leaving| leaving.made <= made && !leaving.is_asked) {
            self.leave_unseen();
        }
    }

    /// Counts as sent what the socket has not reported.
    fn leave_unseen(&mut self) {
        let Some(leaving) = self.leaving.take() else { return };
        let now = leaving.made.max(self.clock.latest());
        let mut left = leaving.left();
        while left > 0 {
            let bytes = u32::try_from(left).unwrap_or(u32::MAX).min(self.smss);
            self.sent(leaving.made, now, bytes);
            left -= u64::from(bytes);
        }
    }

    /// A datagram that quinn made at `made` left at `now`.
    fn sent(&mut self, made: Instant, now: Instant, bytes: u32) {
        if u64::from(bytes) > SMALL {
            self.flight.insert(made, self.core.on_sent(now, bytes));
            if let Some(most) = self.flight.trim(self.core.cwnd()) {
                self.resync_in_flight(now, most.min(self.core.inflight()));
            }
            return;
        }
        // It has not waited. Whoever receives much sends ACKs faster than its own rate: they take
        // the credit that there is, and no more, or the next larger datagram would wait for all
        // that were sent before it.
        if self.core.ready_at(now, bytes.into()) > now {
            return;
        }
        let in_flight = self.core.inflight();
        self.flight.insert(made, self.core.on_sent(now, bytes));
        // An ACK alone is not in flight, and no ACK of the peer's may come that takes it out again.
        // If it is data, quinn counts it at the next ACK.
        self.resync_in_flight(now, in_flight);
    }

    fn resync_in_flight(&mut self, now: Instant, bytes: u64) {
        let mut batch = self.core.ack(now);
        batch.resync_inflight(bytes);
        batch.finish();
    }

    /// The number of packets that quinn now says were marked, 1 where it is not known.
    pub(crate) fn newly_marked(&self) -> u64 {
        self.marks.as_ref().map_or(1, |marks| marks.take().max(1))
    }

    /// The batch that an event at `now` belongs to: the open one, or a new one.
    pub(crate) fn batch_at(&mut self, now: Instant) -> &mut Batch {
        if !self.batch.is_at(now) {
            self.close_batch();
        }
        self.batch.open(now)
    }

    /// Gives the core what is kept, in one batch.
    pub(crate) fn close_batch(&mut self) {
        if let Some(old) = self.batch.close(&mut self.core) {
            self.flight.forget_before(old);
        }
        // The mark that was set before the ACK counts what was in flight without small datagrams:
        // an ACK of those too removes it. After the ACK the count is quinn's.
        if std::mem::take(&mut self.ends_limited) && self.waiting() == 0 {
            self.nothing_to_send();
        }
    }

    /// quinn found nothing to send: the application has nothing, unless it says that quinn has not
    /// taken what it has.
    pub(crate) fn nothing_to_send(&mut self) {
        if self.unsent.is_none() {
            self.core.on_app_limited();
        }
    }

    fn view(&self) -> View {
        self.at_clone.as_ref().map_or_else(|| View::of(&self.core), |cloned| cloned.view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullpipe_cc::Rate;
    use std::time::Duration;

    /// The other end's data comes faster than this end may send: ten seconds of an ACK each
    /// millisecond, at four times the rate.
    #[test]
    fn acks_delay_no_data_after_them_and_are_not_in_flight() {
        let begin = time::Instant::now();
        let rate = Algorithm::Fixed(Rate::from_bytes_per_sec(10_000));
        let path = Path::new(rate, Config::new(1), begin, 1200, None);
        let mut now = begin;
        for _ in 0..10_000 {
            now += Duration::from_millis(1);
            path.made(now, 40);
            assert_eq!(path.may_leave(now), Leave::Now { gone: 0, bytes: 40 });
            path.have_left(now, [40].into_iter());
        }
        assert_eq!(path.lock().core.inflight(), 0);
        path.made(now, 1200);
        match path.may_leave(now) {
            Leave::At(time) => {
                assert!(time - now <= Duration::from_millis(120), "{:?}", time - now)
            }
            leave => panic!("the credit was used up: {leave:?}"),
        }
    }

    /// A little data is sent beside a packet, one ACK is for both, and the application is silent.
    #[test]
    fn an_application_that_has_nothing_to_send_stays_limited_when_small_data_is_acknowledged() {
        let begin = time::Instant::now();
        let path = Path::new(Algorithm::BBR3, Config::new(1), begin, 1200, None);
        for bytes in [1200, 60] {
            path.made(begin, bytes);
            path.have_left(begin, [bytes as usize].into_iter());
        }
        let mut state = path.lock();
        let (made, acked) = (state.clock.of(begin), begin + Duration::from_millis(50));
        state.core.on_app_limited();
        let packets = [1200, 60].map(|bytes| state.flight.take_acked(made, bytes));
        let now = state.clock.at(acked);
        let batch = state.batch_at(now);
        packets.into_iter().flatten().for_each(|packet| batch.acked(packet));
        batch.acks_ended(0);
        state.ends_limited = true;
        drop(state);
        path.made(acked, 1200);
        let state = path.lock();
        assert_eq!(state.core.snapshot().delivered, 1260);
        assert!(state.core.snapshot().app_limited, "what comes next is limited");
    }

    /// An onlooker has a clone of the path that quinn sends on.
    #[test]
    fn an_onlooker_sees_what_was_told_then_and_asks_the_path_itself() {
        let begin = time::Instant::now();
        let path = Path::new(Algorithm::CUBIC, Config::new(1), begin, 1200, None);
        let deliver = |path: &Arc<Path>, ms: u64| {
            let (made, acked) = (begin + Duration::from_millis(ms), Duration::from_millis(50));
            path.made(made, 1200);
            path.have_left(made, [1200].into_iter());
            let mut state = path.lock();
            let (sent, now) = (state.clock.of(made), state.clock.at(made + acked));
            let packet = state.flight.take_acked(sent, 1200).expect("it was sent");
            state.batch_at(now).acked(packet);
            state.close_batch();
        };
        deliver(&path, 0);
        let onlooker = Path::clone_of(&Path::clone_of(&path));
        assert!(Arc::ptr_eq(&Path::of_the_connection(&onlooker), &path));
        deliver(&path, 100);
        assert_eq!(onlooker.view().snapshot.delivered, 1200);
        assert_eq!(path.view().snapshot.delivered, 2400);

        // What has events is a path of its own: the connection has moved to it.
        deliver(&onlooker, 200);
        assert!(Arc::ptr_eq(&Path::of_the_connection(&onlooker), &onlooker));
        assert_eq!(onlooker.view().snapshot.delivered, 2400);
    }

    #[cfg(feature = "careful-resume")]
    #[test]
    fn a_controller_says_what_it_would_leave() {
        let begin = time::Instant::now();
        let rtt = fullpipe_cc::Duration::from_millis(50);
        let saved = fullpipe_cc::SavedParameters { cwnd: 1 << 20, rtt };
        let config = Config { resume: Some(saved), ..Config::new(1) };
        let path = Path::new(Algorithm::BBR3, config, begin, 1200, None);
        assert_eq!(path.view().phase, Some(fullpipe_cc::ResumePhase::Reconnaissance));
        let path = Path::new(Algorithm::CUBIC, Config::new(1), begin, 1200, None);
        assert_eq!((path.view().saved, path.view().has_failed), (None, false));
        let has_room = || {
            let state = path.lock();
            state.core.inflight() + 1200 <= state.core.cwnd()
        };
        for round in 0..10 {
            let made = begin + Duration::from_millis(50 * round);
            let mut packets = 0;
            while has_room() {
                path.made(made, 1200);
                path.have_left(made, [1200].into_iter());
                packets += 1;
            }
            let mut state = path.lock();
            let (sent, now) =
                (state.clock.of(made), state.clock.at(made + Duration::from_millis(50)));
            for _ in 0..packets {
                let packet = state.flight.take_acked(sent, 1200).expect("it was sent");
                state.batch_at(now).acked(packet);
            }
            state.close_batch();
        }
        let left = Path::clone_of(&path).view().saved.expect("it has a window");
        assert_eq!((left.rtt, Some(left)), (rtt, path.view().saved));
        assert!(left.cwnd > 48_000, "{}", left.cwnd);
    }

    /// A peer that leaves gaps between the numbers of its packets has each of our ACKs be one of
    /// many ranges, and acknowledges none.
    #[test]
    fn large_acks_that_nobody_acknowledges_keep_few_states_and_stay_few_in_flight() {
        let begin = time::Instant::now();
        let path = Path::new(Algorithm::CUBIC, Config::new(1), begin, 1200, None);
        let at = |ms| begin + Duration::from_millis(ms);
        for ms in 0..10_000 {
            path.made(at(ms), 200);
            path.have_left(at(ms), [200].into_iter());
        }
        // The window, and as much as is kept beyond it.
        let most = 12_000 + (256 << 10);
        let mut state = path.lock();
        assert!(state.core.inflight() <= most, "{}", state.core.inflight());
        let mut is_kept = |ms| {
            let made = state.clock.of(at(ms));
            state.flight.take_acked(made, 200).is_some()
        };
        assert!(is_kept(10_000 - most / 200));
        assert!(!is_kept(9_999 - most / 200));
    }

    /// Of one look at the clock quinn makes several batches. The answer to the first says nothing
    /// of the second.
    #[test]
    fn a_batch_that_waits_is_not_released_by_an_ack_of_another_that_was_made_with_it() {
        let begin = time::Instant::now();
        let slow = Algorithm::Fixed(Rate::from_bytes_per_sec(10_000));
        let path = Path::new(slow, Config::new(1), begin, 1200, None);
        path.made(begin, 2400);
        assert_eq!(path.may_leave(begin), Leave::Now { gone: 0, bytes: 2400 });
        path.have_left(begin, [1200, 1200].into_iter());
        path.made(begin, 2400);
        assert!(matches!(path.may_leave(begin), Leave::At(_)));

        let acked = begin + Duration::from_millis(1);
        path.lock().leave_unseen_at(Instant::default());
        assert!(matches!(path.may_leave(acked), Leave::At(_)), "it has not left");

        // Where nobody asks the socket is not ours.
        let path = Path::new(slow, Config::new(1), begin, 1200, None);
        path.made(begin, 2400);
        path.lock().leave_unseen_at(Instant::default());
        assert_eq!(path.lock().core.inflight(), 2400);
    }
}
