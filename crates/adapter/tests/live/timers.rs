//! The timers in real time.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use fullpipe_adapter::Timers;
use fullpipe_testkit::PATIENCE;

/// A clock of milliseconds makes a millisecond of each wait of 100 us. Some of a hundred are
/// shorter, also on a busy machine.
#[tokio::main(flavor = "current_thread")]
async fn waits_are_shorter_than_a_millisecond() {
    let timers = Timers::start();
    let mut timer = timers.timer(Instant::now());
    let mut shortest = Duration::MAX;
    for _ in 0..100 {
        let begin = Instant::now();
        let deadline = begin + Duration::from_micros(100);
        timer.reset(deadline);
        poll_fn(|cx| timer.poll(cx)).await;
        assert!(Instant::now() >= deadline, "early");
        shortest = shortest.min(begin.elapsed());
    }
    if cfg!(target_os = "linux") {
        assert!(shortest < Duration::from_micros(800), "{shortest:?}");
    }
}

/// A deadline that moves away is not met at its old time.
#[tokio::main(flavor = "current_thread")]
async fn a_timer_that_is_moved_waits_for_its_new_time() {
    let begin = Instant::now();
    let mut timer = Timers::start().timer(begin + Duration::from_millis(1));
    // Sleeps: beyond the first deadline.
    std::thread::sleep(Duration::from_millis(2));
    let deadline = Instant::now() + Duration::from_millis(20);
    timer.reset(deadline);
    poll_fn(|cx| timer.poll(cx)).await;
    assert!(Instant::now() >= deadline);
}

/// A thousand timers on one descriptor: each at its time, whatever the order in which they are set,
/// moved and dropped.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn many_timers_share_a_descriptor_and_keep_their_times() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let timers = Timers::start();
    let before = descriptors();
    let mut waits = Vec::new();
    for i in 0..1000_u64 {
        let deadline = Instant::now() + Duration::from_millis(1 + i * 7919 % 50);
        let mut timer = timers.timer(Instant::now() + Duration::from_secs(1000));
        waits.push(tokio::spawn(async move {
            // Waits for the first deadline, until it is moved to the second.
            let moved =
                tokio::time::timeout(Duration::from_millis(1), poll_fn(|cx| timer.poll(cx)));
            assert!(moved.await.is_err(), "early");
            timer.reset(deadline);
            if i % 10 != 0 {
                poll_fn(|cx| timer.poll(cx)).await;
                assert!(Instant::now() >= deadline, "early");
            }
        }));
    }
    assert!(descriptors() < before + 20, "{before} descriptors, then {}", descriptors());
    for wait in waits {
        tokio::time::timeout(PATIENCE, wait).await.expect("in time").expect("at its time");
    }
}

fullpipe_testkit::tests! {
    timed [] waits_are_shorter_than_a_millisecond;
    [] a_timer_that_is_moved_waits_for_its_new_time;
    [] many_timers_share_a_descriptor_and_keep_their_times;
}
