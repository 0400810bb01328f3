//! Segments find their connection, their listener, or a reset.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fullpipe_cc::{Duration, Instant};

use super::cookie::Secret;
use super::fast_open::Decision;
use super::{Endpoint, Ends};
use crate::connection::{Connection, clock_at};
use crate::options::Options;
use crate::wire::{self, Complaint, Control, Header, Segment, Timestamp};

impl Endpoint {
    /// Takes in an IP packet. What is neither a TCP segment nor an ICMP message about one is passed
    /// by, as [`wire::parse`] and [`wire::parse_icmp`] say; that it is for this endpoint's address
    /// is the caller's affair.
    pub fn receive(&mut self, now: Instant, packet: &[u8]) {
        self.receive_after(now, Duration::ZERO, packet);
    }

    /// As [`Self::receive`], of a packet that arrived at the network interface `in_host` ago: by
    /// that much the host was late, of which the peer is told with
    /// [`Config::receiver_delay`](crate::Config::receiver_delay).
    pub fn receive_after(&mut self, now: Instant, in_host: Duration, packet: &[u8]) {
        if let Some(segment) = wire::parse(packet) {
            self.on_segment(now, &Segment { in_host, ..segment });
        } else if let Some(complaint) = wire::parse_icmp(packet) {
            self.counters.icmp_in += 1;
            self.on_complaint(now, complaint);
        } else {
            self.counters.packets_unread += 1;
        }
    }

