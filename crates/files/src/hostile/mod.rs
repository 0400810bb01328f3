//! Datagrams that nobody sane would send, to the whole receive path of both ends: socket, version
//! layer, noq, TLS, admission, requests. `FUZZ_DATAGRAMS` says how many.
//!
//! Most of them are protected with the right keys, because what is not is dropped before anybody
//! reads it: Initials with keys from the connection ID, and the packets of ends whose TLS is right
//! and whose content is changed below it.

mod client;
mod closed;
mod flood;
mod frames;
mod initial;
mod large_hello;
mod net;
mod noise;
mod server;
mod session;
mod silent;
mod stalled;

use std::net::SocketAddr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads of the runtimes here.
const THREADS: &str = "hostile";

/// Panics on those threads.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// A runtime whose panics are counted: tasks that nobody waits for keep theirs.
fn runtime() -> tokio::runtime::Runtime {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() == Some(THREADS) {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(info);
        }));
    });
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name(THREADS).enable_all().build().expect("a runtime")
}

fn panics() -> usize {
    PANICS.load(Ordering::Relaxed)
}

/// Datagrams that each test sends.
fn wanted() -> u64 {
    let count = std::env::var("FUZZ_DATAGRAMS").ok();
    count.map_or(10_000, |count| count.parse().expect("FUZZ_DATAGRAMS is a number"))
}

/// Another seed gives other datagrams: `FUZZ_SEED`.
fn seed() -> u64 {
    let seed = std::env::var("FUZZ_SEED").ok();
    seed.map_or(1, |seed| seed.parse().expect("FUZZ_SEED is a number"))
}

/// The attacked end.
fn target() -> SocketAddr {
    ([192, 0, 2, 1], 443).into()
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.map_or(0, |pages| pages * 4096)
}
