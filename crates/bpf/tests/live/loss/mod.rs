//! The program in this machine's kernel under loss, timeouts and missing memory: between two
//! namespaces, over a TUN link.

mod bench;
pub(crate) mod signals;
mod soak;

use std::fs;
use std::time::{Duration, Instant};

use fullpipe_bpf::kernel::{Connection, Cost, Counting, Options, Usage};
use fullpipe_testkit::{skip, until, until_some};
use libbpf_rs::query::ProgInfoIter;

use crate::own::{name_of, numbers};
use bench::{Bench, Flow, LinkOf, sleep_ms};
use soak::soak;

/// The algorithm of the program with and without the amendments of bbr3x.
fn algorithm(amended: bool) -> &'static str {
    if amended { "bbr3x-linux" } else { "bbr3-linux" }
}

/// More than a round trip without any packet, while the program looks for bandwidth: all that was
/// in flight is lost, and its retransmission timer finds that out.
fn a_timeout_reports_each_loss_with_what_was_in_flight_when_it_was_sent() {
    for amended in [false, true] {
        let link = LinkOf { mbit: 50, rtt_ms: 100, queue_bytes: 1_250_000, loss: 0.0 };
        let bench = Bench::of("rto", amended, &link);
        let flow = bench.flow();
        until("ProbeBW_UP", || flow.state().state == "ProbeBW_UP");
        bench.outage(Duration::from_millis(1_200));
        // The kernel's timer runs anew from a tail loss probe, and so may end behind the outage.
        let state = until_some("an outage loses a window in a probe", || {
            let is_told =
                |state: &Connection| state.losses > 400 && state.inflight_longterm.is_some();
            Some(flow.state()).filter(is_told)
        });
        let bdp = 50_000_000 / 8 / 10;
        println!("{state:?}");
        assert!(state.losses_not_found * 20 < state.losses, "{state:?}");
        let inflight_longterm = state.inflight_longterm.expect("all was lost in a probe");
        assert!(inflight_longterm >= bdp * 6 / 10, "of a BDP of {bdp}: {state:?}");
    }
}

/// A long path with random loss is in recovery most of the time.
fn losses_leave_the_samples_their_notes() {
    for amended in [false, true] {
        let link = LinkOf { mbit: 400, rtt_ms: 60, queue_bytes: 3_000_000, loss: 0.005 };
        let bench = Bench::of("ring", amended, &link);
        let flow = bench.flow();
        // Sleeps: the phase that is looked at, of 60 round trips.
        sleep_ms(4_000);
        let state = flow.state();
        println!("{state:?}");
        assert!(state.samples > 1_000, "{state:?}");
        assert!(state.losses > 100, "{state:?}");
        assert!(state.samples_without_note * 100 < state.samples, "{state:?}");
    }
}

/// Most of a window lost at once is more packets than one ACK looks at. All are found but
/// retransmissions that were lost too, which TCP counts.
fn every_packet_that_was_lost_for_the_first_time_is_found() {
    for amended in [false, true] {
        let link = LinkOf { mbit: 400, rtt_ms: 100, queue_bytes: 250_000, loss: 0.0 };
        let bench = Bench::of("walk", amended, &link);
        let flow = bench.flow();
        until("Startup is over", || flow.state().state.starts_with("ProbeBW"));
        // Sleeps: the recovery.
        sleep_ms(2_000);
        let (state, lost_again) = (flow.state(), bench.counter("TcpExt", "TCPLostRetransmit"));
        let timeouts = bench.counter("TcpExt", "TCPTimeouts");
        println!("{lost_again} retransmissions lost, {timeouts} timeouts; {state:?}");
        assert!(state.losses > 1_000, "Startup overflows the buffer: {state:?}");
        let not_found = u64::from(state.losses_not_found);
        // A timeout reports retransmissions too, and they have notes of their own.
        let as_counted = match timeouts {
            0 => not_found.abs_diff(lost_again) * 100 < state.losses.into(),
            _ => not_found <= lost_again,
        };
        assert!(as_counted, "{lost_again} retransmissions lost, {timeouts} timeouts; {state:?}");
    }
}

