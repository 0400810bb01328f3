//! ICMP errors: reports of routers and of the peer's host about packets that did not arrive.

use fullpipe_cc::Instant;

use super::{Connection, State};
use crate::config::Error;
use crate::options::TCP_HEADER;
use crate::seq;
use crate::wire::{self, Cause};

impl Connection {
    /// An ICMP message about a packet of this connection that began at `seq`. Messages that are of
    /// nothing under way are forged (RFC 5927 section 4.1, RFC 8899 section 4.6.1).
    ///
    /// Hard errors end a connection in SYN-SENT alone. Later they may be forged by whoever guesses
    /// a sequence number, and count as soft ones (RFC 5927 section 5.2, RFC 9293 section 3.9.2.2).
    pub(crate) fn on_icmp(&mut self, now: Instant, seq: u32, cause: Cause) {
        let place = seq::place(self.send.una, seq);
        if place < self.send.una || place >= self.send.nxt {
            return;
        }
        match cause {
            Cause::TooBig(mtu) => self.on_too_big(now, mtu),
            Cause::Hard(error) if self.state == State::SynSent => {
                self.note_no_answer();
                self.end(Some(error));
            }
            Cause::Hard(error) | Cause::Soft(error) => self.soft_error = Some(error),
        }
    }

    /// The reason that a router gave last for not passing on a packet. It is forgotten when the
    /// peer acknowledges something; a connection that times out ends with it (RFC 9293 section
    /// 3.9.2.2).
    pub fn soft_error(&self) -> Option<Error> {
        self.soft_error
    }

    /// A router passes on IP packets of `mtu` bytes at most (RFC 1191, RFC 8201).
    fn on_too_big(&mut self, now: Instant, mtu: u32) {
        let headers = wire::ip_header_bytes(self.remote.ip()) as u32 + TCP_HEADER;
        if !self.config.mtu_discovery
            || !self.state.is_synchronized()
            || !self.mtu.on_too_big(now, mtu.saturating_sub(headers))
        {
            return;
        }
        self.on_mtu(now);
        let payload = self.payload();
        let mut batch = self.cc.ack(now);
        self.flight.lose_larger(payload, &mut batch);
        batch.finish();
    }
}
