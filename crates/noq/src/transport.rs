//! The few numbers of noq's transport that this project sets; all others are noq's defaults.

use std::sync::Arc;

use fullpipe_cc::Duration;
use noq::{IdleTimeout, TransportConfig, VarInt};

use crate::{CongestionControl, Controllers};

/// Flow control and timeouts of one endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransportSettings {
    /// Bytes that the peer may send on one stream beyond what the application has read.
    ///
    /// 2.3 MB, because noq's receiver ends the connection with "too many gaps" once it holds 2048
    /// pieces of a stream: behind a hole, or behind an application that pauses. A QUIC packet has
    /// 1200 bytes or more, of which at least 1150 are data, so these are 2000 pieces at most.
    /// With packets that are known to be larger, 2.5 MB are as safe. The price: one stream carries
    /// no more than its window a round trip, 460 Mbit/s at 40 ms.
    pub stream_receive_window: u32,
    /// Bytes that the peer may send on all streams together beyond what was read: 64 MB, so that
    /// one stream's window is what counts and not this.
    pub receive_window: u32,
    /// Bytes written but not yet acknowledged that noq holds for one connection: 64 MB, more than
    /// any path here has in flight, so that congestion control alone limits the sender.
    pub send_window: u64,
    /// Silence after which a connection is lost: 30 s (RFC 9308 section 3.2).
    pub idle_timeout: Duration,
    /// Silence after which this end sends a PING to keep the connection. `None`, the default, lets
    /// it end; a reader that may pause for longer than the idle timeout wants less than that.
    pub keep_alive: Option<Duration>,
    /// The RTT that is assumed before one was measured, for the timers of the handshake. `None`,
    /// the default, is noq's 333 ms (RFC 9002 section 6.2.2). Where handshake packets are lost,
    /// less saves much time.
    pub initial_rtt: Option<Duration>,
    /// Bytes of a full datagram on a path that is known to take them, 1200 or more. `None`, the
    /// default, begins with 1200 and searches for more (RFC 8899).
    pub datagram_bytes: Option<u16>,
}

impl Default for TransportSettings {
    fn default() -> Self {
        Self {
            stream_receive_window: 2_300_000,
            receive_window: 64_000_000,
            send_window: 64_000_000,
            idle_timeout: Duration::from_secs(30),
            keep_alive: None,
            initial_rtt: None,
            datagram_bytes: None,
        }
    }
}

impl TransportSettings {
    /// These settings for noq, with a congestion control; `seed` determines the randomised probe
    /// times of our algorithms.
    pub fn noq(&self, congestion: CongestionControl, seed: u64) -> TransportConfig {
        let idle_ms = VarInt::from_u64(self.idle_timeout.as_nanos() / 1_000_000);
        let mut config = TransportConfig::default();
        config
            .stream_receive_window(VarInt::from_u32(self.stream_receive_window))
            .receive_window(VarInt::from_u32(self.receive_window))
            .send_window(self.send_window)
            .max_idle_timeout(Some(IdleTimeout::from(idle_ms.unwrap_or(VarInt::MAX))))
            .keep_alive_interval(self.keep_alive.map(Into::into))
            .congestion_controller_factory(Arc::new(Controllers::new(congestion).with_seed(seed)));
        if let Some(rtt) = self.initial_rtt {
            config.initial_rtt(rtt.into());
        }
        if let Some(bytes) = self.datagram_bytes {
            // Nor after losses that noq takes for those of a smaller path.
            config.min_mtu(bytes).initial_mtu(bytes).mtu_discovery_config(None);
        }
        config
    }
}
