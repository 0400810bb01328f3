//! A command with all that it starts: one process group, which ends as a whole.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Time that a command has to end when it is asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

const NAP: Duration = Duration::from_millis(5);

/// A running command. It is killed when this is dropped.
pub(super) struct Process {
    child: Child,
    group: Pid,
    has_terminal: bool,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a command in a process group of its own, which gets the terminal where this process has it:
    /// Ctrl-C then is the command's.
    pub(super) fn start(mut command: Command, output_on_stderr: bool) -> io::Result<Self> {
        command.process_group(0);
        if output_on_stderr {
            command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        let stdin = io::stdin();
        let is_ours = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|g| g == getpgrp());
        let child = command.spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        let mut process = Self { child, group, has_terminal: false, status: None };
        if is_ours && tcsetpgrp(&stdin, group).is_ok() {
            process.has_terminal = true;
            // It may have stopped because it wanted the terminal before it had it.
            let _ = killpg(group, Signal::SIGCONT);
        }
        Ok(process)
    }

    /// The status of a command that has ended.
    pub(super) fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        if self.status.is_none() && self.has_terminal && self.is_stopped() {
            let _ = killpg(self.group, Signal::SIGCONT);
        }
        Ok(self.status)
    }

    /// Whether somebody typed Ctrl-Z since the last call. The path goes on in real time, and the shell that could
    /// continue the command waits for this process: a command with the terminal does not stop.
    #[cfg(target_os = "linux")]
    fn is_stopped(&self) -> bool {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        matches!(waitid(Id::Pid(self.group), flags), Ok(WaitStatus::Stopped(..)))
    }

    /// Nobody is told.
    #[cfg(not(target_os = "linux"))]
    fn is_stopped(&self) -> bool {
        false
    }

    /// Asks the whole group to end, waits a while, and kills what is left of it.
    pub(super) fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        let _ = killpg(self.group, Signal::SIGTERM);
        // One that is stopped hears nothing.
        let _ = killpg(self.group, Signal::SIGCONT);
        let deadline = Instant::now() + GRACE;
        while self.poll()?.is_none() && Instant::now() < deadline {
            thread::sleep(NAP);
        }
        self.kill()?;
        Ok(self.status)
    }

    /// Kills what is left of the group.
    fn kill(&mut self) -> io::Result<()> {
        // The first process is not reaped twice, and its number stays the group's while others are in it.
        let _ = killpg(self.group, Signal::SIGKILL);
        if self.status.is_none() {
            self.status = Some(self.child.wait()?);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
        if !self.has_terminal {
            return;
        }
        // A process in the background that takes the terminal is stopped, unless it blocks the signal.
        let mut background = SigSet::empty();
        background.add(Signal::SIGTTOU);
        if background.thread_block().is_ok() {
            let _ = tcsetpgrp(io::stdin(), getpgrp());
            let _ = background.thread_unblock();
        }
    }
}
