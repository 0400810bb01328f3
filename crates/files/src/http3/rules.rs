//! The places of what a peer sends (RFC 9114 sections 4.1, 6.2 and 7.2), as far as h3 does not ask:
//! it passes over unknown frames and some of push, and waits for more of a frame that is too short.

use noq::VarInt;

use fullpipe_noq_repairs::wire::Reader;

use super::fields::Pseudo;

/// An error of the peer. It closes the connection, unless it is of one message alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    /// The code of the close, or of the end of the stream.
    pub(super) code: VarInt,
    pub(super) reason: &'static str,
}

/// The codes of RFC 9114 section 8.1 and RFC 9204 section 6 that are used here.
#[derive(Clone, Copy)]
pub(super) enum Code {
    /// Nothing is wrong, and nothing more is wanted.
    NoError = 0x100,
    InternalError = 0x102,
    StreamCreation = 0x103,
    ClosedCriticalStream = 0x104,
    FrameUnexpected = 0x105,
    Frame = 0x106,
    ExcessiveLoad = 0x107,
    Id = 0x108,
    Settings = 0x109,
    MissingSettings = 0x10a,
    RequestRejected = 0x10b,
    RequestCancelled = 0x10c,
    Message = 0x10e,
    QpackDecompressionFailed = 0x200,
    QpackEncoderStream = 0x201,
    QpackDecoderStream = 0x202,
}

impl Code {
    pub(super) const fn var_int(self) -> VarInt {
        VarInt::from_u32(self as u32)
    }
}

impl Violation {
    pub(super) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code: code.var_int(), reason }
    }

    /// True if a message is malformed, which ends its stream alone (RFC 9114 section 4.1.2).
    pub(super) fn is_of_a_message(&self) -> bool {
        self.code == Code::Message.var_int()
    }

    /// More than anybody needs (RFC 9114 section 10.5).
    pub(super) const fn too_much(reason: &'static str) -> Self {
        Self::new(Code::ExcessiveLoad, reason)
    }
}

/// The end that sends what is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Client,
    Server,
}

pub(super) const DATA: usize = 0x0;
const HEADERS: usize = 0x1;
const CANCEL_PUSH: usize = 0x3;
pub(super) const SETTINGS: usize = 0x4;
const PUSH_PROMISE: usize = 0x5;
const GOAWAY: usize = 0x7;
const MAX_PUSH_ID: usize = 0xd;
/// Frames of HTTP/2 that HTTP/3 has not (RFC 9114 section 7.2.8).
const OF_HTTP_2: [usize; 4] = [0x2, 0x6, 0x8, 0x9];

/// The longest integer (RFC 9000 section 16).
const MOST_OF_AN_INTEGER: usize = 8;

/// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
pub(super) const CONTROL_STREAM: usize = 0x0;
const PUSH_STREAM: usize = 0x1;
pub(super) const ENCODER_STREAM: usize = 0x2;
pub(super) const DECODER_STREAM: usize = 0x3;

/// A unidirectional stream begins.
pub(super) fn stream_begins(peer: Peer, kind: usize) -> Result<(), Violation> {
    match (kind, peer) {
        // Section 6.2.2.
        (PUSH_STREAM, Peer::Client) => {
            Err(Violation::new(Code::StreamCreation, "a client pushes nothing"))
        }
        // Section 4.6: this end allows none.
        (PUSH_STREAM, Peer::Server) => Err(Violation::new(Code::Id, "a push that was not allowed")),
        _ => Ok(()),
    }
}

/// The frames of a control stream (sections 6.2.1 and 7.2).
#[derive(Debug, Default)]
pub(super) struct Control {
    has_settings: bool,
    max_push_id: Option<u64>,
}

impl Control {
    /// A frame begins, of this type and length.
    pub(super) fn begins(&self, peer: Peer, kind: usize, length: usize) -> Result<(), Violation> {
        match kind {
            SETTINGS if self.has_settings => {
                Err(Violation::new(Code::FrameUnexpected, "SETTINGS came twice"))
            }
            SETTINGS => Ok(()),
            _ if !self.has_settings => {
                Err(Violation::new(Code::MissingSettings, "a frame came before SETTINGS"))
            }
            DATA | HEADERS | PUSH_PROMISE => {
                Err(Violation::new(Code::FrameUnexpected, "a request's frame on a control stream"))
            }
            MAX_PUSH_ID if peer == Peer::Server => {
                Err(Violation::new(Code::FrameUnexpected, "MAX_PUSH_ID is a client's"))
            }
            CANCEL_PUSH | GOAWAY | MAX_PUSH_ID if length == 0 || length > MOST_OF_AN_INTEGER => {
                Err(NOT_ONE_INTEGER)
            }
            _ => not_of_http_2(kind),
        }
    }

