//! One end of one connection.

mod acknowledge;
mod arrive;
mod batch;
mod burst;
pub(crate) mod ecn;
mod fast_open;
mod icmp;
mod info;
mod interface;
mod late;
mod timers;
mod transmit;

use core::net::SocketAddr;

use fullpipe_cc::{Controller, Duration, Instant, Prr, Transport};

use crate::acks::Acks;
use crate::autotune::Autotune;
use crate::config::{Config, Error};
use crate::endpoint::Ends;
use crate::flight::Flight;
use crate::options::Options;
use crate::path_mtu::PathMtu;
use crate::rack::Rack;
use crate::receiver::{Receiver, SMALL_WINDOW};
use crate::recovery::{Recovery, before};
use crate::rtt::{Rtt, is_round_trip};
use crate::send_buffer::SendBuffer;
use crate::seq;
use crate::wire::{Header, Segment};
use ecn::Marks;
use fast_open::Opening;

pub(crate) use fast_open::FastOpenNews;
pub use info::Info;
pub(crate) use late::Late;
pub(crate) use timers::clock_at;

/// TS.Recent counts for as long (RFC 7323 section 5.5).
const RECENT_VALID: Duration = Duration::from_secs(24 * 24 * 3600);

/// Bytes of memory that a connection may have without a use for them.
const KEPT: usize = 4096;

/// A state of RFC 9293 section 3.3.2. LISTEN is a matter of the endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// SYN-SENT: a SYN left, none came.
    SynSent,
    /// SYN-RECEIVED: a SYN left and one came.
    SynReceived,
    /// ESTABLISHED.
    Established,
    /// CLOSE-WAIT: the peer sends no more.
    CloseWait,
    /// FIN-WAIT-1: this end sends no more, and the peer has not acknowledged that.
    FinWait1,
    /// FIN-WAIT-2: this end sends no more.
    FinWait2,
    /// CLOSING: both ends closed at the same time.
    Closing,
    /// LAST-ACK: both closed, the peer first; its ACK is missing.
    LastAck,
    /// TIME-WAIT: both closed; late segments are answered.
    TimeWait,
    /// CLOSED.
    Closed,
}

impl State {
    /// True if both SYNs are acknowledged.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }
}

/// The random numbers that a connection begins with.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The initial sequence number (RFC 6528).
    pub isn: u32,
    /// This end's clock of timestamps when the connection's own is 0 (RFC 7323 section 5.4).
    pub clock: u32,
    /// The seed of the congestion control.
    pub cc: u64,
}

/// The sequence variables of the sending side (RFC 9293 section 3.3.1), as places.
#[derive(Clone, Copy, Debug)]
struct Send {
    /// ISS.
    iss: u64,
    /// SND.UNA.
    una: u64,
    /// SND.NXT.
    nxt: u64,
    /// SND.UNA + SND.WND: the right edge of the peer's window.
    edge: u64,
    /// MAX.SND.WND (RFC 5961 section 5.2).
    max_window: u64,
    /// SND.WL1 and SND.WL2.
    wl1: u64,
    wl2: u64,
    /// The end of a zero-window probe, whose byte the peer may have taken although it is beyond
    /// SND.NXT.
    probe_end: u64,
}

/// The timestamps of the peer (RFC 7323 section 4.3).
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// TS.Recent.
    value: u32,
    /// The time of its arrival.
    at: Instant,
    /// Last.ACK.sent.
    last_ack: u64,
}

impl Recent {
    /// R1 of RFC 7323 section 5.3: the segment is an old one.
    fn refuses(&self, now: Instant, value: u32) -> bool {
        now.since(self.at) < RECENT_VALID && before(value, self.value)
    }

    /// R3 of RFC 7323 section 5.3, for a segment that begins at `start`.
    fn note(&mut self, now: Instant, value: u32, start: u64) {
        if !before(value, self.value) && start <= self.last_ack {
            (self.value, self.at) = (value, now);
        }
    }
}