    fn on_complaint(&mut self, now: Instant, said: Complaint) {
        let Some(&index) = self.by_ends.get(&Ends::new(said.from, said.to)) else { return };
        if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
            connection.on_icmp(now, said.seq, said.cause);
            self.note_fast_open(now, index);
            self.touch(index);
        }
    }

    pub(super) fn on_segment(&mut self, now: Instant, segment: &Segment<'_>) {
        self.counters.segments_in += u64::from(segment.packets);
        self.counters.resets_in += u64::from(segment.header.control == Control::Rst);
        let ends = Ends::new(segment.to, segment.from);
        let listener = self.listener_at(segment.to);
        // Nothing gives way to a SYN that nobody takes.
        if listener.is_some() && self.begins_anew(&ends, &segment.header) {
            self.counters.time_waits_cut += 1;
            self.end_time_wait(&ends);
        } else if let Some(&index) = self.by_ends.get(&ends) {
            if !segment.payload.is_empty() {
                self.make_room(now);
                self.tell_of_memory(index);
            }
            if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
                connection.on_segment(now, segment);
                self.note_fast_open(now, index);
                self.touch(index);
            }
            return;
        } else if let Some(late) = self.time_wait.get_mut(&ends) {
            if let Some(header) = late.on_segment(now, segment) {
                self.reply(segment, header);
            }
            return;
        }
        match listener {
            Some(id) => self.arrive_in_listen(now, id, segment),
            None => self.refuse(segment),
        }
    }

    /// True for a SYN that opens a new connection in place of one in TIME-WAIT.
    fn begins_anew(&self, ends: &Ends, header: &Header) -> bool {
        if header.control != Control::Syn {
            return false;
        }
        match (self.by_ends.get(ends), self.time_wait.get(ends)) {
            (Some(&index), _) => {
                let connection = self.slots[index as usize].connection.as_ref();
                connection.is_some_and(|connection| connection.may_begin_anew(header))
            }
            (None, Some(late)) => late.may_begin_anew(header),
            (None, None) => false,
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
            let decision = self.decide_fast_open(now, id, &config, segment);
            let seeds = self.seeds(now, segment.to, segment.from);
            let mut connection = Connection::accept(now, segment, &config, seeds);
            let kept = match decision {
                Decision::Ignore => self.insert_half_open(connection, id),
                Decision::Give(cookie) => {
                    connection.answer_fast_open(Some(cookie));
                    self.insert_half_open(connection, id)
                }
                Decision::Take(cookie) => {
                    connection.answer_fast_open(cookie);
                    connection.take_early(now, segment);
                    self.insert_early(connection, id)
                }
            };
            if kept.is_some() {
                return;
            }
        }
        self.send_cookie(now, id, segment);
    }

    /// A connection that transfers data before its handshake is over.
    fn insert_early(&mut self, connection: Connection, id: u64) -> Option<u32> {
        let handle = self.insert(connection, Some(id), false)?;
        self.counters.passive_opens += 1;
        self.counters.fast_opens += 1;
        self.slots[handle.index as usize].early_at = Some(id);
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.on_early(handle);
        }
        Some(handle.index)
    }

    fn insert_half_open(&mut self, connection: Connection, id: u64) -> Option<u32> {
        let index = self.insert(connection, Some(id), false)?.index;
        self.counters.passive_opens += 1;
        self.slots[index as usize].is_half_open = true;
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.on_half_open(index);
        }
        Some(index)
    }

    /// Answers a SYN without remembering it.
    fn send_cookie(&mut self, now: Instant, id: u64, segment: &Segment<'_>) {
        let (local, remote, syn) = (segment.to, segment.from, &segment.header);
        let Some(listener) = self.listeners.get_mut(&id).filter(|listener| listener.has_room())
        else {
            self.counters.syns_dropped += 1;
            return;
        };
        listener.on_cookie(now);
        let config = listener.config;
        let mut options = Options::offered(&config, remote);
        let mss = syn.mss.map_or(options.mss, u32::from).min(u32::from(u16::MAX)) as u16;
        options.agree(syn);
        // Accurate feedback is not remembered, and classic feedback would not be what a SYN that is
        // kept agreed to (RFC 9768 section 3.1.5).
        options.ecn &= !options.accurate_ecn;
        let clock = clock_at(self.secret.clock(local, remote), now);
        // Without a timestamp there is no place for what both ends have.
        let timestamp = syn.timestamp.filter(|_| options.timestamps).map(|timestamp| Timestamp {
            value: Secret::stamp(clock, &options, syn.window_scale),
            echo: timestamp.value,
        });
        let has_stamp = timestamp.is_some();
        let header = Header {
            seq: self.secret.cookie(now, local, remote, syn.seq, mss),
            ack: Some(syn.seq.wrapping_add(1)),
            control: Control::Syn,
            ece: has_stamp && options.ecn,
            window: config.first_window(),
            mss: Some(options.own_mss),
            window_scale: (has_stamp && options.window_scaling).then_some(options.receive_scale),
            sack_permitted: has_stamp && options.sack,
            timestamp,
            ..Header::default()
        };
        self.counters.cookies_sent += 1;
        self.reply(segment, header);
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
        let Some((isn, mss)) = opened else {
            self.counters.cookies_refused += u64::from(numbers.is_some());
            return self.refuse(segment);
        };
        if !has_room {
            return;
        }
        let seeds = crate::Seeds { isn, ..self.seeds(now, local, remote) };
        let timestamp = header.timestamp.filter(|_| config.timestamps);
        let options = timestamp.map_or(Header::default(), |t| Secret::syn_of(t.echo));
        let syn = Header { mss: Some(mss), timestamp, ..options };
        let connection = Connection::from_cookie(now, segment, &syn, &config, seeds);
        let Some(index) = self.insert_half_open(connection, id) else { return };
        self.counters.cookies_accepted += 1;
        if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
            connection.on_segment(now, segment);
        }
        self.touch(index);
    }

    /// RFC 9293 section 3.10.7.1: there is no such connection.
    fn refuse(&mut self, segment: &Segment<'_>) {
        let header = &segment.header;
        if header.control == Control::Rst {
            return;
        }
        let (seq, ack) = match header.ack {
            Some(ack) => (ack, None),
            None => (0, Some(header.seq.wrapping_add(segment.len()))),
        };
        self.reply(segment, Header { seq, ack, control: Control::Rst, ..Header::default() });
    }
}