/// The memory that a socket may use for options is what the program's state comes out of.
fn without_memory_for_its_state_a_flow_goes_on_as_reno_until_there_is_some() {
    let link = LinkOf { mbit: 50, rtt_ms: 20, queue_bytes: 250_000, loss: 0.0 };
    let bench = Bench::start("memory", &link);
    let limit = |bytes: &str| {
        let set = bench
            .link
            .server()
            .expect("a namespace")
            .enter(|| fs::write("/proc/sys/net/core/optmem_max", bytes));
        set.expect("inside")
    };
    if let Err(error) = limit("2048") {
        skip(format!("this kernel has one optmem_max for all namespaces: {error}"));
    }
    let flow = bench.flow();
    // Sleeps: Startup is over.
    sleep_ms(1_000);
    assert!(flow.try_state().is_none(), "there was no memory for it");
    let usage = || bench.loaded.usage().expect("root reads it");
    assert_eq!(usage(), Usage { connections: 0, above_limit: 0, without_memory: 1 });
    let before = flow.received();
    // Sleeps: the rate over this time.
    sleep_ms(2_000);
    let megabits = (flow.received() - before) as f64 * 8.0 / 2e6;
    assert!(megabits > 30.0, "{megabits:.1} Mbit/s of 50");
    // A timeout, too, is recovered from.
    bench.outage(Duration::from_millis(400));
    // Sleeps: the recovery.
    sleep_ms(2_000);
    let before = flow.received();
    // Sleeps: the rate over this time.
    sleep_ms(1_000);
    let megabits = (flow.received() - before) as f64 * 8.0 / 1e6;
    assert!(megabits > 25.0, "{megabits:.1} Mbit/s of 50 after an outage");
    limit("131072").expect("as before");
    until("it has its state, and uses it", || {
        flow.try_state().is_some_and(|state| state.delivered > 0)
    });
    assert_eq!(usage(), Usage { connections: 1, above_limit: 0, without_memory: 0 });
}

