//! One segment that was sent, and what an ACK says of it.

use fullpipe_cc::{AckBatch, Instant, PacketState};

use crate::rack::Rack;
use crate::receiver::Span;

/// A segment that was sent and is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) span: Span,
    /// The last place is a FIN.
    pub(crate) fin: bool,
    /// It is larger than what the path is known to carry (RFC 8899): its loss is no congestion.
    pub(crate) is_probe: bool,
    pub(crate) retransmitted: bool,
    /// Its newest transmission is the repair of a loss, and no probe.
    pub(crate) is_repair: bool,
    pub(crate) sacked: bool,
    pub(crate) lost: bool,
    /// It was SACKed and the peer threw it away (RFC 2018 section 8): the controller was told of
    /// its arrival, and knows of no transmission since.
    pub(crate) is_reneged: bool,
    /// The number of its newest transmission.
    pub(crate) order: u64,
    pub(crate) state: PacketState,
}

impl Sent {
    /// The time of its newest transmission.
    pub(crate) fn time(&self) -> Instant {
        self.state.send_time()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.span.end - self.span.start
    }
}

/// Losses that were found at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
}

/// The news of an ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Bytes that were delivered, and the segments that these were in.
    pub(crate) bytes: u64,
    pub(crate) segments: u64,
    /// The number of the newest transmission among these; 0 if there is none.
    pub(crate) newest_order: u64,
    /// The departure of the oldest and the newest of the segments that arrived and were sent once.
    pub(crate) oldest_once: Option<Instant>,
    pub(crate) newest_once: Option<Instant>,
    /// The end of the first segment that arrived and was sent once.
    pub(crate) first_original: Option<u64>,
    /// The newest departure of the segments that arrived and were sent more than once.
    pub(crate) repeated: Option<Instant>,
    /// The departure of the first segment, if it was the repair of a loss.
    pub(crate) head_repair: Option<Instant>,
    /// The original of a segment arrived that was held to be lost and sent again.
    pub(crate) late_original: bool,
}

/// A segment has arrived that was not known to. One that had arrived before and was thrown away
/// says nothing of the path.
pub(crate) fn arrive(sent: &Sent, news: &mut News, rack: &mut Rack, batch: &mut AckBatch<'_>) {
    if sent.is_reneged {
        return;
    }
    if sent.lost {
        batch.acked_after_loss(&sent.state);
    } else {
        batch.acked(&sent.state);
    }
    news.bytes += sent.bytes();
    news.segments += 1;
    news.newest_order = news.newest_order.max(sent.order);
    if !sent.retransmitted {
        let (time, end) = (sent.time(), sent.span.end);
        news.first_original = Some(news.first_original.map_or(end, |first| first.min(end)));
        news.oldest_once = Some(news.oldest_once.map_or(time, |t| t.min(time)));
        news.newest_once = Some(news.newest_once.map_or(time, |t| t.max(time)));
    }
    if sent.retransmitted {
        news.repeated = news.repeated.max(Some(sent.time()));
    }
    news.late_original |= rack.on_arrival(sent) && sent.is_repair;
}
