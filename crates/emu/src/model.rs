//! The state of a relay that its thread and its handle share, and the packets in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fullpipe_cc::Instant;
use fullpipe_path::{Delivered, Path};
use fullpipe_traffic::{Direction, SentPacket};

use crate::endpoints::Endpoints;
use crate::os;
use crate::outcome::Outcome;
use crate::way_back::WayBack;
use crate::{EmuError, EmulatorConfig};

/// Largest number of bytes in one call: somewhat below the largest datagram.
const MOST_BYTES_A_CALL: usize = 65_000;

/// A datagram inside the link. One of cross traffic is of no flow.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) flow: Option<usize>,
    pub(crate) data: Vec<u8>,
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) downlink: Path<Parcel>,
    pub(crate) uplink: Path<Parcel>,
    pub(crate) down: Outcome,
    pub(crate) up: Outcome,
    pub(crate) way_back: WayBack<Parcel>,
    /// Port of each flow's client, and the newest packet that the target sent there.
    pub(crate) newest: Vec<Option<(u16, SentPacket)>>,
}

impl Model {
    /// The target sent a packet to the client of a flow.
    pub(crate) fn note_sent(&mut self, flow: usize, client_port: u16, sent: Instant, bytes: u32) {
        if self.newest.len() <= flow {
            self.newest.resize(flow + 1, None);
        }
        let newest = &mut self.newest[flow];
        let number = newest.map_or(0, |(_, before)| before.number + 1);
        *newest = Some((client_port, SentPacket { number, bytes, sent }));
    }

    pub(crate) fn path(&mut self, direction: Direction) -> &mut Path<Parcel> {
        match direction {
            Direction::Down => &mut self.downlink,
            Direction::Up => &mut self.uplink,
        }
    }

    pub(crate) fn outcome(&mut self, direction: Direction) -> &mut Outcome {
        match direction {
            Direction::Down => &mut self.down,
            Direction::Up => &mut self.up,
        }
    }
}

/// State shared by the thread and the handle.
#[derive(Debug)]
pub(crate) struct Shared {
    model: Mutex<Model>,
    pub(crate) kernel_drops: AtomicU64,
    pub(crate) endpoints: Endpoints,
}

impl Shared {
    pub(crate) fn new(config: &EmulatorConfig) -> Result<Self, EmuError> {
        let wrong = |direction| move |source| EmuError::Path { direction, source };
        let mut downlink = Path::new(&config.downlink).map_err(wrong("downlink"))?;
        let mut uplink = Path::new(&config.uplink).map_err(wrong("uplink"))?;
        if config.record_arrivals > 0 {
            downlink.record_arrivals(config.record_arrivals);
            uplink.record_arrivals(config.record_arrivals);
        }
        let (down, up) = (Outcome::new(), Outcome::new());
        let way_back = WayBack::new();
        let newest = Vec::new();
        let model = Mutex::new(Model { downlink, uplink, down, up, way_back, newest });
        let endpoints = Endpoints::new(config.target);
        Ok(Self { model, kernel_drops: AtomicU64::new(0), endpoints })
    }

    /// The model. Nobody holds it over a system call.
    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kernel_drops(&self) -> u64 {
        self.kernel_drops.load(Ordering::Relaxed)
    }
}

/// Number of the first of these packets that one call sends: of one flow, with the same ECN
/// bits, and of one size, of `largest` bytes at most, but for a smaller one at the end. Towards the
/// target each packet that finds nobody there is counted, and the system answers once to a call.
pub(crate) fn together(direction: Direction, due: &[Delivered<Parcel>], largest: usize) -> usize {
    let Some(first) = due.first() else { return 0 };
    let segment = first.payload.data.len();
    if direction == Direction::Up || segment == 0 || segment > largest {
        return 1;
    }
    let most = os::MOST_DATAGRAMS.min(MOST_BYTES_A_CALL / segment).min(due.len());
    let is_alike = |packet: &&Delivered<Parcel>| {
        packet.payload.flow == first.payload.flow && packet.ecn == first.ecn
    };
    let alike = due.iter().take(most).take_while(is_alike);
    let sizes = alike.map(|packet| packet.payload.data.len());
    let mut is_over = false;
    let fitting = sizes.take_while(|&bytes| {
        let fits = !is_over && (1..=segment).contains(&bytes);
        is_over |= bytes < segment;
        fits
    });
    fitting.count().max(1)
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Duration;
    use fullpipe_path::Ecn;

    use super::*;

    fn packet(flow: usize, bytes: usize, ecn: Ecn) -> Delivered<Parcel> {
        let (at, queued, wire_bytes) = (Instant::default(), Duration::ZERO, bytes as u32);
        let payload = Parcel { flow: Some(flow), data: vec![0; bytes] };
        Delivered { at, queued, left_queue: at, wire_bytes, ecn, corrupted: false, payload }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn packets_are_sent_together_that_the_receiver_can_tell_apart() {
        let full = || packet(0, 1200, Ecn::Ect0);
        let then = |last| [full(), full(), last, full()];
        let down = |due: &[Delivered<Parcel>]| together(Direction::Down, due, usize::MAX);
        assert_eq!(down(&then(full())), 4);
        assert_eq!(down(&then(packet(0, 1199, Ecn::Ect0))), 3, "a smaller one is the last");
        assert_eq!(down(&then(packet(0, 1201, Ecn::Ect0))), 2);
        assert_eq!(down(&then(packet(0, 0, Ecn::Ect0))), 2);
        assert_eq!(down(&then(packet(0, 1200, Ecn::Ce))), 2);
        assert_eq!(down(&then(packet(1, 1200, Ecn::Ect0))), 2);
        assert_eq!(together(Direction::Up, &then(full()), usize::MAX), 1);
        for (largest, expected) in [(0, 1), (1199, 1), (1200, 4)] {
            assert_eq!(together(Direction::Down, &then(full()), largest), expected);
        }
        assert_eq!(
            down(&vec![packet(0, 9000, Ecn::Ect0); 20]),
            7,
            "{MOST_BYTES_A_CALL} bytes at most"
        );
        assert_eq!(down(&vec![packet(0, 100, Ecn::Ect0); 200]), os::MOST_DATAGRAMS);
        assert_eq!(down(&[packet(0, 65_507, Ecn::Ect0), full()]), 1);
        assert_eq!((down(&[packet(0, 0, Ecn::Ect0), full()]), down(&[])), (1, 0));
    }
}
