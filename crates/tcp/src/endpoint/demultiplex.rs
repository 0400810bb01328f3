//! Segments find their connection, their listener, or a reset.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fullpipe_cc::Instant;

use super::{Endpoint, Ends, MAX_REPLIES};
use crate::connection::Connection;
use crate::options::Options;
use crate::wire::{self, Control, Header, Segment, TooBig};

impl Endpoint {
    /// Takes in an IP packet. What is neither a TCP segment nor an ICMP message that one was too
    /// big, or is damaged, is passed by; that it is for this endpoint's address is the caller's
    /// affair.
    pub fn receive(&mut self, now: Instant, packet: &[u8]) {
        if let Some(segment) = wire::parse(packet) {
            self.on_segment(now, &segment);
        } else if let Some(too_big) = wire::parse_too_big(packet) {
            self.on_too_big(now, too_big);
        }
    }

    fn on_too_big(&mut self, now: Instant, said: TooBig) {
        let Some(&index) = self.by_ends.get(&Ends::new(said.from, said.to)) else { return };
        if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
            connection.on_too_big(now, said.seq, said.mtu);
            self.touch(index);
        }
    }

    fn on_segment(&mut self, now: Instant, segment: &Segment<'_>) {
        let listener = self.listener_at(segment.to);
        // Nothing gives way to a SYN that nobody takes.
        if let Some(&index) = self.by_ends.get(&Ends::new(segment.to, segment.from))
            && (listener.is_none() || !self.begins_anew(index, &segment.header))
        {
            return self.on_known(now, index, segment);
        }
        match listener {
            Some(id) => self.arrive_in_listen(now, id, segment),
            None => self.refuse(segment),
        }
    }

    /// A SYN for a connection in TIME-WAIT that opens a new one: the old one makes room for it.
    fn begins_anew(&mut self, index: u32, header: &Header) -> bool {
        let slot = &self.slots[index as usize];
        let begins = match (&slot.connection, &slot.late) {
            _ if header.control != Control::Syn => false,
            (Some(connection), _) => connection.may_begin_anew(header),
            (None, Some(late)) => late.may_begin_anew(header),
            (None, None) => false,
        };
        if begins {
            self.end_waiting(index);
        }
        begins
    }

    fn on_known(&mut self, now: Instant, index: u32, segment: &Segment<'_>) {
        let slot = &mut self.slots[index as usize];
        if let Some(connection) = slot.connection.as_deref_mut() {
            connection.on_segment(now, segment);
            return self.touch(index);
        }
        let Some(late) = slot.late.as_deref_mut() else { return };
        let answer = late.on_segment(now, segment);
        let at = late.close_at();
        self.set_timer(index, Some(at));
        if let Some(header) = answer.filter(|_| self.replies.len() < MAX_REPLIES) {
            self.replies.push_back((segment.to, segment.from, header));
        }
    }

    fn listener_at(&self, to: SocketAddr) -> Option<u64> {
        let any = match to.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut places = [to.ip(), any].into_iter().map(|ip| (ip, to.port()));
        places.find_map(|place| self.listening.get(&place).copied())
    }

    /// RFC 9293 section 3.10.7.2.
    fn arrive_in_listen(&mut self, now: Instant, id: u64, segment: &Segment<'_>) {
        let header = &segment.header;
        match (header.control, header.ack) {
            (Control::Rst, _) => {}
            // An answer to a SYN that this end never sent; it opens no cookie either.
            (Control::Syn, Some(_)) => self.refuse(segment),
            (_, Some(_)) => self.arrive_ack(now, id, segment),
            (Control::Syn, None) => self.arrive_syn(now, id, segment),
            _ => {}
        }
    }

    fn arrive_syn(&mut self, now: Instant, id: u64, segment: &Segment<'_>) {
        let Some(listener) = self.listeners.get(&id) else { return };
        let config = listener.config;
        if listener.may_keep_syn() {
            let seeds = self.seeds(now, segment.to, segment.from);
            let connection = Connection::accept(now, segment, &config, seeds);
            if self.insert_half_open(connection, id).is_some() {
                return;
            }
        }
        self.send_cookie(now, id, segment);
    }

    fn insert_half_open(&mut self, connection: Connection, id: u64) -> Option<u32> {
        let index = self.insert(connection, Some(id), false)?.index;
        self.slots[index as usize].is_half_open = true;
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.on_half_open(index);
        }
        Some(index)
    }

    /// Answers a SYN without remembering it.
    fn send_cookie(&mut self, now: Instant, id: u64, segment: &Segment<'_>) {
        if self.replies.len() >= MAX_REPLIES {
            return;
        }
        let (local, remote, syn) = (segment.to, segment.from, &segment.header);
        let Some(listener) = self.listeners.get_mut(&id).filter(|listener| listener.has_room())
        else {
            return;
        };
        listener.on_cookie(now);
        let offered = Options::offered(&listener.config, remote);
        let mss = syn.mss.map_or(offered.mss, u32::from).min(u32::from(u16::MAX)) as u16;
        let header = Header {
            seq: self.secret.cookie(now, local, remote, syn.seq, mss),
            ack: Some(syn.seq.wrapping_add(1)),
            control: Control::Syn,
            window: listener.config.first_window(),
            mss: Some(offered.own_mss),
            ..Header::default()
        };
        self.replies.push_back((local, remote, header));
    }

    /// An ACK that belongs to no connection: it may be the answer to a cookie. One for which there
    /// is no room now is dropped: the client sends again, and may find some.
    fn arrive_ack(&mut self, now: Instant, id: u64, segment: &Segment<'_>) {
        let (local, remote, header) = (segment.to, segment.from, &segment.header);
        let Some(listener) = self.listeners.get(&id) else { return };
        let (config, has_room) = (listener.config, listener.has_room());
        let numbers = header.ack.filter(|_| listener.expects_cookie(now));
        let opened = numbers.and_then(|ack| {
            let (cookie, peer) = (ack.wrapping_sub(1), header.seq.wrapping_sub(1));
            Some((cookie, self.secret.open(now, local, remote, peer, cookie)?))
        });
        let Some((isn, mss)) = opened else { return self.refuse(segment) };
        if !has_room {
            return;
        }
        let seeds = crate::Seeds { isn, ..self.seeds(now, local, remote) };
        let connection = Connection::from_cookie(now, segment, mss, &config, seeds);
        let Some(index) = self.insert_half_open(connection, id) else { return };
        if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
            connection.on_segment(now, segment);
        }
        self.touch(index);
    }

    /// RFC 9293 section 3.10.7.1: there is no such connection.
    fn refuse(&mut self, segment: &Segment<'_>) {
        let header = &segment.header;
        if header.control == Control::Rst || self.replies.len() >= MAX_REPLIES {
            return;
        }
        let (seq, ack) = match header.ack {
            Some(ack) => (ack, None),
            None => (0, Some(header.seq.wrapping_add(segment.len()))),
        };
        let header = Header { seq, ack, control: Control::Rst, ..Header::default() };
        self.replies.push_back((segment.to, segment.from, header));
    }
}
