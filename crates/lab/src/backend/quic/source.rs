//! Data of the sender's application: the receiver asks for it by a path, and the sender makes it as
//! the application's machine says.

use std::future::Future;
use std::sync::OnceLock;
use std::time;

use bytes::Bytes;
use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_noq::Unsent;
use fullpipe_traffic::{Action, Application, Supply, Traffic};

use super::stack::FlowError;

/// The longest request for such data.
pub(super) const REQUEST_BYTES: usize = 64;

/// The data, of which no write of the stack's is longer.
static BLOCK: [u8; 1 << 16] = [0; 1 << 16];

/// Bytes of the time at the head of each write of [`Application::RateLimited`].
pub(super) const STAMP_BYTES: usize = 8;

/// The time in which applications and stamps count: both ends are in this process.
fn zero() -> time::Instant {
    static ZERO: OnceLock<time::Instant> = OnceLock::new();
    *ZERO.get_or_init(time::Instant::now)
}

/// A time as applications have it.
pub(super) fn instant(at: time::Instant) -> Instant {
    Instant::default() + Duration::from(at.saturating_duration_since(zero()))
}

/// Back.
pub(super) fn to_std(at: Instant) -> time::Instant {
    zero() + time::Duration::from_nanos(at.as_nanos())
}

/// The time at which a write was due, from its head.
pub(super) fn written_at(stamp: [u8; STAMP_BYTES]) -> Instant {
    Instant::from_nanos(u64::from_be_bytes(stamp))
}

/// The path by which a receiver asks for an application's data over one stream.
pub(super) fn path(application: Application) -> String {
    match application {
        // Of times with data and without the receiver makes streams; media is refused before.
        Application::Bulk | Application::OnOff { .. } | Application::Media(_) => "/bulk".to_owned(),
        Application::Bytes(bytes) | Application::ShortFlows { bytes, .. } => {
            format!("/bytes/{bytes}")
        }
        Application::RequestResponse { response_bytes, .. } => format!("/bytes/{response_bytes}"),
        Application::RateLimited { rate, write_bytes } => {
            format!("/rate/{}/{write_bytes}", rate.as_bytes_per_sec())
        }
    }
}

/// The data of a path; `None` for a path that is none of [`path`]'s.
fn made(path: &str) -> Option<Making> {
    let application = if path == "/bulk" {
        Application::Bulk
    } else if let Some(bytes) = path.strip_prefix("/bytes/") {
        Application::Bytes(bytes.parse().ok()?)
    } else {
        let (rate, write_bytes) = path.strip_prefix("/rate/")?.split_once('/')?;
        let rate = Rate::from_bytes_per_sec(rate.parse().ok()?);
        // A write carries its time, so it has room for that.
        let write_bytes = u64::max(write_bytes.parse().ok()?, STAMP_BYTES as u64);
        Application::RateLimited { rate, write_bytes }
    };
    Some(Making::new(application, time::Instant::now()))
}

/// A piece of an application's data.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Write(Bytes),
    /// Nothing before this time.
    Wait(time::Instant),
    /// There is no more.
    End,
}

/// An application that writes to one stream.
#[derive(Debug)]
struct Making {
    traffic: Traffic,
    supply: Supply,
}

impl Making {
    fn new(application: Application, now: time::Instant) -> Self {
        let now = instant(now);
        let mut traffic = Traffic::new(application, now, None, 0);
        traffic.on_connected(now);
        Self { traffic, supply: Supply::default() }
    }

    /// The next piece; asked for when the stream took the one before, or its time has come.
    fn next(&mut self, now: time::Instant) -> Piece {
        let application = self.traffic.application();
        let at_times = application.writes_at_times();
        // What is left of a large write comes before the next one.
        while !at_times || self.supply.left() == 0 {
            match self.traffic.on_time(instant(now)) {
                Action::Nothing => break,
                Action::Write { bytes, due } if at_times => {
                    let head = bytes.min(BLOCK.len() as u64);
                    self.supply.offer(bytes - head);
                    let mut head = vec![0; head as usize];
                    head[..STAMP_BYTES].copy_from_slice(&due.as_nanos().to_be_bytes());
                    return Piece::Write(head.into());
                }
                action => self.supply.on_action(application, action),
            }
        }
        let bytes = self.supply.left().min(BLOCK.len() as u64);
        self.supply.take(bytes);
        match self.traffic.wakes() {
            _ if bytes > 0 => Piece::Write(Bytes::from_static(&BLOCK[..bytes as usize])),
            Some(at) => Piece::Wait(to_std(at)),
            None => Piece::End,
        }
    }
}