fn connections_above_the_limit_go_on_as_reno() {
    let link = LinkOf { mbit: 50, rtt_ms: 10, queue_bytes: 250_000, loss: 0.0 };
    let name = name_of("limit");
    let options = Options { name, max_connections: 2, ..Options::default() };
    let bench = Bench::with(options, &link);
    let mut flows: Vec<_> = (0..3).map(|_| bench.flow()).collect();
    let states =
        |flows: &[Flow<'_>]| flows.iter().filter(|flow| flow.try_state().is_some()).count();
    until("each has its share", || flows.iter().all(|flow| flow.received() > 300_000));
    assert_eq!(states(&flows), 2);
    let usage = || bench.loaded.usage().expect("root reads it");
    assert_eq!(usage(), Usage { connections: 2, above_limit: 1, without_memory: 0 });
    // The place of one that left is the next one's.
    drop(flows.remove(0));
    until("both have a state", || states(&flows) == 2);
    assert_eq!(usage(), Usage { connections: 2, above_limit: 0, without_memory: 0 });
    // One above the limit is none of the program's any more.
    flows.push(bench.flow());
    assert_eq!(usage().above_limit, 1);
    flows[2].choose("reno");
    assert_eq!(usage(), Usage { connections: 2, above_limit: 0, without_memory: 0 });
}

fn a_flow_that_chose_another_algorithm_keeps_no_state() {
    let link = LinkOf { mbit: 50, rtt_ms: 10, queue_bytes: 250_000, loss: 0.0 };
    let bench = Bench::start("leave", &link);
    let flow = bench.flow();
    let goes_on =
        || flow.try_state().is_some_and(|state| state.delivered > 0 && state.state != "unknown");
    until("it has a state", goes_on);
    flow.choose("reno");
    until("its state is gone", || flow.try_state().is_none());
    // Sleeps: reno sends for a while, and no event of its brings the state back.
    sleep_ms(100);
    assert!(flow.try_state().is_none(), "{:?}", flow.try_state());
    flow.choose(&bench.name);
    until("it has one again", goes_on);
}

/// A receiver that runs out of memory drops what it had acknowledged selectively. TCP has no
/// delivery-rate sample then until all of it is repaired.
fn the_window_grows_again_after_a_receiver_reneged() {
    let link = LinkOf { mbit: 50, rtt_ms: 40, queue_bytes: 250_000, loss: 0.01 };
    let bench = Bench::start("renege", &link);
    let flow = bench.flow();
    // Sleeps: Startup is over.
    sleep_ms(1_500);
    let reneged = || bench.counter("TcpExt", "TCPSACKReneging");
    let end = Instant::now() + Duration::from_secs(20);
    while reneged() == 0 {
        if Instant::now() > end {
            skip("this receiver does not renege");
        }
        flow.limit_receiver(4_096);
        // Sleeps: what comes out of order now is dropped.
        sleep_ms(60);
        flow.limit_receiver(8 << 20);
        // Sleeps: and sent again.
        sleep_ms(200);
    }
    let before = flow.received();
    // Sleeps: the rate over this time.
    sleep_ms(2_000);
    let megabits = (flow.received() - before) as f64 * 8.0 / 2e6;
    println!("{megabits:.1} Mbit/s after the receiver reneged; {:?}", flow.state());
    assert!(megabits > 10.0, "{megabits:.1} Mbit/s of 50");
}

/// Seconds of each run of a test that measures: one is enough to see that it can, three for a
/// figure.
fn seconds_of(variable: &str) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// Measures; asserts only that a flow survives. `LOSS_SECONDS` says how long each run takes.
fn goodput_and_retransmissions_under_loss() {
    let seconds = seconds_of("LOSS_SECONDS");
    let paths = [(100, 40, 0.001), (100, 40, 0.01), (400, 60, 0.01)];
    for ((mbit, rtt_ms, loss), amended) in
        paths.into_iter().flat_map(|path| [(path, false), (path, true)])
    {
        let link = LinkOf { mbit, rtt_ms, queue_bytes: mbit * rtt_ms * 125, loss };
        let bench = Bench::of("loss", amended, &link);
        let flow = bench.flow();
        // Sleeps: Startup is over.
        sleep_ms(1_500);
        let (before, (sent_before, again_before)) = (flow.received(), bench.segments());
        // Sleeps: what is measured.
        sleep_ms(seconds * 1_000);
        let (received, (sent, again)) = (flow.received() - before, bench.segments());
        let megabits = received as f64 * 8.0 / 1e6 / seconds as f64;
        let share = (again - again_before) as f64 / (sent - sent_before) as f64;
        let state = flow.state();
        println!(
            "{}: {mbit} Mbit/s, {rtt_ms} ms, loss {:.1} %: {megabits:.1} Mbit/s, {:.2} % sent again; {} of \
             {} samples without a note, {} of {} losses not found",
            algorithm(amended),
            loss * 100.0,
            share * 100.0,
            state.samples_without_note,
            state.samples,
            state.losses_not_found,
            state.losses
        );
        assert!(megabits > mbit as f64 / 4.0, "{megabits:.1} Mbit/s of {mbit}");
    }
}

/// Measures what an ACK costs, beside a program that returns at once; asserts only that both were
/// counted. `COST_SECONDS` says how long each run takes.
fn what_an_ack_costs() {
    let seconds = seconds_of("COST_SECONDS");
    let paths = [(400, 20, 0.0), (100, 100, 0.0), (100, 100, 0.01)];
    for ((mbit, rtt_ms, loss), amended) in
        paths.into_iter().flat_map(|path| [(path, false), (path, true)])
    {
        let link = LinkOf { mbit, rtt_ms, queue_bytes: mbit * rtt_ms * 125, loss };
        let bench = Bench::of("cost", amended, &link);
        let _counting = Counting::start().expect("root");
        let flow = bench.flow();
        let on_ack = *numbers("prog_id").first().expect("this process holds it");
        // A kernel's names of programs have 15 letters. Another process may have loaded one too;
        // ours was loaded with what this process holds.
        let empty = || {
            let named =
                ProgInfoIter::default().filter(|p| p.name.to_string_lossy() == "bbr3_sndbuf_exp");
            let own = named.min_by_key(|p| p.id.abs_diff(on_ack)).expect("it is loaded");
            Cost { runs: own.run_cnt, nanos: own.run_time_ns }
        };
        // Sleeps: Startup is over.
        sleep_ms(1_500);
        let before = (bench.loaded.ack_cost().expect("it is counted"), empty());
        // Sleeps: what is measured.
        sleep_ms(seconds * 1_000);
        let after = (bench.loaded.ack_cost().expect("it is counted"), empty());
        let (ack, empty) = ((after.0 - before.0).mean(), (after.1 - before.1).mean());
        println!(
            "{}: {mbit} Mbit/s, {rtt_ms} ms, loss {loss}: {ack:.0?} ns an ACK, {empty:.0?} ns an empty program",
            algorithm(amended)
        );
        assert!(flow.received() > 0 && ack.is_some());
    }
}

fullpipe_testkit::tests! {
    long [Root, Kernel, Tun] connections_above_the_limit_go_on_as_reno,
        a_flow_that_chose_another_algorithm_keeps_no_state, what_an_ack_costs;
    long timed [Root, Kernel, Tun, Ip]
        a_timeout_reports_each_loss_with_what_was_in_flight_when_it_was_sent,
        losses_leave_the_samples_their_notes,
        every_packet_that_was_lost_for_the_first_time_is_found,
        without_memory_for_its_state_a_flow_goes_on_as_reno_until_there_is_some,
        the_window_grows_again_after_a_receiver_reneged, goodput_and_retransmissions_under_loss,
        soak;
}