/// One end of a TCP connection.
///
/// Time goes forwards from call to call. Every call that takes in something may make segments: call
/// [`transmit`](Self::transmit) after it until there is none.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    local: SocketAddr,
    remote: SocketAddr,
    state: State,
    error: Option<Error>,
    /// The reason that a router gave for not passing a packet on, since an ACK advanced.
    soft_error: Option<Error>,
    options: Options,
    mtu: PathMtu,

    send: Send,
    data: SendBuffer,
    /// The application's last writing left no room for a segment: it probably has more, and waits
    /// for room.
    writer_waits: bool,
    /// The application has closed this end.
    closing: bool,
    /// The place of this end's FIN once it was sent.
    fin: Option<u64>,
    flight: Flight,
    rack: Rack,
    recovery: Recovery,
    rtt: Rtt,
    cc: Controller,
    cc_config: fullpipe_cc::Config,
    duplicates: usize,
    /// The rule for sending while `cubic` or `reno` recovers; the others have their own.
    prr: Option<Prr>,

    receive: Receiver,
    tune: Autotune,
    acks: Acks,
    recent: Recent,
    marks: Marks,
    clock: u32,
    /// The endpoint is short of memory.
    is_memory_short: bool,
    /// Nobody will read any more.
    detached: bool,
    /// The connection began with a peer's SYN.
    is_passive: bool,

    /// A SYN or SYN-ACK has to leave.
    syn_due: bool,
    syns: u32,
    opening: Opening,
    /// The sequence number of a reset that has to leave, and what it acknowledges.
    reset: Option<(u32, Option<u32>)>,
    /// A tail loss probe, zero-window probe or keep-alive has to leave.
    probe_due: Option<transmit::Probe>,
    /// The first lost segment leaves whatever the window says: a timeout is its turn.
    head_due: bool,
    /// Timeouts since something was acknowledged.
    timeouts: u32,
    /// The newest timeout.
    timed_out: Option<Instant>,
    /// The identification of the next packet that routers may cut (RFC 6864 section 4.1). An
    /// endpoint has one counter for all connections between two addresses.
    ident: u16,
    /// The retransmission timer counts from here.
    started: Instant,
    /// New data was last sent or acknowledged.
    advanced: Instant,
    /// Something acceptable of the peer was last heard.
    heard: Instant,
    /// The oldest data that is unacknowledged has been waiting since.
    waiting: Instant,
    keep_alives: u32,
    /// The last keep-alive left.
    probed: Instant,
    reorder_at: Option<Instant>,
    paced_until: Option<Instant>,
    /// Small segments wait for more data, until the time if there is one.
    is_corked: bool,
    cork_until: Option<Instant>,
    close_at: Option<Instant>,
    last_sent: Instant,
    counts: info::Counts,
}

impl Connection {
    /// An active open (RFC 9293 section 3.10.1).
    pub fn open(
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
        seeds: Seeds,
    ) -> Self {
        Self::new(now, local, remote, config, seeds)
    }

    /// A passive open: `syn` came for a listener (RFC 9293 section 3.10.7.2).
    pub fn accept(now: Instant, syn: &Segment<'_>, config: &Config, seeds: Seeds) -> Self {
        let mut connection = Self::new(now, syn.to, syn.from, config, seeds);
        connection.is_passive = true;
        connection.take_syn(now, &syn.header);
        connection.state = State::SynReceived;
        connection
    }

    /// A passive open that nothing was kept of: `ack` acknowledges a SYN-ACK whose sequence number
    /// was a SYN cookie (RFC 4987 section 3.6), and `syn` says what is known of the SYN's options.
    pub(crate) fn from_cookie(
        now: Instant,
        ack: &Segment<'_>,
        syn: &Header,
        config: &Config,
        seeds: Seeds,
    ) -> Self {
        let mut connection = Self::new(now, ack.to, ack.from, config, seeds);
        connection.is_passive = true;
        let seq = ack.header.seq.wrapping_sub(1);
        connection.take_syn(now, &Header { seq, window: ack.header.window, ..*syn });
        (connection.state, connection.syn_due, connection.syns) = (State::SynReceived, false, 2);
        connection.send.nxt = connection.send.iss + 1;
        connection
    }

