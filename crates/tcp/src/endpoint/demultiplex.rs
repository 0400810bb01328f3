//! Segments find their connection, their listener, or a reset.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fullpipe_cc::Instant;

use super::{Endpoint, Handle, MAX_REPLIES};
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
        let Some(&index) = self.by_ends.get(&(said.from, said.to)) else { return };
        if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
            connection.on_too_big(now, said.seq, said.mtu);
        }
        self.touch(index);
    }

    fn on_segment(&mut self, now: Instant, segment: &Segment<'_>) {
        let is_syn = segment.header.control == Control::Syn;
        if let Some(&index) = self.by_ends.get(&(segment.to, segment.from)) {
            let connection = self.slots[index as usize].connection.as_deref_mut();
            let begins = connection
                .as_ref()
                .is_some_and(|connection| is_syn && connection.may_begin_anew(&segment.header));
            if !begins {
                if let Some(connection) = connection {
                    connection.on_segment(now, segment);
                }
                return self.touch(index);
            }
            self.remove(index);
        }
        match self.listener_at(segment.to) {
            Some(at) => self.arrive_in_listen(now, at, segment),
            None => self.refuse(segment),
        }
    }

    fn listener_at(&self, to: SocketAddr) -> Option<SocketAddr> {
        let any = match to.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut places = [to, SocketAddr::new(any, to.port())].into_iter();
        places.find(|at| self.listeners.contains_key(at))
    }

    /// RFC 9293 section 3.10.7.2.
    fn arrive_in_listen(&mut self, now: Instant, at: SocketAddr, segment: &Segment<'_>) {
        let header = &segment.header;
        match (header.control, header.ack) {
            (Control::Rst, _) => {}
            (_, Some(_)) => {
                let opened = self.open_cookie(now, at, segment);
                if opened.is_none() {
                    self.refuse(segment);
                }
            }
            (Control::Syn, None) => self.arrive_syn(now, at, segment),
            _ => {}
        }
    }

    fn arrive_syn(&mut self, now: Instant, at: SocketAddr, segment: &Segment<'_>) {
        let Some(listener) = self.listeners.get(&at) else { return };
        let config = listener.config;
        if listener.may_keep_syn() {
            let seeds = self.seeds(now, segment.to, segment.from);
            let connection = Connection::accept(now, segment, &config, seeds);
            if let Some(handle) = self.insert(connection, Some(at)) {
                self.slots[handle.index as usize].is_half_open = true;
                if let Some(listener) = self.listeners.get_mut(&at) {
                    listener.on_half_open();
                }
                return;
            }
        }
        self.send_cookie(now, at, segment);
    }

    /// Answers a SYN without remembering it.
    fn send_cookie(&mut self, now: Instant, at: SocketAddr, segment: &Segment<'_>) {
        if self.replies.len() >= MAX_REPLIES {
            return;
        }
        let (local, remote, syn) = (segment.to, segment.from, &segment.header);
        let Some(listener) = self.listeners.get_mut(&at).filter(|listener| listener.has_room())
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

    /// An ACK that may be the answer to a cookie.
    fn open_cookie(
        &mut self,
        now: Instant,
        at: SocketAddr,
        segment: &Segment<'_>,
    ) -> Option<Handle> {
        let listener = self.listeners.get(&at)?;
        if !listener.expects_cookie(now) || !listener.has_room() {
            return None;
        }
        let config = listener.config;
        let (local, remote, header) = (segment.to, segment.from, &segment.header);
        let (cookie, peer) = (header.ack?.wrapping_sub(1), header.seq.wrapping_sub(1));
        let mss = self.secret.open(now, local, remote, peer, cookie)?;
        let seeds = crate::Seeds { isn: cookie, ..self.seeds(now, local, remote) };
        let connection = Connection::from_cookie(now, segment, mss, &config, seeds);
        let handle = self.insert(connection, Some(at))?;
        let slot = &mut self.slots[handle.index as usize];
        slot.is_half_open = true;
        if let Some(connection) = slot.connection.as_deref_mut() {
            connection.on_segment(now, segment);
        }
        if let Some(listener) = self.listeners.get_mut(&at) {
            listener.on_half_open();
        }
        self.touch(handle.index);
        Some(handle)
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
