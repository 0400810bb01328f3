//! Regression tests for bugs of other BBR stacks: one test for each bug, named after the property
//! that must hold, with the place where the bug was seen. Every test was seen to fail with its bug
//! in.
//!
//! Most are in this crate, over the link of the unit tests and through the public interface alone;
//! those that need a transport are in `crates/noq/tests` (`adapter.rs`, `virtual_clock`). Where a
//! test beside the code, or one of the draft's cases
//! (`crates/conformance/tests/suite/appendix.rs`), shows the property already, there is no second
//! one:
//!
//! | | elsewhere | shown by |
//! |---|---|---|
//! | W1 | the controller is never told of sends | quic: `the_counters_are_those_of_noq` |
//! | W2 | a rate is computed, not enforced | also quic: `the_link_sees_the_rate_and_no_burst_above_the_bound` |
//! | W3 | a late timer costs rate | `pacer`: `a_timer_late_by_less_than_the_credit_costs_no_rate` |
//! | W4 | a small packet costs a fixed credit | also `pacer`: `a_small_packet_costs_its_own_size` |
//! | W5 | a made-up round trip | also quic: `min_rtt_is_the_round_trip_of_the_path` |
//! | W6 | packet-number spaces are mixed up | quic, `flight`: `a_number_in_three_spaces_names_three_packets` |
//! | W8 | a full array drops ranges | quic: `every_packet_is_found_again_however_many_are_outstanding` |
//! | W9 | old packets count on a new path | quic: `packets_of_the_path_before_do_not_leave_the_flight_of_the_new_one`, `a_migration_keeps_the_rate_and_the_count` |
//! | W10 | MTU change without rescaling | also quic: `a_new_mtu_reaches_the_controller` |
//! | A7 | 20 % for 2 %, 0.85 for 0.15 | `bbr3::params`: `the_constants_are_those_of_the_draft` |
//! | A8 | bits for bytes | quic: `noq_is_told_in_its_own_units` |
//! | S1 | a send time in the future | `the_model_is_the_link`, quic: `min_rtt_is_the_round_trip_of_the_path` |
//! | S3 | an app-limited mark of 0 | `sampler`: `the_app_limited_mark_of_an_empty_connection_still_limits` |
//! | U2 | app-limited samples end Startup | `an_application_limited_flow_stays_in_startup_while_nothing_is_lost`, quic: `a_slow_application_is_not_a_slow_path` |
//! | U3 | Startup never ends on loss, or needs 7 events | `startup_ends_at_six_lost_ranges_in_a_round` |
//! | U4 | Startup for ever, app-limited and with loss | `appendix_02_startup_ends_on_loss_when_application_limited` |
//! | U5 | Drain for ever | also `appendix_04_drain_ends_on_time` |
//! | P2 | a long-term cut without a probe | also `losses_while_cruising_cut_the_short_term_model_only` |
//! | R4 | min_rtt and ProbeRTT expire together | `one_late_sample_does_not_expire_both_filters` |
//! | R5 | a timeout throws the model away | `a_timeout_keeps_the_model_and_gives_the_window_back`, quic: `a_black_hole_takes_nothing_from_the_rate_after_it` |
//! | R6 | no undo, or half of one | also `startup_goes_on_when_its_losses_were_none`, `excess_loss_ends_a_probe_and_bounds_the_next` |
//! | R7 | no way back after a black hole | also quic: `a_black_hole_takes_nothing_from_the_rate_after_it` |
//!
//! These cannot happen here:
//!
//! | | elsewhere | why not |
//! |---|---|---|
//! | W8 | stream ranges of a fixed array | streams are the transport's; core and simulator keep no array of a fixed size that can fill: the core keeps nothing of a packet, and the simulator's queues grow |
//! | A3 | bandwidth and gain change places | `Rate` and `Gain` are types; that neither is cut is tested |
//! | A8 | bits for bytes, in the core | a `Rate` is made from one or the other by name |
//! | S8 | an ACK of data never sent raises the rate | a sample needs a `PacketState`, which only `on_sent` makes; the adapter finds none for such a number (`numbers_may_be_skipped_and_come_back_in_any_order`), and noq ends the connection |

use fullpipe_cc::{
    Algorithm, BbrSnapshot, Config, Controller, Duration, Instant, PacketState, Rate, SendDecision,
    State, Transport,
};

mod arithmetic;
mod congestion;
mod interface;
mod probe_bw;
mod recovery;
mod sampler;
mod startup;
mod wiring;

use crate::test_link::{Link, MS, SMSS};

/// Both of the algorithms with a model.
const BBRS: [Algorithm; 2] = [Algorithm::BBR3, Algorithm::BBR1];

/// Start of a test's clock: not at zero.
const START: Instant = Instant::from_nanos(77);

fn controller(algorithm: Algorithm) -> Controller {
    Controller::new(algorithm, Config::new(1), START)
}

fn bbr(cc: &Controller) -> BbrSnapshot {
    cc.snapshot().bbr.expect("BBR has a model")
}

/// Sends `n` full packets at once, whatever window and pacer say.
fn send(cc: &mut Controller, now: Instant, n: usize) -> Vec<PacketState> {
    (0..n).map(|_| cc.on_sent(now, SMSS as u32)).collect()
}

/// One ACK of all of `packets`.
fn acknowledge(cc: &mut Controller, now: Instant, packets: &[PacketState]) {
    let mut batch = cc.ack(now);
    packets.iter().for_each(|p| batch.acked(p));
    batch.finish();
}

/// One firing of the loss timer that takes all of `packets`.
fn lose(cc: &mut Controller, now: Instant, packets: &[PacketState]) {
    let mut batch = cc.ack(now);
    packets.iter().for_each(|p| batch.lost(p));
    batch.finish();
}

/// A retransmission timeout that takes all of `packets`.
fn time_out(cc: &mut Controller, now: Instant, packets: &[PacketState]) {
    let mut batch = cc.ack(now);
    batch.timeout();
    packets.iter().for_each(|p| batch.lost(p));
    batch.finish();
}
