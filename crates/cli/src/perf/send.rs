//! The end that sends.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::time::{interval_at, sleep_until, timeout};

use super::message::{self, Amount, BLOCK_BYTES, Message, Messages};
use super::report::{Interval, Percentiles, Report, mbps};
use crate::transport::Connection;

/// Round trips before the data, of which the shortest counts.
const PINGS: usize = 10;

/// Silence that ends a measurement: a peer that reads answers.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

/// The longest time for the rest to be read after an interrupt.
const GOODBYE: Duration = Duration::from_secs(2);

/// Sends `amount` until `stop`, and returns the result. `show` is given each interval.
///
/// # Errors
/// The connection ends, or the peer is silent.
pub(super) async fn send(
    (connection, messages): (&Connection, &mut Messages<'_>),
    (amount, every): (Amount, Duration),
    sender: String,
    stop: impl Future<Output = ()>,
    mut show: impl FnMut(&Interval),
) -> io::Result<Report> {
    let idle_rtt = ping(connection, messages).await?;
    let begun = Instant::now();
    let mut data = Data::new(amount, begun, idle_rtt / 2);
    let mut ticks = interval_at((begun + every).into(), every);
    let mut stop = std::pin::pin!(stop);
    let mut interrupted = None;
    while !data.is_done {
        let quiet = interrupted.map_or(data.heard + SILENCE, |at| at + GOODBYE);
        tokio::select! {
            message = messages.next() => match message? {
                Message::Answer(number) => data.answered(number),
                Message::Done => data.finish(),
                Message::Stop => {
                    interrupted = Some(Instant::now());
                    data.end();
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            },
            writable = connection.writable(), if data.has_more() => {
                writable?;
                data.write(connection)?;
            }
            _ = ticks.tick() => show(data.interval()),
            () = &mut stop, if interrupted.is_none() => {
                interrupted = Some(Instant::now());
                data.end();
            }
            () = sleep_until(quiet.into()) => match interrupted {
                Some(_) => break,
                None => return Err(io::ErrorKind::TimedOut.into()),
            },
        }
    }
    let seconds = data.seconds();
    Ok(Report {
        sender,
        bytes: data.read,
        seconds: seconds.as_secs_f64(),
        goodput_mbps: mbps(data.read, seconds),
        idle_rtt_ms: idle_rtt.as_secs_f64() * 1e3,
        latency_ms: Percentiles::of(&data.all, idle_rtt / 2),
        answer_ms: Percentiles::of(&data.all, Duration::ZERO),
        retransmitted_segments: connection.retransmitted_segments()?,
        intervals: data.intervals,
        interrupted: interrupted.is_some(),
    })
}

/// The shortest of some round trips from application to application.
async fn ping(connection: &Connection, messages: &mut Messages<'_>) -> io::Result<Duration> {
    let mut shortest = Duration::MAX;
    for _ in 0..PINGS {
        let asked = Instant::now();
        connection.write_all(&Message::Ping.encode()?).await?;
        match timeout(SILENCE, messages.next()).await?? {
            Message::Pong => shortest = shortest.min(asked.elapsed()),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(shortest)
}

/// The blocks of a measurement.
struct Data {
    amount: Amount,
    begun: Instant,
    /// Half of the round trip without data: the way of an answer.
    way_back: Duration,
    /// The bytes that are being written.
    out: Vec<u8>,
    written: usize,
    /// The number of the next block.
    next: u64,
    /// True after the last block.
    is_ended: bool,
    /// True once all of it was read.
    is_done: bool,
    /// Blocks that were not answered, and the times at which they began to leave.
    under_way: VecDeque<(u64, Instant)>,
    /// Bytes that were read.
    read: u64,
    /// The newest answer.
    heard: Instant,
    /// Answer times in nanoseconds, of all and of this interval.
    all: Histogram<u64>,
    recent: Histogram<u64>,
    intervals: Vec<Interval>,
    /// Bytes and time at the end of the newest of them.
    counted: (u64, Duration),
}

impl Data {
    fn new(amount: Amount, begun: Instant, way_back: Duration) -> Self {
        let block = message::block();
        Self {
            amount,
            begun,
            way_back,
            written: block.len(),
            out: block,
            next: 0,
            is_ended: false,
            is_done: false,
            under_way: VecDeque::new(),
            read: 0,
            heard: begun,
            all: fullpipe_report::observe::histogram(),
            recent: fullpipe_report::observe::histogram(),
            intervals: Vec::new(),
            counted: (0, Duration::ZERO),
        }
    }

    fn has_more(&self) -> bool {
        !self.is_ended || self.written < self.out.len()
    }

    /// No more blocks.
    fn end(&mut self) {
        self.amount = Amount::Bytes(0);
    }

    /// Writes what the transport takes of the current block, or of the next.
    fn write(&mut self, connection: &Connection) -> io::Result<()> {
        if self.written == self.out.len() {
            self.written = 0;
            let is_enough = match self.amount {
                Amount::Bytes(bytes) => self.next * BLOCK_BYTES as u64 >= bytes,
                Amount::Nanoseconds(nanos) => self.begun.elapsed() >= Duration::from_nanos(nanos),
            };
            if is_enough {
                self.is_ended = true;
                self.out = Message::End.encode()?;
            } else {
                message::number(&mut self.out, self.next);
            }
        }
        let at = Instant::now();
        let count = match connection.try_write(&self.out[self.written..]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.written == 0 && count > 0 && !self.is_ended {
            self.under_way.push_back((self.next, at));
            self.next += 1;
        }
        self.written += count;
        Ok(())
    }

    /// This block was read, and all before it.
    fn answered(&mut self, number: u64) {
        self.heard = Instant::now();
        while let Some((block, at)) = self.under_way.front().copied().filter(|(n, _)| *n <= number)
        {
            self.under_way.pop_front();
            self.read = (block + 1) * BLOCK_BYTES as u64;
            if block == number {
                let nanos = u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.all.saturating_record(nanos);
                self.recent.saturating_record(nanos);
            }
        }
    }

    /// All of it was read.
    fn finish(&mut self) {
        self.heard = Instant::now();
        if self.is_ended {
            self.read = self.next * BLOCK_BYTES as u64;
            self.is_done = true;
        }
    }

    /// From the first write until the newest answer left.
    fn seconds(&self) -> Duration {
        self.heard.duration_since(self.begun).saturating_sub(self.way_back)
    }

    fn interval(&mut self) -> &Interval {
        let now = self.begun.elapsed();
        let (bytes, start) = self.counted;
        let mut interval = Interval::new(start, now, self.read - bytes);
        interval.latency_p50_ms =
            Percentiles::of(&self.recent, self.way_back).map(|times| times.p50);
        self.recent.reset();
        self.counted = (self.read, now);
        self.intervals.push(interval);
        &self.intervals[self.intervals.len() - 1]
    }
}