    fn new(
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
        seeds: Seeds,
    ) -> Self {
        let iss = seq::first(seeds.isn);
        let options = Options::offered(config, remote);
        let receive = Receiver::new(0, 0);
        let cc_config = fullpipe_cc::Config {
            smss: options.payload(),
            transport: Transport::Tcp,
            seed: seeds.cc,
            handshake_rtt: None,
            ..config.congestion
        };
        Self {
            config: *config,
            local,
            remote,
            state: State::SynSent,
            error: None,
            soft_error: None,
            mtu: PathMtu::new(options.mss, remote.ip()),
            options,
            send: Send {
                iss,
                una: iss,
                nxt: iss,
                edge: iss,
                max_window: 0,
                wl1: 0,
                wl2: 0,
                probe_end: iss,
            },
            data: SendBuffer::new(iss + 1, config.send_buffer),
            writer_waits: false,
            closing: false,
            fin: None,
            flight: Flight::default(),
            rack: Rack::new(iss + 1),
            recovery: Recovery::default(),
            rtt: Rtt::new(config.rto_min),
            cc: Controller::new(config.algorithm, cc_config, now),
            cc_config,
            duplicates: 0,
            prr: None,
            tune: Autotune::new(now, None, receive.places()),
            receive,
            acks: Acks::new(config),
            recent: Recent::default(),
            marks: Marks::default(),
            clock: seeds.clock,
            is_memory_short: false,
            detached: false,
            is_passive: false,
            syn_due: true,
            syns: 0,
            opening: Opening::default(),
            reset: None,
            probe_due: None,
            head_due: false,
            timeouts: 0,
            timed_out: None,
            ident: seeds.clock as u16,
            started: now,
            advanced: now,
            heard: now,
            waiting: now,
            keep_alives: 0,
            probed: now,
            reorder_at: None,
            paced_until: None,
            is_corked: false,
            cork_until: None,
            close_at: None,
            last_sent: now,
            counts: info::Counts::default(),
        }
    }

    /// Takes over what the peer's SYN or SYN-ACK says.
    fn take_syn(&mut self, now: Instant, syn: &Header) {
        let irs = seq::first(syn.seq);
        self.options.agree(syn);
        self.note_syn_field(syn);
        let limit = self.config.initial_receive_buffer.min(self.largest_buffer());
        self.receive = Receiver::new(irs + 1, limit.max(self.least_buffer()));
        // The SYN, or the SYN-ACK that is its answer, tells it.
        self.receive.window(self.options.own_mss.into());
        if let Some(timestamp) = syn.timestamp.filter(|_| self.options.timestamps) {
            self.recent = Recent { value: timestamp.value, at: now, last_ack: irs + 1 };
        }
        // RFC 7323 section 2.2: the window of a SYN is not scaled.
        self.send.edge = self.send.una + u64::from(syn.window);
        self.send.max_window = u64::from(syn.window);
        (self.send.wl1, self.send.wl2) = (irs, self.send.una);
    }

    /// The most that the receive buffer can become.
    fn largest_buffer(&self) -> usize {
        self.config.receive_buffer.min(self.options.largest_window())
    }

    /// The least that the receive buffer can be: half of it, by which the window opens at least, is
    /// not nothing on the wire, which tells a scaled window.
    fn least_buffer(&self) -> usize {
        if self.options.receive_scale == 0 { 1 } else { 2 << self.options.receive_scale }
    }

    /// Both SYNs are acknowledged: the congestion control begins with what the handshake measured.
    fn establish(&mut self, now: Instant) {
        let rtt = now.since(self.started);
        if self.syns == 1 && is_round_trip(rtt) {
            self.rtt.update(rtt);
            self.rtt.on_ack(rtt);
            self.cc_config.handshake_rtt = Some(rtt);
        } else if self.syns > 1 {
            self.rtt.on_lost_syn();
        }
        if !self.has_begun_early() {
            self.begin(now);
        }
        self.rtt.reset_backoff();
        self.soft_error = None;
        (self.started, self.advanced, self.waiting, self.last_sent) = (now, now, now, now);
        self.state = if self.closing { State::FinWait1 } else { State::Established };
    }

