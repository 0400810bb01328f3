//! Waiting for an event, in place of a time.

use std::thread;
use std::time::{Duration, Instant};

/// The time after which an event is taken for one that does not come. Far beyond what a busy
/// machine needs: a test that waits for so long has found a defect.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `happened`, and panics with `what` if it does not.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    until_some(what, || happened().then_some(()));
}

/// Waits until there is a value, and panics with `what` if none comes.
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