/// A stream to write to.
pub(super) trait Stream: Send {
    /// Writes all of it.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), FlowError>> + Send;
}

/// Answers a request for a path, without the end of the stream. `unsent` is the connection's.
pub(super) async fn answer(
    stream: &mut impl Stream,
    request: Vec<u8>,
    unsent: &Unsent,
) -> Result<(), FlowError> {
    let mut made = made(&String::from_utf8(request)?).ok_or("no such path")?;
    let mut writer = unsent.writer();
    loop {
        match made.next(time::Instant::now()) {
            Piece::Write(bytes) => stream.write(bytes).await?,
            Piece::Wait(until) => writer.source(tokio::time::sleep_until(until.into())).await,
            Piece::End => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_path_of_an_application_names_its_data() {
        let rate = Rate::from_bytes_per_sec(125_000);
        let response_bytes = 9;
        for (application, made_of) in [
            (Application::Bulk, Application::Bulk),
            (Application::Bytes(7), Application::Bytes(7)),
            (Application::ShortFlows { bytes: 8, mean_interval: ms(1) }, Application::Bytes(8)),
            (Application::RequestResponse { response_bytes, think: ms(1) }, Application::Bytes(9)),
            (
                Application::RateLimited { rate, write_bytes: 1 },
                Application::RateLimited { rate, write_bytes: 8 },
            ),
            (Application::OnOff { on: ms(3), off: Duration::ZERO }, Application::Bulk),
        ] {
            let made = made(&path(application)).expect("a path");
            assert_eq!(made.traffic.application(), made_of);
        }
        for none in ["", "/bulk/", "/bytes/-1", "/rate/8", "/rate/a/8", "/etc/passwd"] {
            assert!(made(none).is_none(), "{none}");
        }
    }

    #[test]
    fn bytes_end_when_all_are_written() {
        let begun = time::Instant::now();
        let mut bytes = Making::new(Application::Bytes(100_000), begun);
        let mut written = Vec::new();
        while let Piece::Write(bytes) = bytes.next(begun) {
            written.push(bytes.len());
        }
        assert_eq!(written, [BLOCK.len(), 100_000 - BLOCK.len()]);
        assert_eq!(bytes.next(begun), Piece::End);
    }

    #[test]
    fn a_late_write_has_the_time_at_which_it_was_due() {
        let begun = time::Instant::now();
        let rate = Rate::from_bytes_per_sec(100_000);
        let mut made = Making::new(Application::RateLimited { rate, write_bytes: 500 }, begun);
        let late = to_std(instant(begun) + ms(7));
        for due in [ms(0), ms(5)] {
            let Piece::Write(bytes) = made.next(late) else { panic!("no data") };
            let stamp = bytes[..STAMP_BYTES].try_into().expect("a stamp");
            assert_eq!((bytes.len(), written_at(stamp)), (500, instant(begun) + due));
        }
        assert_eq!(made.next(late), Piece::Wait(to_std(instant(begun) + ms(10))));
    }

    #[test]
    fn a_large_write_is_whole_before_the_next_one() {
        let begun = time::Instant::now();
        let rate = Rate::from_bytes_per_sec(100_000_000);
        let mut made = Making::new(Application::RateLimited { rate, write_bytes: 100_000 }, begun);
        let late = to_std(instant(begun) + ms(1));
        let block = BLOCK.len();
        for bytes in [block, 100_000 - block, block, 100_000 - block] {
            let Piece::Write(piece) = made.next(late) else { panic!("no data") };
            assert_eq!(piece.len(), bytes);
        }
    }
}
