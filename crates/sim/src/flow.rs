//! One flow: what is asked of it, and what there is to see.

use fullpipe_cc::{Algorithm, Config, Duration, Instant, Snapshot};

use crate::receiver::Receiver;
use crate::sender::Sender;

/// What a flow is to do.
#[derive(Clone, Copy, Debug)]
pub struct FlowConfig {
    /// Its congestion control.
    pub algorithm: Algorithm,
    /// The transport's numbers. C.SMSS is the size of a full datagram without IP and UDP.
    pub cc: Config,
    /// When it starts, counted from the start of the run.
    pub start: Duration,
    /// Application bytes to send; `None` for a source without an end.
    pub bytes: Option<u64>,
}

impl FlowConfig {
    /// A source without an end from the start on, in datagrams of 1452 bytes: what QUIC finds on a
    /// path with an MTU of 1500 that may be IPv6.
    pub fn bulk(algorithm: Algorithm) -> Self {
        let cc = Config { smss: 1452, ..Config::default() };
        Self { algorithm, cc, start: Duration::ZERO, bytes: None }
    }
}

/// What the sender did. Bytes are datagram bytes without IP and UDP.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that the sender marked lost.
    pub lost_packets: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// The newest round-trip sample.
    pub latest_rtt: Option<Duration>,
}

/// A flow of a simulation.
#[derive(Debug)]
pub struct Flow {
    pub(crate) config: FlowConfig,
    pub(crate) start: Instant,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) end: Option<Instant>,
}

impl Flow {
    pub(crate) fn new(config: FlowConfig) -> Self {
        let start = Instant::default() + config.start;
        Self {
            config,
            start,
            sender: Sender::new(&config, start),
            receiver: Receiver::default(),
            end: None,
        }
    }

    /// What the congestion control believes now.
    pub fn snapshot(&self) -> Snapshot {
        self.sender.snapshot()
    }

    /// What the sender did so far.
    pub fn stats(&self) -> SenderStats {
        self.sender.stats
    }

    /// Application bytes that the receiver could read, in order, so far.
    pub fn received(&self) -> u64 {
        self.receiver.readable
    }

    /// When it started.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// When the receiver had all bytes; `None` before, and for a source without an end.
    pub fn end(&self) -> Option<Instant> {
        self.end
    }

    pub(crate) fn note_end(&mut self, now: Instant) {
        if self.end.is_none() && self.config.bytes.is_some_and(|all| self.receiver.readable >= all)
        {
            self.end = Some(now);
        }
    }
}
