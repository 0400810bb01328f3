//! Captures of TCP transfers that are made under a virtual clock: two endpoints of fullpipe-tcp, a
//! path between them, and a file of the packets at either end.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::Path as FilePath;

use fullpipe_cc::{Algorithm, Duration, Instant};
use fullpipe_judge::program::ProgramPath;
use fullpipe_path::{Ecn, Event, Header, Path, PathConfig};
use fullpipe_tcp::{Config, Endpoint, Handle, wire};
use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, TsResolution};

/// As much of a packet as is kept: the headers.
const SNAP: usize = 96;

/// An application's bytes.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// An end whose packets are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Sender,
    Receiver,
}

/// A sender and how long it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) algorithm: Algorithm,
    pub(crate) paced: bool,
    pub(crate) seconds: u64,
    pub(crate) at: At,
    /// The receiver's buffer.
    pub(crate) receive_buffer: usize,
    /// Its packets are ECT(1).
    pub(crate) is_l4s: bool,
    /// Prague's fallback for queues that mark by RFC 3168.
    pub(crate) has_fallback: bool,
}

impl Transfer {
    pub(crate) fn of(algorithm: Algorithm, seconds: u64) -> Self {
        Self {
            algorithm,
            paced: true,
            seconds,
            at: At::Sender,
            receive_buffer: 1 << 28,
            is_l4s: false,
            has_fallback: true,
        }
    }
}

/// A capture that is written.
pub(crate) struct Pcap {
    writer: PcapWriter<BufWriter<File>>,
    snap: usize,
}

impl Pcap {
    /// Keeps so many bytes of each packet.
    pub(crate) fn create(file: &FilePath, snap: usize) -> Self {
        let header = PcapHeader {
            datalink: DataLink::RAW,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let file = BufWriter::new(File::create(file).expect("a file"));
        Self { writer: PcapWriter::with_header(file, header).expect("written"), snap }
    }

    pub(crate) fn note(&mut self, now: Instant, packet: &[u8]) {
        let ns = now.as_nanos() + 1_700_000_000_000_000_000;
        let kept = &packet[..packet.len().min(self.snap)];
        let raw = RawPcapPacket {
            ts_sec: (ns / 1_000_000_000) as u32,
            ts_frac: (ns % 1_000_000_000) as u32,
            incl_len: kept.len() as u32,
            orig_len: packet.len() as u32,
            data: Cow::Borrowed(kept),
        };
        self.writer.write_raw_packet(&raw).expect("written");
    }
}

/// One end, and the direction away from it.
struct Half {
    endpoint: Endpoint,
    away: Path<Vec<u8>>,
    /// The file of its packets.
    pcap: Option<Pcap>,
}

impl Half {
    fn new(key: u8, config: &PathConfig, pcap: Option<Pcap>) -> Self {
        Self {
            endpoint: Endpoint::new([key; 16], 10),
            away: Path::new(config).expect("a path that was checked"),
            pcap,
        }
    }

    fn transmit(&mut self, now: Instant) {
        let mut packet = Vec::new();
        while self.endpoint.transmit(now, &mut packet) {
            if let Some(pcap) = &mut self.pcap {
                pcap.note(now, &packet);
            }
            let bytes = std::mem::take(&mut packet);
            let ecn = match bytes[1] & 3 {
                0 => Ecn::NotEct,
                1 => Ecn::Ect1,
                2 => Ecn::Ect0,
                _ => Ecn::Ce,
            };
            let header = Header { ecn, ..Header::from(bytes.len() as u32) };
            let _dropped = self.away.send(now, header, bytes);
        }
    }

    /// Takes the packets that arrive at this end from the other's direction.
    fn receive(&mut self, now: Instant, other: &mut Path<Vec<u8>>) {
        while let Some(event) = other.poll(now) {
            if let Event::Delivered(mut packet) = event {
                if packet.ecn == Ecn::Ce {
                    wire::set_ce(&mut packet.payload);
                }
                if let Some(pcap) = &mut self.pcap {
                    pcap.note(now, &packet.payload);
                }
                self.endpoint.receive(now, &packet.payload);
            }
        }
    }
}

/// Transfers from the path's far end, and writes the packets at one end into a file.
pub(crate) fn capture(transfer: &Transfer, path: &ProgramPath, file: &FilePath) {
    let mut config = Config {
        algorithm: transfer.algorithm,
        send_buffer: 1 << 26,
        receive_buffer: transfer.receive_buffer,
        initial_receive_buffer: transfer.receive_buffer,
        ..Config::default()
    };
    config.congestion.paced = transfer.paced;
    config.congestion.ecn = transfer.is_l4s;
    if let Algorithm::Prague(options) = transfer.algorithm {
        config.algorithm = Algorithm::Prague(options.with_classic_fallback(transfer.has_fallback));
    }
    (config.ecn, config.accurate_ecn) = (transfer.is_l4s, transfer.is_l4s);
    let pcap = |at: At| (transfer.at == at).then(|| Pcap::create(file, SNAP));
    let mut sender = Half::new(1, &path.down, pcap(At::Sender));
    let mut receiver = Half::new(2, &path.up, pcap(At::Receiver));
    let start = Instant::default() + Duration::from_millis(1);
    let end = start + Duration::from_secs(transfer.seconds);
    let remote = SocketAddr::from(([10, 0, 0, 2], 80));
    let listener = receiver.endpoint.listen(remote, 10, &config).expect("a port");
    let local = SocketAddr::from(([10, 0, 0, 1], 0));
    let sending = sender.endpoint.connect(start, local, remote, &config).expect("a connection");
    let mut receiving: Option<Handle> = None;
    let mut sink = vec![0; 1 << 20];
    let mut now = start;
    while now < end {
        sender.receive(now, &mut receiver.away);
        receiver.receive(now, &mut sender.away);
        for half in [&mut sender, &mut receiver] {
            if half.endpoint.poll_at().is_some_and(|at| at <= now) {
                half.endpoint.on_timer(now);
            }
        }
        while matches!(sender.endpoint.write(now, sending, &ZEROS), Ok(1..)) {}
        receiving = receiving.or_else(|| receiver.endpoint.accept(listener));
        if let Some(handle) = receiving {
            while matches!(receiver.endpoint.read(handle, &mut sink), Ok(1..)) {}
        }
        sender.transmit(now);
        receiver.transmit(now);
        let next = [
            sender.away.next_event(),
            receiver.away.next_event(),
            sender.endpoint.poll_at(),
            receiver.endpoint.poll_at(),
        ];
        now = next.into_iter().flatten().min().unwrap_or(end).max(now);
    }
}
