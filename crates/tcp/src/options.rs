//! The options of the handshake, and the window on the wire.

use core::net::SocketAddr;

use crate::config::Config;
use crate::connection::ecn;
use crate::wire::{Header, ip_header_bytes};

/// Bytes of a TCP header without options.
pub(crate) const TCP_HEADER: u32 = 20;
/// Bytes of a timestamps option with its padding.
const TIMESTAMPS: u32 = 12;
/// The least segment size that a peer can ask for: Linux's TCP_MIN_SND_MSS.
const MIN_MSS: u32 = 48;
/// The segment size of a peer that names none (RFC 9293 section 3.7.1).
const DEFAULT_MSS_V4: u32 = 536;
const DEFAULT_MSS_V6: u32 = 1220;
/// RFC 7323 section 2.3.
const MAX_SCALE: u8 = 14;

/// The agreement of both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The MSS option of this end.
    pub(crate) own_mss: u16,
    /// Bytes of options and data that a segment may have: Eff.snd.MSS of RFC 9293 section 3.7.1.
    pub(crate) mss: u32,
    /// Snd.Wind.Shift and Rcv.Wind.Shift of RFC 7323 section 2.3.
    pub(crate) send_scale: u8,
    pub(crate) receive_scale: u8,
    pub(crate) window_scaling: bool,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
    /// Feedback counts marked packets (RFC 9768).
    pub(crate) accurate_ecn: bool,
    /// ACKs tell of the receiver's part of round trips.
    pub(crate) receiver_delay: bool,
}

impl Options {
    /// Everything that `config` allows, before the peer was heard.
    pub(crate) fn offered(config: &Config, remote: SocketAddr) -> Self {
        let headers = ip_header_bytes(remote.ip()) as u32 + TCP_HEADER;
        let own_mss = u32::from(config.mtu).saturating_sub(headers).max(MIN_MSS) as u16;
        let needed = usize::BITS - (config.receive_buffer >> 16).leading_zeros();
        Self {
            own_mss,
            mss: if remote.is_ipv4() { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 },
            send_scale: 0,
            receive_scale: if config.window_scaling { (needed as u8).min(MAX_SCALE) } else { 0 },
            window_scaling: config.window_scaling,
            sack: config.sack,
            timestamps: config.timestamps,
            ecn: config.ecn,
            accurate_ecn: config.ecn && config.accurate_ecn,
            receiver_delay: config.receiver_delay,
        }
    }

    /// The agreement with a peer whose SYN or SYN-ACK is this. Both ends have to offer an option
    /// (RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2).
    pub(crate) fn agree(&mut self, syn: &Header) {
        let wanted = syn.mss.map_or(self.mss, u32::from);
        self.mss = wanted.clamp(MIN_MSS, u32::from(self.own_mss).max(MIN_MSS));
        match syn.window_scale {
            Some(scale) if self.window_scaling => self.send_scale = scale.min(MAX_SCALE),
            _ => (self.window_scaling, self.receive_scale) = (false, 0),
        }
        self.sack &= syn.sack_permitted;
        self.timestamps &= syn.timestamp.is_some();
        self.receiver_delay &= syn.delay_permitted;
        self.agree_on_ecn(syn.flags(), syn.ack.is_none());
    }

    /// RFC 3168 section 6.1.1: a SYN has the flags CWR and ECE, a SYN-ACK has ECE alone. RFC 9768
    /// section 3.1.2: with AE a SYN asks for accurate feedback, and so it does with what is
    /// reserved (section 3.1.3).
    fn agree_on_ecn(&mut self, flags: u8, is_syn: bool) {
        let is_classic = match (is_syn, self.accurate_ecn) {
            (true, true) => flags == ecn::ASK_CLASSIC,
            (false, true) => flags == ecn::CLASSIC,
            // The flag AE is not looked at.
            (true, false) => flags & ecn::ASK_CLASSIC == ecn::ASK_CLASSIC,
            (false, false) => flags & ecn::ASK_CLASSIC == ecn::CLASSIC,
        };
        let is_accurate = if is_syn { flags != 0 && !is_classic } else { ecn::agrees(flags) };
        self.accurate_ecn &= is_accurate;
        self.ecn &= is_classic || self.accurate_ecn;
    }

    /// Bytes of data in a segment that has no option but timestamps: C.SMSS.
    pub(crate) fn payload(&self) -> u32 {
        self.mss - if self.timestamps { TIMESTAMPS } else { 0 }
    }

    /// The largest window that the wire can tell.
    pub(crate) fn largest_window(&self) -> usize {
        usize::from(u16::MAX) << self.receive_scale
    }
}
