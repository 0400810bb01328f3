//! A command with all that it starts: one process group, which ends as a whole.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Time that a command has to end when it is asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

const NAP: Duration = Duration::from_millis(5);

/// The last of a command's output that is kept, in bytes.
const KEPT_BYTES: usize = 4096;

/// The last of it that is shown, in lines and in characters.
const SHOWN_LINES: usize = 3;
const SHOWN_CHARS: usize = 400;

/// A running command. It is killed when this is dropped.
pub struct Process {
    child: Child,
    group: Pid,
    has_terminal: bool,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a command in a process group of its own, which gets the terminal where this process
    /// has it: Ctrl-C then is the command's.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command, output_on_stderr: bool) -> io::Result<Self> {
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

    /// Starts a command in a process group of its own that reads nothing and whose output is kept.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_apart(mut command: Command) -> io::Result<(Self, Output)> {
        let (reader, writer) = io::pipe()?;
        command.process_group(0).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        let process = Self { child, group, has_terminal: false, status: None };
        Ok((process, Output::of(reader)?))
    }

    /// Starts a command in a process group of its own that reads nothing and writes into a file.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_logged(mut command: Command, log: File) -> io::Result<Self> {
        command.process_group(0).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        Ok(Self { child, group, has_terminal: false, status: None })
    }

    /// The number of its first process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The status of a command that has ended.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        if self.status.is_none() && self.has_terminal && self.is_stopped() {
            let _ = killpg(self.group, Signal::SIGCONT);
        }
        Ok(self.status)
    }

    /// True if somebody typed Ctrl-Z since the last call. The path goes on in real time, and the
    /// shell that could continue the command waits for this process: a command with the terminal
    /// does not stop.
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

    /// Asks the whole group to end.
    pub fn ask_to_end(&self) {
        let _ = killpg(self.group, Signal::SIGTERM);
        // One that is stopped hears nothing.
        let _ = killpg(self.group, Signal::SIGCONT);
    }

    /// Asks the whole group to end, waits a while, and kills what is left of it.
    ///
    /// # Errors
    /// The system does not tell its status.
    pub fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        self.ask_to_end();
        let deadline = Instant::now() + GRACE;
        while self.poll()?.is_none() && Instant::now() < deadline {
            thread::sleep(NAP);
        }
        self.kill()?;
        Ok(self.status)
    }

    /// Kills what is left of the group.
    fn kill(&mut self) -> io::Result<()> {
        // The first process is not reaped twice, and its number stays the group's while others are
        // in it.
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
        // A process in the background that takes the terminal is stopped, unless it blocks the
        // signal.
        let mut background = SigSet::empty();
        background.add(Signal::SIGTTOU);
        if background.thread_block().is_ok() {
            let _ = tcsetpgrp(io::stdin(), getpgrp());
            let _ = background.thread_unblock();
        }
    }
}

/// Time that what was written last has to come through the pipe, when somebody still holds its
/// other end.
const SETTLE: Duration = Duration::from_millis(500);

/// The last of what a command has written to stdout and stderr.
#[derive(Clone, Debug, Default)]
pub struct Output(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Somebody could still write.
    is_open: bool,
}

impl Output {
    fn of(mut reader: io::PipeReader) -> io::Result<Self> {
        let output = Self::default();
        output.lock().is_open = true;
        let kept = output.clone();
        let read = move || {
            let mut part = [0; KEPT_BYTES];
            // Until nobody is left who could write.
            while let Ok(bytes @ 1..) = reader.read(&mut part) {
                let all = &mut kept.lock().bytes;
                all.extend(&part[..bytes]);
                let surplus = all.len().saturating_sub(KEPT_BYTES);
                all.drain(..surplus);
            }
            kept.lock().is_open = false;
            kept.0.1.notify_all();
        };
        thread::Builder::new().name("fullpipe-output".to_owned()).spawn(read)?;
        Ok(output)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last lines in one, for a message: those so far.
    pub fn last_lines(&self) -> String {
        let text: Vec<u8> = self.lock().bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" / ");
        let shown: String = shown.chars().filter(|c| !c.is_control()).collect();
        let surplus = shown.chars().count().saturating_sub(SHOWN_CHARS);
        shown.chars().skip(surplus).collect()
    }

    /// The last lines of a command that has ended: with what is still in the pipe.
    pub fn last_words(&self) -> String {
        let waited = self.0.1.wait_timeout_while(self.lock(), SETTLE, |kept| kept.is_open);
        drop(waited);
        self.last_lines()
    }
}
