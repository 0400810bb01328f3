//! TCP Fast Open (RFC 7413): data in a SYN, and in what follows on it before the handshake is over.

use fullpipe_cc::Instant;

use super::{Connection, State};
use crate::options::TCP_HEADER;
use crate::receiver::Span;
use crate::wire::{FastOpen, Header, Segment};

/// News of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FastOpenNews {
    /// A cookie for the next connections, and the segment size that the server asked for (section
    /// 4.1.3).
    Cookie { cookie: FastOpen, mss: u16 },
    /// A SYN with a cookie was answered, whether its data was taken or not: such SYNs arrive.
    Answered,
    /// The server answered, and gave no cookie (section 4.1.3.1).
    Refused,
    /// No answer came until a SYN left without data, or to the end: a loss, or something on the
    /// path that drops such SYNs (section 4.1.3.1).
    Lost,
}

/// The state of Fast Open at either end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// The option of the SYN, or of the SYN-ACK.
    option: Option<FastOpen>,
    /// The segment size that a cookie came with.
    mss: u16,
    /// Bytes of data that left in a SYN.
    sent: u64,
    /// Server: bytes of data that were taken from a SYN.
    pub(super) taken: u64,
    /// Server: the connection transfers data before its handshake is over.
    is_early: bool,
    /// Client: the SYN-ACK acknowledged data.
    is_acked: bool,
    /// Client: for the endpoint.
    news: Option<FastOpenNews>,
}

impl Opening {
    /// True if data of a SYN was taken.
    pub(super) fn has_data(&self) -> bool {
        self.is_acked || self.taken > 0
    }
}

impl Connection {
    /// The SYN, which has not left, has this option: the request for a cookie, or a cookie and
    /// data, of which a segment of `mss` bytes has room for.
    pub(crate) fn offer_fast_open(&mut self, option: FastOpen, mss: u16) {
        (self.opening.option, self.opening.mss) = (Some(option), mss);
    }

    /// A SYN came for a listener: its SYN-ACK has this option, if there is one.
    pub(crate) fn answer_fast_open(&mut self, option: Option<FastOpen>) {
        self.opening.option = option;
    }

    /// The SYN had a cookie of this end's: its data is the application's from now on, which may
    /// answer it before the handshake is over (section 4.2.2).
    pub(crate) fn take_early(&mut self, now: Instant, syn: &Segment<'_>) {
        self.opening.is_early = true;
        let start = self.receive.next();
        let room = self.receive.edge().saturating_sub(start) as usize;
        let data = &syn.payload[..syn.payload.len().min(room)];
        self.receive.take(start, data, false);
        self.opening.taken = self.receive.next() - start;
        self.counts.bytes_received += self.opening.taken;
        self.recent.last_ack = self.receive.next();
        self.begin(now);
    }

    /// True if data is transferred although the handshake is not over.
    pub(crate) fn is_early(&self) -> bool {
        self.opening.is_early && self.state == State::SynReceived
    }

    /// True if the application may write although the handshake is not over: the SYN, or what
    /// follows on a SYN, has the data.
    pub(super) fn writes_early(&self) -> bool {
        match self.state {
            State::SynSent => self.config.fast_open,
            State::SynReceived => self.opening.is_early,
            _ => false,
        }
    }

    /// True if the transfer's state, which `begin` makes, is there before the handshake is over.
    pub(super) fn has_begun_early(&self) -> bool {
        self.opening.is_early
    }

    /// Puts the option into a SYN or SYN-ACK; the data that leaves with it. A SYN that is sent
    /// again has neither (section 4.2.1), and a SYN-ACK has no data then.
    pub(super) fn put_fast_open(&mut self, answers: bool, header: &mut Header) -> Span {
        let start = self.send.iss + 1;
        let none = Span { start, end: start };
        if answers && !self.is_passive {
            // Both ends open at the same time; this end's cookie is the peer's own.
            return none;
        }
        let is_first = self.syns == 0;
        let Some(option) = self.opening.option.filter(|_| is_first || answers) else {
            return if answers && is_first { self.early_data(header) } else { none };
        };
        header.fast_open = Some(option);
        header.leave_out_excess();
        if answers {
            return if is_first { self.early_data(header) } else { none };
        }
        if option.is_request() {
            return none;
        }
        let mss = u32::from(self.opening.mss.min(self.options.own_mss));
        let room = (mss + TCP_HEADER).saturating_sub(header.bytes() as u32);
        let end = self.data.end().min(start + u64::from(room)).max(start);
        self.opening.sent = end - start;
        // The peer may take it, although it counts as never sent until it does.
        self.send.probe_end = self.send.probe_end.max(end);
        Span { start, end }
    }

    /// Data that was written before a SYN-ACK left.
    fn early_data(&self, header: &Header) -> Span {
        let start = self.send.iss + 1;
        let none = Span { start, end: start };
        if !self.opening.is_early {
            return none;
        }
        let room = u64::from(self.options.mss + TCP_HEADER).saturating_sub(header.bytes() as u64);
        let end = self.data.end().min(start + room).min(self.send.edge);
        Span { start, end: end.max(start) }
    }

    /// True if `ack` acknowledges the SYN, and nothing that never left with it.
    pub(super) fn acknowledges_syn(&self, ack: u64) -> bool {
        self.send.iss < ack && ack <= self.send.nxt.max(self.send.probe_end)
    }

    /// The peer has acknowledged the SYN and its data up to `ack`. The rest of the data counts as
    /// never sent, and leaves at once (section 4.2.1).
    pub(super) fn note_syn_acked(&mut self, ack: u64) {
        let start = self.send.iss + 1;
        self.counts.bytes_acked += ack - start;
        self.data.acknowledge(ack);
        (self.send.una, self.send.nxt) = (ack, self.send.nxt.max(ack));
    }

    /// The SYN-ACK of a server came, `header`.
    pub(super) fn note_syn_ack(&mut self, header: &Header) {
        let Some(asked) = self.opening.option else { return };
        let given = header.fast_open.filter(|cookie| !cookie.is_request());
        self.opening.is_acked = self.opening.sent > 0 && self.send.una > self.send.iss + 1;
        let is_silent = self.syns > 1 && !self.opening.is_acked;
        self.opening.news = match given {
            Some(cookie) => Some(FastOpenNews::Cookie {
                cookie,
                mss: header.mss.unwrap_or(self.options.mss as u16),
            }),
            None if is_silent => Some(FastOpenNews::Lost),
            None if asked.is_request() => Some(FastOpenNews::Refused),
            None => Some(FastOpenNews::Answered),
        };
    }

    /// The server did not answer at all, or a router refused what was sent (section 4.1.3.1).
    pub(super) fn note_no_answer(&mut self) {
        if self.state == State::SynSent && self.opening.sent > 0 {
            self.opening.news = Some(FastOpenNews::Lost);
        }
    }

    /// The news of this end's server, once.
    pub(crate) fn take_fast_open_news(&mut self) -> Option<FastOpenNews> {
        self.opening.news.take()
    }
}
