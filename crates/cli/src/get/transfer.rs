//! One file: from the request to its name on the disk.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use fullpipe_files::ClientError;
use indicatif::ProgressBar;
use tokio::sync::watch;

use hyper::header::RANGE;
use hyper::{HeaderMap, StatusCode};

use super::Args;
use super::connect::{Answer, Connectors, FetchError, Server};
use super::fields;
use super::output::Output;
use super::partial::Start;
use super::progress::progress_bar;
use super::redirect::{self, is_redirect};
use super::target::Target;
use crate::failure::Failure;
use crate::say;

/// A file to fetch, and the place for it.
pub(super) struct Job {
    pub(super) target: Target,
    pub(super) path: PathBuf,
    /// True if the part that an earlier run left is continued.
    pub(super) continues: bool,
}

impl Job {
    pub(super) async fn open(&self) -> std::io::Result<Output> {
        let url = self.continues.then(|| self.target.url());
        Output::open(&self.path, url.as_deref()).await
    }
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

/// An answer with a file.
struct Found {
    answer: Answer,
    /// The server to which a redirect led.
    elsewhere: Option<Server>,
}

impl Found {
    fn server<'a>(&'a self, first: &'a Server) -> &'a Server {
        self.elsewhere.as_ref().unwrap_or(first)
    }
}

/// Properties that all files share.
pub(super) struct Transfer {
    ways: Connectors,
    /// The user's own fields.
    fields: HeaderMap,
    /// Redirects of one file that are followed.
    redirects: u32,
    stall: fullpipe_cc::Duration,
    bar: ProgressBar,
    /// The keys are to be changed, and were not yet.
    key_update: AtomicBool,
}

impl Transfer {
    pub(super) fn new(args: &Args, jobs: &[Job], ways: Connectors) -> Self {
        let to_stdout = jobs.iter().any(|job| job.path == Path::new("-"));
        Self {
            ways,
            fields: fields::of(&args.header),
            redirects: if args.location { args.max_redirs } else { 0 },
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
            None => match stop.unless(job.open()).await {
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
        let seconds = match outcome {
            Ok(seconds) => seconds,
            Err(failure) => {
                let failure = match output.keep().await {
                    Ok(()) => failure,
                    Err(error) => failure.and(&cannot_write(&output, &error)),
                };
                return Err(failure.and(&what_is_left(&output, bytes)));
            }
        };
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
        let cannot_fetch =
            |why: &dyn Display| Failure::run(format!("cannot fetch {}: {why}", target.path));
        let Some(mut found) = self.find(server, target, output).await? else {
            output.finish().await.map_err(|error| cannot_write(output, &error))?;
            return Ok(start.elapsed().as_secs_f64());
        };
        // Bytes that the bar shows.
        let mut shown = 0;
        loop {
            let next = poll_fn(|cx| Poll::Ready(found.answer.poll_chunk(cx))).await;
            let next = match next {
                Poll::Ready(next) => next,
                Poll::Pending => {
                    // Timer and bar are for a wait alone: for each packet of a fast transfer they
                    // would be a part of the work.
                    self.bar.inc(*bytes - std::mem::replace(&mut shown, *bytes));
                    self.in_time(target, poll_fn(|cx| found.answer.poll_chunk(cx))).await?
                }
            };
            let chunk = match next {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // The server did not take the early request; by now the handshake is done.
                Err(FetchError::Quic(ClientError::EarlyDataRejected)) if *bytes == 0 => {
                    let Some(again) = self.find(server, target, output).await? else { break };
                    found = again;
                    continue;
                }
                Err(error) => return Err(cannot_fetch(&error)),
            };
            if self.key_update.swap(false, Ordering::Relaxed) {
                found.server(server).update_keys();
            }
            let length = chunk.len() as u64;
            if output.push(chunk).map_err(|why| cannot_fetch(&why))? {
                output.write().await.map_err(|error| cannot_write(output, &error))?;
            }
            *bytes += length;
        }
        output.finish().await.map_err(|error| cannot_write(output, &error))?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(server) = found.elsewhere {
            server.close().await;
        }
        Ok(seconds)
    }

    /// Asks for a file, behind redirects where they are followed, and prepares the output for it.
    /// `None` if all of it is there already.
    async fn find(
        &self,
        server: &Server,
        target: &Target,
        output: &mut Output,
    ) -> Result<Option<Found>, Failure> {
        let cannot = |path: &str, why: &str| Failure::run(format!("cannot fetch {path}: {why}"));
        let (mut at, mut fields, mut elsewhere) = (target.clone(), self.fields.clone(), None);
        let (mut followed, mut is_again) = (0, false);
        loop {
            let mut asked = fields.clone();
            asked.extend(output.fields());
            let here = elsewhere.as_ref().unwrap_or(server);
            let answer = self.request(here, &at, &asked).await?;
            let head = answer.head();
            if let Some((status, headers)) = head
                && is_redirect(status)
                && self.redirects > 0
            {
                if followed == self.redirects {
                    let why = format!("more than {followed} redirects");
                    return Err(cannot(&target.path, &why));
                }
                followed += 1;
                let next = redirect::next(&at, headers).map_err(|why| cannot(&at.path, &why))?;
                drop(answer);
                if !next.is_on_the_server_of(&at) {
                    fields::for_another_server(&mut fields);
                    let before = elsewhere.replace(self.ways.connect(&next, None).await?);
                    if let Some(before) = before {
                        before.close().await;
                    }
                }
                at = next;
                continue;
            }
            let ranges = [StatusCode::PARTIAL_CONTENT, StatusCode::RANGE_NOT_SATISFIABLE];
            let has_range = asked.contains_key(RANGE);
            if let Some((status, _)) = head
                // A part is no answer to who did not ask for one (RFC 9110 section 15.3.7).
                && !(has_range && ranges.contains(&status))
                && (!status.is_success() || status == StatusCode::PARTIAL_CONTENT)
            {
                let error = FetchError::status(status.as_u16());
                return Err(cannot(&at.path, &error.to_string()));
            }
            // RFC 9110 sections 15.3.5 and 15.3.6: an empty file would be another answer.
            let without_content = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT];
            if let Some((status, _)) = head
                && without_content.contains(&status)
            {
                let why = format!("status {} says that there is no content", status.as_u16());
                return Err(cannot(&at.path, &why));
            }
            match output.begin(head).await.map_err(|why| cannot(&at.path, &why))? {
                Start::At(_) => return Ok(Some(Found { answer, elsewhere })),
                Start::Whole => return Ok(None),
                Start::Again if is_again => return Err(cannot(&at.path, "no range fits")),
                Start::Again => is_again = true,
            }
        }
    }

    async fn request(
        &self,
        server: &Server,
        target: &Target,
        fields: &HeaderMap,
    ) -> Result<Answer, Failure> {
        let ask = || self.in_time(target, server.ask(&target.path, fields));
        let response = match ask().await? {
            Err(FetchError::Quic(ClientError::EarlyDataRejected)) => ask().await?,
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
fn what_is_left(output: &Output, bytes: u64) -> String {
    let kept = output.kept();
    let length = kept.and_then(|part| std::fs::metadata(part).ok()).map_or(0, |part| part.len());
    match (kept, bytes) {
        // An earlier run may have brought some of them.
        (Some(part), _) if length > 0 => format!("{length} bytes are in {part:?} for --continue"),
        (Some(_), _) | (None, 0) => "nothing was written".to_owned(),
        (None, _) if output.cannot_stay() => {
            let why = "the answer has no strong ETag and no date to continue by";
            format!("the {bytes} bytes that had arrived were removed: {why}")
        }
        (None, _) if output.vanishes() => {
            format!("the {bytes} bytes that had arrived were removed")
        }
        (None, _) => format!("{bytes} bytes had arrived for {}", output.name()),
    }
}
