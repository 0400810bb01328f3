//! Memory that the clients of a busy time needed goes back to the system. glibc keeps what was
//! freed, in arenas of which each gives back only what lies at its end.

use std::sync::Arc;
use std::time::Duration;

use fullpipe_files::Server;

/// The time between two looks at the server, and so the shortest time between two tries.
const INTERVAL: Duration = Duration::from_secs(3);
/// Connections that were there at once before it is worth the work.
const WORTH_IT: u64 = 8;

/// Gives memory back whenever half of the connections are gone since the last time, and once more
/// at the next look, because what a connection had is freed some time after it is gone.
pub(super) fn give_back_after_peaks(server: Arc<Server>) {
    if !CAN_GIVE_BACK {
        return;
    }
    tokio::spawn(async move {
        let (mut most, mut again) = (0, false);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = server.stats().connections;
            let fell = most >= WORTH_IT && now <= most / 2;
            most = if fell { now } else { most.max(now) };
            if !std::mem::replace(&mut again, fell) && !fell {
                continue;
            }
            // It may take milliseconds, for which it holds the locks of the arenas one after the
            // other.
            if tokio::task::spawn_blocking(give_back).await.is_err() {
                return;
            }
        }
    });
}

const CAN_GIVE_BACK: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_back() {
    // SAFETY: malloc_trim may be called at any time from any thread, and changes no memory that is
    // in use.
    let _anything_given = unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back() {}