    /// The frame is complete.
    pub(super) fn ends(&mut self, kind: usize, payload: &[u8]) -> Result<(), Violation> {
        match kind {
            SETTINGS => {
                self.has_settings = true;
                settings(payload)
            }
            // Whether its ID is right, h3 asks.
            GOAWAY => one_integer(payload).map(drop),
            CANCEL_PUSH => {
                one_integer(payload)?;
                // Section 7.2.3: of a client, a push that nobody promised; of a server, one that
                // was not allowed.
                Err(Violation::new(Code::Id, "CANCEL_PUSH of a push that there is not"))
            }
            MAX_PUSH_ID => {
                let id = one_integer(payload)?;
                // Section 7.2.7.
                if self.max_push_id.replace(id).is_some_and(|before| id < before) {
                    return Err(Violation::new(Code::Id, "MAX_PUSH_ID got smaller"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The frames of a request or of its answer (section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Message {
    /// Nothing but interim answers.
    #[default]
    Nothing,
    Headers,
    Data,
    Trailers,
}

impl Message {
    /// A frame of this type begins.
    pub(super) fn begins(self, peer: Peer, kind: usize) -> Result<(), Violation> {
        match (kind, self) {
            // Section 7.2.5: a client sends none, and this end allows a server none.
            (PUSH_PROMISE, _) if peer == Peer::Server => {
                Err(Violation::new(Code::Id, "a promise of a push that was not allowed"))
            }
            (PUSH_PROMISE, _) => {
                Err(Violation::new(Code::FrameUnexpected, "a client promises no push"))
            }
            (CANCEL_PUSH | SETTINGS | GOAWAY | MAX_PUSH_ID, _) => {
                let reason = "a control stream's frame on a request stream";
                Err(Violation::new(Code::FrameUnexpected, reason))
            }
            (DATA, Self::Nothing) => Err(Violation::new(Code::FrameUnexpected, "DATA comes first")),
            (DATA | HEADERS, Self::Trailers) => {
                Err(Violation::new(Code::FrameUnexpected, "a frame behind the trailers"))
            }
            _ => not_of_http_2(kind),
        }
    }

    /// A frame is complete, or is DATA.
    pub(super) fn ends(
        &mut self,
        peer: Peer,
        kind: usize,
        payload: &[u8],
    ) -> Result<(), Violation> {
        if kind == DATA {
            *self = Self::Data;
        }
        if kind != HEADERS {
            return Ok(());
        }
        // RFC 9204 section 2.2: h3 passes over what a section says of the dynamic table.
        let pseudo = Pseudo::read(payload)
            .ok_or(Violation::new(Code::QpackDecompressionFailed, "a section has no sense"))?;
        *self = match (*self, peer) {
            (Self::Nothing, Peer::Server) if pseudo.is_interim() => Self::Nothing,
            (Self::Nothing, _) => Self::Headers,
            _ => Self::Trailers,
        };
        // A request's are looked at where it is answered.
        let reason = match peer {
            Peer::Client => None,
            Peer::Server => pseudo.malformed_of_answer(*self == Self::Trailers),
        };
        reason.map_or(Ok(()), |reason| Err(Violation::new(Code::Message, reason)))
    }
}

fn not_of_http_2(kind: usize) -> Result<(), Violation> {
    match OF_HTTP_2.contains(&kind) {
        true => Err(Violation::new(Code::FrameUnexpected, "a frame of HTTP/2")),
        false => Ok(()),
    }
}

/// Section 7.1: a payload ends where its fields do.
const NOT_ONE_INTEGER: Violation =
    Violation::new(Code::Frame, "a frame of one integer has not one");

fn one_integer(payload: &[u8]) -> Result<u64, Violation> {
    let mut rest = Reader(payload);
    rest.integer().filter(|_| rest.0.is_empty()).ok_or(NOT_ONE_INTEGER)
}

/// Identifiers of HTTP/2's settings that HTTP/3 has not (section 7.2.4.1 and 11.2.2).
const SETTINGS_OF_HTTP_2: [u64; 5] = [0x0, 0x2, 0x3, 0x4, 0x5];
/// Settings that are 0 or 1: SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441 section 3, RFC 9220 section
/// 3) and SETTINGS_H3_DATAGRAM (RFC 9297 section 2.1.1).
const SWITCHES: [u64; 2] = [0x8, 0x33];

fn settings(payload: &[u8]) -> Result<(), Violation> {
    let mut rest = Reader(payload);
    while !rest.0.is_empty() {
        let (Some(identifier), Some(value)) = (rest.integer(), rest.integer()) else {
            return Err(Violation::new(Code::Frame, "SETTINGS are cut off"));
        };
        if SETTINGS_OF_HTTP_2.contains(&identifier) {
            return Err(Violation::new(Code::Settings, "a setting of HTTP/2"));
        }
        if SWITCHES.contains(&identifier) && value > 1 {
            return Err(Violation::new(Code::Settings, "a setting is neither 0 nor 1"));
        }
    }
    Ok(())
}
