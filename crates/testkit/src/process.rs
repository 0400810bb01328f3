//! Programs that a test runs, which end with it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::{until, until_some};

/// The output and the exit code of a program that ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// Runs a program to its end.
    pub fn of(mut command: Command) -> Self {
        let output = command.stdin(Stdio::null()).output().expect("the command starts");
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A process that is killed and awaited when the test is over, however it ends.
pub struct Running(pub Child);

impl Running {
    /// As Ctrl-C.
    pub fn interrupt(&self) {
        self.signal(Signal::SIGINT);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().try_into().expect("a process id"));
        kill(pid, signal).expect("it runs");
    }

    /// Waits for the end.
    pub fn end(&mut self) -> ExitStatus {
        until_some("the end of a process", || self.0.try_wait().expect("a child"))
    }

    /// Its standard error, to its end.
    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        let stderr = self.0.stderr.as_mut().expect("stderr is a pipe");
        stderr.read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first line on standard output.
pub fn first_line(process: &mut Running) -> String {
    let mut line = String::new();
    let stdout = process.0.stdout.as_mut().expect("stdout is a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert!(line.ends_with('\n'), "it ended early: {line:?}");
    line
}

/// Waits until a line with this text is in a file that a program writes, and gives the line.
pub fn line_of(file: &std::path::Path, text: &str) -> String {
    until_some(&format!("a line with {text:?} in {file:?}"), || {
        let all = std::fs::read_to_string(file).unwrap_or_default();
        // A line that has no end yet may be half of one.
        all.split_inclusive('\n').find(|l| l.ends_with('\n') && l.contains(text)).map(str::to_owned)
    })
}

/// Runs `work` in a thread with a network namespace of its own, its loopback up; what it starts is
/// in it, too. Needs [`crate::Need::Root`] and [`crate::Need::Ip`].
pub fn in_namespace(work: impl FnOnce() + Send + 'static) {
    let done = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("the test names Need::Root");
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.is_ok_and(|status| status.success()), "the test names Need::Ip");
        until("loopback is up", || std::net::UdpSocket::bind("127.0.0.1:0").is_ok());
        work();
    });
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}
