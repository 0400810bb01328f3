//! Processor time of the program, as the kernel counts it.

use std::fs;
use std::io;
use std::ops::Sub;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Error;

/// Runs of a program, and the time that they took: interrupts on the way and the kernel's two looks
/// at its clock included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of runs.
    pub runs: u64,
    /// Total time of the runs, in nanoseconds.
    pub nanos: u64,
}

impl Cost {
    /// Nanoseconds a run; `None` without one.
    pub fn mean(self) -> Option<f64> {
        (self.runs > 0).then(|| self.nanos as f64 / self.runs as f64)
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            runs: self.runs.saturating_sub(earlier.runs),
            nanos: self.nanos.saturating_sub(earlier.nanos),
        }
    }
}

/// While somebody holds one, the kernel counts runs and times of all BPF programs.
#[derive(Debug)]
pub struct Counting {
    _counting: OwnedFd,
}

impl Counting {
    /// Lets the kernel count.
    ///
    /// # Errors
    ///
    /// The kernel does not permit it to this process.
    pub fn start() -> Result<Self, Error> {
        // SAFETY: a system call with a constant.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(Error::Cost(io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: the kernel gave this descriptor to nobody else.
        Ok(Self { _counting: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

pub(super) fn of(program: BorrowedFd<'_>) -> Result<Cost, Error> {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = fs::read_to_string(path).map_err(Error::Cost)?;
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok())
    };
    let (runs, nanos) = (field("run_cnt"), field("run_time_ns"));
    Ok(Cost { runs: runs.unwrap_or(0), nanos: nanos.unwrap_or(0) })
}
