//! One connection over 127.0.0.1 as fast as the machine carries it, and the processor time of that.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use fullpipe_cc::Duration;
use socket2::SockRef;

use fullpipe_scenario::KernelCc;

const CHUNK_BYTES: usize = 256 << 10;

/// USER_HZ, in which the kernel tells times to programs on every machine that Rust runs on.
const TICKS_PER_SEC: f64 = 100.0;

/// Result of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loopback {
    pub(super) gigabits_per_sec: f64,
    /// Of the whole machine: what runs in an interrupt belongs to no process.
    pub(super) cpu_seconds_per_gigabyte: f64,
}

pub(super) fn run(cc: KernelCc, duration: Duration, stop: &AtomicBool) -> io::Result<Loopback> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    SockRef::from(&sender).set_tcp_congestion(cc.name().as_bytes())?;
    let reader = thread::spawn(move || -> io::Result<u64> {
        let (mut chunk, mut received) = (vec![0; CHUNK_BYTES], 0);
        loop {
            match receiver.read(&mut chunk)? {
                0 => return Ok(received),
                n => received += n as u64,
            }
        }
    });
    let (begun, busy) = (Instant::now(), busy_seconds()?);
    let chunk = vec![0; CHUNK_BYTES];
    while Duration::from(begun.elapsed()) < duration && !stop.load(Ordering::Relaxed) {
        sender.write_all(&chunk)?;
    }
    drop(sender);
    let received = reader.join().map_err(|_| io::Error::other("the reader panicked"))??;
    let (elapsed, busy) = (begun.elapsed().as_secs_f64(), busy_seconds()? - busy);
    Ok(Loopback {
        gigabits_per_sec: received as f64 * 8.0 / 1e9 / elapsed,
        cpu_seconds_per_gigabyte: busy / (received as f64 / 1e9),
    })
}

/// Time in which a processor was not idle, since the machine started.
fn busy_seconds() -> io::Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    busy_ticks(&text).map(|ticks| ticks as f64 / TICKS_PER_SEC).ok_or_else(|| {
        io::Error::other("/proc/stat does not begin with the times of all processors")
    })
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, and what other machines took.
fn busy_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = fields.by_ref().take(7).map_while(|f| f.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq] = ticks[..] else { return None };
    Some(user + nice + system + irq + softirq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_waits_and_other_machines_are_not_busy() {
        let stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 0 0\ncpu0 9 9 9 9 9 9 9 9\n";
        assert_eq!(busy_ticks(stat), Some(7_600_321));
        for other in ["", "cpu0 1 2 3 4 5 6 7\n", "cpu 1 2 x\n"] {
            assert_eq!(busy_ticks(other), None, "{other}");
        }
    }
}
