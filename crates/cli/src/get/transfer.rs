//! One file: from the request to its name on the disk.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fullpipe_files::ClientError;
use indicatif::ProgressBar;
use tokio::sync::watch;

use super::Args;
use super::connect::{Answer, FetchError, Server};
use super::output::Output;
use super::progress::progress_bar;
use super::target::Target;
use crate::failure::Failure;
use crate::say;

/// A file to fetch, and the place for it.
pub(super) struct Job {
    pub(super) target: Target,
    pub(super) path: PathBuf,
}

/// The user's wish for an end.
#[derive(Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub(super) fn new(stopped: watch::Receiver<bool>) -> Self {
        Self(stopped)
    }

    /// The result of `action`, or `None` if the user wants an end before.
    pub(super) async fn unless<T>(&self, action: impl Future<Output = T>) -> Option<T> {
        let mut stopped = self.0.clone();
        tokio::select! {
            output = action => Some(output),
            Ok(_) = stopped.wait_for(|stopped| *stopped) => None,
        }
    }
}

/// Properties that all files share.
pub(super) struct Transfer {
    stall: fullpipe_cc::Duration,
    bar: ProgressBar,
    /// The keys are to be changed, and were not yet.
    key_update: AtomicBool,
}

impl Transfer {
    pub(super) fn new(args: &Args, jobs: &[Job]) -> Self {
        let to_stdout = jobs.iter().any(|job| job.path == Path::new("-"));
        Self {
            stall: args.stall_timeout,
            bar: progress_bar(to_stdout),
            key_update: AtomicBool::new(args.key_update),
        }
    }

    /// No more files come.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Fetches one file, and says so. `output` is that of the job if it is open already.
    pub(super) async fn fetch(
        &self,
        server: &Server,
        job: Job,
        output: Option<Output>,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let mut output = match output {
            Some(output) => output,
            None => match stop.unless(Output::open(&job.path)).await {
                Some(opened) => opened.map_err(|error| cannot_open(&job.path, &error))?,
                None => return Err(nothing_written()),
            },
        };
        let mut bytes = 0;
        let received = self.receive(server, &job.target, &mut output, &mut bytes);
        let outcome = match stop.unless(received).await {
            Some(outcome) => outcome,
            None => Err(Failure::Interrupted("interrupted".to_owned())),
        };
        let seconds = outcome.map_err(|failure| add_what_is_left(failure, &output, bytes))?;
        let mbit = bytes as f64 * 8e-6 / seconds.max(1e-9);
        let name = output.name();
        let line = format!("{bytes} bytes in {seconds:.2} s, {mbit:.1} Mbit/s, to {name}");
        self.bar.suspend(|| say(&line));
        Ok(())
    }

    /// Moves the body and counts it; ends with the seconds that this took.
    async fn receive(
        &self,
        server: &Server,
        target: &Target,
        output: &mut Output,
        bytes: &mut u64,
    ) -> Result<f64, Failure> {
        let start = Instant::now();
        let cannot_fetch = |error| Failure::run(format!("cannot fetch {}: {error}", target.path));
        let mut response = self.request(server, target).await?;
        loop {
            let chunk = match self.in_time(target, response.chunk()).await? {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // The server did not take the early request; by now the handshake is done.
                Err(FetchError::Quic(ClientError::EarlyDataRejected)) if *bytes == 0 => {
                    response = self.request(server, target).await?;
                    continue;
                }
                Err(error) => return Err(cannot_fetch(error)),
            };
            if self.key_update.swap(false, Ordering::Relaxed) {
                server.update_keys();
            }
            output.write(&chunk).await.map_err(|error| cannot_write(output, &error))?;
            *bytes += chunk.len() as u64;
            self.bar.inc(chunk.len() as u64);
        }
        output.finish().await.map_err(|error| cannot_write(output, &error))?;
        Ok(start.elapsed().as_secs_f64())
    }

    async fn request(&self, server: &Server, target: &Target) -> Result<Answer, Failure> {
        let response = match self.in_time(target, server.get(&target.path)).await? {
            Err(FetchError::Quic(ClientError::EarlyDataRejected)) => {
                self.in_time(target, server.get(&target.path)).await?
            }
            response => response,
        };
        response.map_err(|error| Failure::run(format!("cannot fetch {}: {error}", target.path)))
    }

    async fn in_time<T>(
        &self,
        target: &Target,
        action: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::time::timeout(self.stall.into(), action).await.map_err(|_| {
            let (path, timeout) = (&target.path, self.stall);
            Failure::run(format!("cannot fetch {path}: nothing arrived for {timeout}"))
        })
    }
}

pub(super) fn cannot_open(path: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(format!("cannot write to {path:?}: {error}"))
}

pub(super) fn nothing_written() -> Failure {
    Failure::Interrupted("interrupted; nothing was written".to_owned())
}

fn cannot_write(output: &Output, error: &std::io::Error) -> Failure {
    Failure::run(format!("cannot write to {}: {error}", output.name()))
}

/// The part of the file that stays after a failure: nothing, or what went to a place that keeps it.
fn add_what_is_left(failure: Failure, output: &Output, bytes: u64) -> Failure {
    let left = match (bytes, output.vanishes()) {
        (0, _) => "nothing was written".to_owned(),
        (_, true) => format!("the {bytes} bytes that had arrived were removed"),
        (_, false) => format!("{bytes} bytes had arrived for {}", output.name()),
    };
    match failure {
        Failure::Command { reason, code } => {
            Failure::Command { reason: format!("{reason}; {left}"), code }
        }
        Failure::BadInput(reason) => Failure::BadInput(format!("{reason}; {left}")),
        Failure::Run(reason) => Failure::Run(format!("{reason}; {left}")),
        Failure::Interrupted(reason) => Failure::Interrupted(format!("{reason}; {left}")),
    }
}