    /// Data may be transferred from now on.
    fn begin(&mut self, now: Instant) {
        self.mtu = PathMtu::new(self.options.mss, self.remote.ip());
        self.cc_config.smss = self.options.payload();
        self.cc_config.has_selective_acks = self.options.sack;
        self.cc = Controller::new(self.config.algorithm, self.cc_config, now);
        self.tune = Autotune::new(now, self.cc_config.handshake_rtt, self.receive.places());
    }

    /// The path carries segments of another size.
    fn on_mtu(&mut self, now: Instant) {
        if self.options.mss != self.mtu.size() {
            self.options.mss = self.mtu.size();
            self.cc_config.smss = self.options.payload();
            self.cc.on_mtu_update(now, self.cc_config.smss, self.cc_config.initial_cwnd);
        }
    }

    /// The connection is over.
    fn end(&mut self, error: Option<Error>) {
        self.state = State::Closed;
        self.error = self.error.or(error);
        self.data.discard();
        self.flight = Flight::default();
        (self.syn_due, self.probe_due, self.close_at) = (false, None, None);
        (self.reorder_at, self.paced_until, self.cork_until) = (None, None, None);
        self.receive.tidy();
    }

    pub(crate) fn ends(&self) -> Ends {
        Ends::new(self.local, self.remote)
    }

    /// True if more memory is held than what is in use is worth. What a transfer needed is given
    /// back a while after it, and not at once: the next one may follow.
    fn has_spare_memory(&self) -> bool {
        let used = self.data.len() + self.receive.len() + self.flight.used();
        let held = self.data.memory() + self.receive.memory() + self.flight.memory();
        held > KEPT + 4 * used
    }

    /// The endpoint is short of memory, or is not.
    pub(crate) fn set_memory_short(&mut self, is_short: bool) {
        self.is_memory_short = is_short;
        self.receive.set_small(is_short.then_some(SMALL_WINDOW.max(self.least_buffer())));
    }

    /// Gives back all memory that this end can do without.
    pub(crate) fn give_memory(&mut self) {
        self.counts.data_dropped += self.receive.drop_pieces() as u64;
        self.tidy();
    }

    fn tidy(&mut self) {
        self.data.tidy();
        self.receive.tidy();
        self.flight.tidy();
    }

    /// True if there is something that was never sent: data, or a FIN.
    fn has_unsent(&self) -> bool {
        self.unsent() > 0 || self.closing && self.fin.is_none()
    }

    /// CheckIfApplicationLimited(), draft-ietf-ccwg-bbr, "Detecting application-limited phases".
    ///
    /// NoUnsentData() is about the application. It is not the limit where data waits for the peer's
    /// window or for the list of what is under way; nor where it waits outside for room in the send
    /// buffer, which is no less the transport's than the window is. Linux marks the latter: its
    /// buffer grows to three windows with BBR, so that it hardly happens. A shortage of memory is a
    /// limit, as it passes: what was sent meanwhile says nothing of the path.
    fn check_app_limited(&mut self) {
        let writer_waits = self.writer_waits && !self.is_memory_short;
        if !self.flight.has_lost() && !writer_waits && self.is_out_of_data() {
            self.cc.on_app_limited();
        }
    }

    /// True if less than a segment is unsent (as in Linux) and nothing but the wait for more data
    /// to fill it holds it back.
    fn is_out_of_data(&self) -> bool {
        let (unsent, room) = (self.unsent() as u64, self.send.edge.saturating_sub(self.send.nxt));
        unsent < u64::from(self.options.payload()) && unsent <= room && self.next_new(0).is_none()
    }

    /// This end's clock of timestamps: milliseconds (RFC 7323 section 5.4).
    fn timestamp(&self, now: Instant) -> u32 {
        timers::clock_at(self.clock, now)
    }
}
