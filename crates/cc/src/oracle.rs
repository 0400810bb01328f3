//! An algorithm and a plain model of it that hear the same: the model is written from the algorithm's
//! description, in floating point where that has formulas, and after each call both have to agree.

use std::fmt::Debug;
use std::vec::Vec;

use proptest::prelude::*;

use crate::algo::{Congestion, CongestionControl};
use crate::algorithm::Algorithm;
use crate::config::Config;
use crate::conn::Conn;
use crate::custom::CustomAlgorithm;
use crate::sampler::{PacketState, RateSample};
use crate::snapshot::Snapshot;
use crate::test_link::{Link, MS, TokenBucket};
use crate::units::{Duration, Instant, Rate};

/// A plain model of the algorithm `R`.
pub(crate) trait Model<R>: CongestionControl {
    /// Panics if `real`, which made `conn`, is not what this expects, which made `expected`. Takes
    /// over what is left to rounding.
    fn agree(&mut self, real: &R, conn: &Conn, expected: &Conn);
}

/// An algorithm that is held against its model at each call.
#[derive(Clone, Debug)]
pub(crate) struct Checked<R, M> {
    pub(crate) real: R,
    pub(crate) model: M,
}

macro_rules! both {
    ($($call:ident($($arg:ident: $kind:ty),*);)*) => {$(
        fn $call(&mut self, conn: &mut Conn, $($arg: $kind),*) {
            let mut expected = conn.clone();
            self.real.$call(conn, $($arg),*);
            self.model.$call(&mut expected, $($arg),*);
            self.model.agree(&self.real, conn, &expected);
        }
    )*};
}

impl<R: CongestionControl, M: Model<R>> CongestionControl for Checked<R, M> {
    both! {
        on_ack(rs: &RateSample);
        on_pause(now: Instant);
        on_restart_from_idle(now: Instant);
        on_enter_recovery();
        on_exit_recovery();
        on_congestion(congestion: &Congestion<'_>);
        on_rto();
        on_idle(cwnd: u64);
        on_spurious_loss();
        on_safe_retreat();
        on_retreated(most: u64);
        on_mtu_update();
    }

    fn on_packet_lost(&mut self, conn: &Conn, packet: &PacketState) {
        self.real.on_packet_lost(conn, packet);
        self.model.on_packet_lost(conn, packet);
    }

    fn wants_ecn(&self) -> bool {
        self.real.wants_ecn()
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        self.real.snapshot(conn)
    }
}

/// An event of a flow.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Data for so many ms.
    Bulk(u64),
    /// One packet in so many is lost, for so many ms.
    Losses(u64, u64),
    /// Packets that wait for longer than so many us are marked, for so many ms.
    Marks(u64, u64),
    /// The flight is lost, and the timeout fires after so many ms.
    Timeout(u64),
    /// No data for so many ms; then the transport may trust one part in so many of the window.
    Pause(u64, Option<u64>),
    /// The link has one part in so many of its rate for so many ms.
    Slower(u64, u64),
    /// The round trip is so many ms longer for so many ms.
    Longer(u64, u64),
    /// A policer passes one part in so many of the rate, and bursts of so many packets, for so many
    /// round trips.
    Policer(u64, u64, u64),
    /// ACKs come at multiples of so many us from now on.
    Clump(u64),
    /// The packet that was lost last arrives.
    Spurious,
}

pub(crate) fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1u64..1_500).prop_map(Event::Bulk),
        3 => (2u64..200, 1u64..300).prop_map(|(n, ms)| Event::Losses(n, ms)),
        3 => (0u64..20_000, 1u64..600).prop_map(|(us, ms)| Event::Marks(us, ms)),
        1 => (1u64..500).prop_map(Event::Timeout),
        2 => (1u64..12_000, prop_oneof![Just(None), (1u64..10).prop_map(Some)])
            .prop_map(|(ms, part)| Event::Pause(ms, part)),
        1 => (2u64..20, 1u64..600).prop_map(|(part, ms)| Event::Slower(part, ms)),
        1 => (1u64..100, 1u64..12_000).prop_map(|(by, ms)| Event::Longer(by, ms)),
        1 => (2u64..8, 2u64..60, 5u64..60)
            .prop_map(|(part, burst, rounds)| Event::Policer(part, burst, rounds)),
        // Round times, so that an ACK comes at the very moment at which something is over.
        1 => prop_oneof![0u64..60_000, prop::sample::select(&[1_000u64, 5_000, 20_000, 50_000][..])]
            .prop_map(Event::Clump),
        2 => Just(Event::Spurious),
    ];
    prop::collection::vec(event, 1..14)
}

/// Runs a flow over a link without end of its queue.
pub(crate) fn run(
    algorithm: &'static CustomAlgorithm,
    mbit: u64,
    rtt: Duration,
    config: Config,
    events: &[Event],
) {
    let mut link = Link::with(Algorithm::Custom(algorithm), mbit, rtt, config);
    for event in events {
        meet(&mut link, event);
        // A standing queue of seconds says nothing more.
        if link.free.since(link.now) > MS.times(500) {
            link.run_losing(MS.times(50), 10);
        }
    }
}

fn meet(link: &mut Link, event: &Event) {
    match *event {
        Event::Bulk(ms) => link.run(MS.times(ms)),
        Event::Losses(n, ms) => link.run_losing(MS.times(ms), n),
        Event::Marks(us, ms) => {
            link.mark_above = Duration::from_micros(us);
            link.run(MS.times(ms));
            link.mark_above = Duration::MAX;
        }
        Event::Timeout(ms) => {
            link.now += MS.times(ms);
            let mut batch = link.cc.ack(link.now);
            batch.timeout();
            link.flight.drain(..).for_each(|f| batch.lost(&f.packet));
            batch.finish();
            link.free = link.free.max(link.now);
        }
        Event::Pause(ms, part) => {
            link.busy = false;
            link.run(MS.times(ms));
            link.busy = true;
            if let Some(part) = part {
                let cwnd = (link.cc.cwnd() / part).max(link.cc.initial_cwnd());
                link.cc.on_idle(link.now, cwnd);
            }
        }
        Event::Slower(part, ms) => {
            let rate = link.rate;
            link.rate = Rate::from_bytes_per_sec(rate.as_bytes_per_sec() / part);
            link.run(MS.times(ms));
            link.rate = rate;
        }
        Event::Longer(by, ms) => {
            let rtt = link.rtt;
            link.rtt = rtt + MS.times(by);
            link.run(MS.times(ms));
            link.rtt = rtt;
        }
        Event::Policer(part, burst, rounds) => {
            let depth = burst * link.size;
            link.policer = Some(TokenBucket {
                rate: Rate::from_bytes_per_sec(link.rate.as_bytes_per_sec() / part),
                depth,
                tokens: depth,
                filled: link.now,
            });
            link.run(link.rtt.times(rounds));
            link.policer = None;
        }
        Event::Clump(us) => link.clump = Duration::from_nanos((us * 1_000).max(1)),
        Event::Spurious => link.cc.on_spurious_loss(link.now),
    }
}

/// Panics unless `real` is `expected`, within `tolerance`.
#[track_caller]
pub(crate) fn near(what: &str, real: f64, expected: f64, tolerance: f64) {
    assert!((real - expected).abs() <= tolerance, "{what}: {real}, expected {expected}");
}
