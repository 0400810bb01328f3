//! A controller of noq's around another one. All calls go through, and some are looked at.

use std::any::Any;
use std::fmt;
use std::time::{Duration, Instant};

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerMetrics};

/// Whatever is around a controller, and what it wants to hear of.
pub(super) trait Around: Send + Sync + 'static {
    fn inner(&self) -> &dyn Controller;
    fn inner_mut(&mut self) -> &mut dyn Controller;
    fn into_inner(self) -> Box<dyn Controller>;

    /// The controller of a path that takes the place of this one's.
    fn again(&self) -> Box<dyn Controller> {
        self.inner().clone_box()
    }

    /// Packets were sent, up to this number.
    fn sent(&mut self, _largest: u64) {}

    /// An ACK came for packets that noq had; the largest number that was acknowledged so far.
    fn acknowledged(&mut self, _largest: u64) {}

    /// The path carries packets of so many bytes.
    fn mtu(&mut self, _bytes: u16) {}
}

pub(super) struct Wrapped<A>(pub(super) A);

impl<A: Around> Controller for Wrapped<A> {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.0.sent(largest_pn);
        self.0.inner_mut().on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.0.inner_mut().on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.0.inner_mut().on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.inner_mut().on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_acked: Option<u64>,
    ) {
        self.0.acknowledged(largest_acked.unwrap_or(0));
        self.0.inner_mut().on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        let inner = self.0.inner_mut();
        inner.on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest_lost);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.0.inner_mut().on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.0.inner_mut().on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.mtu(new_mtu);
        self.0.inner_mut().on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.0.inner_mut().on_ack_frequency_update(threshold, max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.0.inner().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.0.inner().metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        self.0.again()
    }

    fn initial_window(&self) -> u64 {
        self.0.inner().initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.0.into_inner().into_any()
    }
}

impl<A: Around> fmt::Debug for Wrapped<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.inner().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Bits of the methods that were called.
    static CALLED: AtomicU64 = AtomicU64::new(0);

    fn called(method: u32) {
        CALLED.fetch_or(1 << method, Ordering::Relaxed);
    }

    #[derive(Debug)]
    struct Spy;

    impl Controller for Spy {
        fn on_sent(&mut self, _: Instant, _: u64, _: u64) {
            called(0);
        }
        fn on_packet_sent(&mut self, _: Instant, _: u16, _: u64) {
            called(1);
        }
        fn on_cwnd_limited(&mut self) {
            called(2);
        }
        fn on_end_acks(&mut self, _: Instant, _: u64, _: bool, _: Option<u64>) {
            called(3);
        }
        fn on_congestion_event(
            &mut self,
            _: Instant,
            _: Instant,
            _: bool,
            _: bool,
            _: u64,
            _: u64,
        ) {
            called(4);
        }
        fn on_packet_lost(&mut self, _: u16, _: u64, _: Instant) {
            called(5);
        }
        fn on_spurious_congestion_event(&mut self) {
            called(6);
        }
        fn on_mtu_update(&mut self, _: u16) {
            called(7);
        }
        fn on_ack_frequency_update(&mut self, _: u64, _: Duration) {
            called(8);
        }
        fn window(&self) -> u64 {
            called(9);
            7
        }
        fn metrics(&self) -> ControllerMetrics {
            called(10);
            ControllerMetrics::default()
        }
        fn clone_box(&self) -> Box<dyn Controller> {
            called(11);
            Box::new(Self)
        }
        fn initial_window(&self) -> u64 {
            called(12);
            8
        }
        fn into_any(self: Box<Self>) -> Box<dyn Any> {
            called(13);
            self
        }
    }

    struct Plain(Box<dyn Controller>);

    impl Around for Plain {
        fn inner(&self) -> &dyn Controller {
            &*self.0
        }
        fn inner_mut(&mut self) -> &mut dyn Controller {
            &mut *self.0
        }
        fn into_inner(self) -> Box<dyn Controller> {
            self.0
        }
    }

    /// Those with a body in noq's trait would be lost without a word. `on_ack` is left out: nobody
    /// but noq makes its estimator of the round trip.
    #[test]
    fn every_call_goes_through() {
        let now = Instant::now();
        let mut wrapped: Box<dyn Controller> = Box::new(Wrapped(Plain(Box::new(Spy))));
        wrapped.on_sent(now, 1, 1);
        wrapped.on_packet_sent(now, 1, 1);
        wrapped.on_cwnd_limited();
        wrapped.on_end_acks(now, 1, false, Some(1));
        wrapped.on_congestion_event(now, now, false, false, 1, 1);
        wrapped.on_packet_lost(1, 1, now);
        wrapped.on_spurious_congestion_event();
        wrapped.on_mtu_update(1400);
        wrapped.on_ack_frequency_update(1, Duration::ZERO);
        assert_eq!((wrapped.window(), wrapped.initial_window()), (7, 8));
        wrapped.metrics();
        assert_eq!(format!("{:?}", wrapped.clone_box()), "Spy");
        assert!(wrapped.into_any().is::<Spy>());
        assert_eq!(CALLED.load(Ordering::Relaxed), (1 << 14) - 1);
    }
}
