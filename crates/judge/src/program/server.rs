//! A server at the other end of the path, that belongs to the run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::location::Link;
use super::result::{Ended, ServerResult};
use super::run::surround;
use fullpipe_lab::backend::RunError;
use fullpipe_lab::process::{Output, Process};

/// Longest time that it takes to listen.
const PATIENCE: Duration = Duration::from_secs(20);
const NAP: Duration = Duration::from_millis(20);

/// A running server. It ends when this is dropped.
pub(super) struct Server {
    line: OsString,
    process: Process,
    output: Output,
}

impl Server {
    /// Starts a command line and waits until it listens.
    pub(super) fn start(line: &OsStr, link: &Link, stop: &AtomicBool) -> Result<Self, RunError> {
        let fails = |why: String, output: &Output| RunError::NoServer {
            line: line.to_string_lossy().escape_debug().to_string(),
            why,
            output: output.last_words(),
        };
        let mut command = Command::new("sh");
        command.arg("-c").arg(line);
        surround(&mut command, link)?;
        let before = link.enter_server(listening)?;
        let started = link.enter_server(|| Process::start_apart(command))?;
        let (mut process, output) = started
            .map_err(|error| fails(format!("does not start: {error}"), &Output::default()))?;
        let begun = Instant::now();
        while link.enter_server(listening)? <= before {
            if let Some(status) = process.poll().map_err(RunError::LostCommand)? {
                let ended = Ended::from(status).in_words();
                return Err(fails(format!("ended with {ended} before it listened"), &output));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::StoppedEarly);
            }
            if begun.elapsed() > PATIENCE {
                return Err(fails(
                    format!("listens on no port after {} s", PATIENCE.as_secs()),
                    &output,
                ));
            }
            thread::sleep(NAP);
        }
        Ok(Self { line: line.to_owned(), process, output })
    }

    /// Ends it, unless it has ended.
    pub(super) fn end(&mut self) -> Result<ServerResult, RunError> {
        let ended = self.process.poll().map_err(RunError::LostCommand)?.map(Ended::from);
        if ended.is_none() {
            self.process.end().map_err(RunError::LostCommand)?;
        }
        Ok(ServerResult {
            command: self.line.to_string_lossy().into_owned(),
            ended,
            output: self.output.last_words(),
        })
    }
}

/// Sockets of the calling thread's namespace that wait for connections or for datagrams: in a new
/// one these are the servers'.
pub fn listening() -> usize {
    const LISTENS: &str = "0A";
    let rows = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let count = |name: &str, is_it: fn(&str) -> bool| {
        rows(name).map_or(0, |rows| rows.lines().skip(1).filter(|row| is_it(row)).count())
    };
    let listens = |row: &str| row.split_ascii_whitespace().nth(3) == Some(LISTENS);
    let tcp: usize = ["tcp", "tcp6"].iter().map(|name| count(name, listens)).sum();
    tcp + ["udp", "udp6"].iter().map(|name| count(name, |_| true)).sum::<usize>()
}
