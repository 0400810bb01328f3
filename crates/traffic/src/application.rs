//! Applications, and the way that their data takes.

use fullpipe_cc::{Duration, Rate};

use crate::Media;

/// The data that an application has to send, and its timing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Application {
    /// Data without an end.
    Bulk,
    /// This many bytes, all there from the start.
    Bytes(u64),
    /// `write_bytes` at a time, at this rate: a video stream, or telemetry.
    RateLimited {
        /// Application bytes per second.
        rate: Rate,
        /// Bytes of one write.
        write_bytes: u64,
    },
    /// Data without an end for `on`, then none for `off`, and so on.
    OnOff {
        /// Duration of a period with data.
        on: Duration,
        /// Duration of a period without data.
        off: Duration,
    },
    /// The receiver asks with a small packet; the sender answers with `response_bytes`; the
    /// receiver asks again `think` after the last byte.
    RequestResponse {
        /// Bytes of one answer.
        response_bytes: u64,
        /// Time between an answer and the next request.
        think: Duration,
    },
    /// Connections of `bytes` each, every one with a controller of its own, that start at random
    /// times: a Poisson process.
    ShortFlows {
        /// Bytes of one connection.
        bytes: u64,
        /// The mean time between two starts.
        mean_interval: Duration,
    },
    /// Frames of live media, in one stream.
    Media(Media),
}

impl Application {
    /// True if it opens many connections, each of which has an end.
    pub fn has_many_connections(self) -> bool {
        matches!(self, Self::ShortFlows { .. })
    }

    /// The bytes of one of its connections, if they have an end.
    pub fn connection_bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) | Self::ShortFlows { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// True if it has something to complete again and again: answers, connections or frames.
    pub fn completes(self) -> bool {
        matches!(self, Self::RequestResponse { .. } | Self::ShortFlows { .. } | Self::Media(_))
    }

    /// True if it matters to it what its receiver has read: see [`Traffic::on_read`].
    ///
    /// [`Traffic::on_read`]: crate::Traffic::on_read
    pub fn heeds_reading(self) -> bool {
        matches!(self, Self::Bytes(_) | Self::RequestResponse { .. } | Self::Media(_))
    }

    /// True if it has to be told of the sender before each of its steps: see
    /// [`Traffic::on_sender`].
    ///
    /// [`Traffic::on_sender`]: crate::Traffic::on_sender
    pub fn heeds_sender(self) -> bool {
        matches!(self, Self::Media(_))
    }

    /// True if it asks the sender for probes of the bandwidth: see [`Traffic::wanted_rate`].
    ///
    /// [`Traffic::wanted_rate`]: crate::Traffic::wanted_rate
    pub fn probes(self) -> bool {
        matches!(self, Self::Media(media) if media.adapt.is_some_and(|adapt| adapt.probe))
    }

    /// True if its data is there at certain times, whether or not the transport takes it then. The
    /// others write whenever there is room.
    pub fn writes_at_times(self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::RequestResponse { .. } | Self::Media(_))
    }
}

/// The way that a flow's data takes, or a packet. Its number is its place where both have one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Over the links, from the server to the client; ACKs come back over the uplink.
    #[default]
    Down = 0,
    /// Over the uplink; ACKs come back over all links.
    Up = 1,
}

impl Direction {
    /// Both, in the order of their numbers.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];
}
