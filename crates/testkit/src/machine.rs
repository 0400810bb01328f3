//! The machine during a test: what other programs took of it.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};

/// Cores that other programs used, above which a test in real time proves nothing.
const FOREIGN_CORES: f64 = 0.35;

/// Share of the processors' time that the host took away (`steal` of proc_stat(5)).
const STEAL: f64 = 0.05;

/// Lateness of a sleep of [`TICK`], at its 99th percentile: the machine stood still.
const LATE: Duration = Duration::from_millis(20);

const TICK: Duration = Duration::from_millis(2);

/// Seconds of processor time that are no disturbance: the kernel counts in ticks of up to 10 ms on
/// each core.
const ROUNDING: f64 = 0.03;

/// Disturbance of the machine during a test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Disturbance {
    /// Cores that programs other than this one and those that it started and awaited used on
    /// average.
    pub foreign_cores: f64,
    /// Share of the processors' time that the host took away.
    pub steal: f64,
    /// Lateness of short sleeps at the 99th percentile.
    pub late_p99: Duration,
    /// Load average over one minute at the end.
    pub load: f64,
}

impl Disturbance {
    /// True if a result in real time counts.
    pub fn is_quiet(&self) -> bool {
        self.foreign_cores <= FOREIGN_CORES && self.steal <= STEAL && self.late_p99 <= LATE
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "load {:.1}, other programs used {:.2} cores, steal {:.1} %, sleeps late by {:.1} ms at p99",
            self.load,
            self.foreign_cores,
            self.steal * 100.0,
            self.late_p99.as_secs_f64() * 1e3,
        )
    }
}

/// Observation of the machine from its start to [`Watch::end`].
pub struct Watch {
    begun: Instant,
    before: CpuTimes,
    own: Duration,
    over: Arc<AtomicBool>,
    lateness: JoinHandle<Vec<Duration>>,
}

impl Watch {
    /// Starts it.
    pub fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&over);
        let lateness = thread::spawn(move || {
            let mut all = Vec::new();
            while !watched.load(Ordering::Relaxed) {
                let before = Instant::now();
                thread::sleep(TICK);
                all.push(before.elapsed().saturating_sub(TICK));
            }
            all
        });
        Self { begun: Instant::now(), before: CpuTimes::now(), own: own_time(), over, lateness }
    }

    /// Ends it. Processes that the test started must have been awaited, or they count as other
    /// programs.
    pub fn end(self) -> Disturbance {
        let wall = self.begun.elapsed().as_secs_f64().max(1e-3);
        let (after, own) = (CpuTimes::now(), own_time().saturating_sub(self.own));
        self.over.store(true, Ordering::Relaxed);
        let mut late = self.lateness.join().expect("no panic");
        late.sort();
        let busy = after.busy - self.before.busy;
        let all = (after.all - self.before.all).max(f64::EPSILON);
        Disturbance {
            foreign_cores: ((busy - own.as_secs_f64() - ROUNDING) / wall).max(0.0),
            steal: (after.steal - self.before.steal) / all,
            late_p99: late.get(late.len() * 99 / 100).copied().unwrap_or_default(),
            load: load(),
        }
    }
}

/// Seconds of all processors (proc_stat(5)).
#[derive(Clone, Copy)]
struct CpuTimes {
    /// Of programs, in user mode and in the kernel; without interrupts, which a test's packets
    /// cause.
    busy: f64,
    steal: f64,
    all: f64,
}

impl CpuTimes {
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
        let line = text.lines().next().unwrap_or_default();
        let of: Vec<f64> = line
            .split_whitespace()
            .skip(1)
            .filter_map(|n| n.parse().ok())
            .map(|n: f64| n / ticks)
            .collect();
        let at = |i: usize| of.get(i).copied().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guests count in user.
        Self { busy: at(0) + at(1) + at(2), steal: at(7), all: of.iter().take(8).sum() }
    }
}

/// Processor time of this process and of those that it started and awaited.
fn own_time() -> Duration {
    let of = |who| {
        let usage = getrusage(who).expect("it is there");
        let micros =
            [usage.user_time(), usage.system_time()].map(|t| t.tv_sec() * 1_000_000 + t.tv_usec());
        Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs())
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default()
}
