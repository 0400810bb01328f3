//! The end that receives.

use std::io;
use std::time::{Duration, Instant};

use tokio::time::{interval_at, sleep_until};

use super::message::{BLOCK_BYTES, Message, Messages};
use super::report::{Interval, Report};
use super::send::SILENCE;
use crate::transport::Connection;

/// The least time between two answers. An answer acknowledges data as well, and answers to all
/// blocks would change how the path's way back is used.
const ANSWER_EVERY: Duration = Duration::from_millis(2);

/// Reads until the sender's result. After `stop` it asks the sender to end. `show` is given each
/// interval.
///
/// # Errors
/// The connection ends, or the peer is silent.
pub(super) async fn receive(
    (connection, messages): (&Connection, &mut Messages<'_>),
    every: Duration,
    stop: impl Future<Output = ()>,
    mut show: impl FnMut(&Interval),
) -> io::Result<Report> {
    let mut begun = Instant::now();
    let mut ticks = interval_at((begun + every).into(), every);
    let mut stop = std::pin::pin!(stop);
    let mut is_stopped = false;
    let (mut heard, mut answered) = (begun, None);
    let (mut bytes, mut counted) = (0, (0, Duration::ZERO));
    loop {
        tokio::select! {
            message = messages.next() => {
                heard = Instant::now();
                let answer = match message? {
                    Message::Ping => {
                        begun = heard;
                        ticks.reset();
                        Message::Pong
                    }
                    Message::Block(number) => {
                        bytes += BLOCK_BYTES as u64;
                        if answered.is_some_and(|at| heard - at < ANSWER_EVERY) {
                            continue;
                        }
                        answered = Some(heard);
                        Message::Answer(number)
                    }
                    Message::End => Message::Done,
                    Message::Report(report) => return Ok(*report),
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                };
                connection.write_all(&answer.encode()?).await?;
            }
            _ = ticks.tick() => {
                let now = begun.elapsed();
                show(&Interval::new(counted.1, now, bytes - counted.0));
                counted = (bytes, now);
            }
            () = &mut stop, if !is_stopped => {
                is_stopped = true;
                connection.write_all(&Message::Stop.encode()?).await?;
            }
            () = sleep_until((heard + SILENCE).into()) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
