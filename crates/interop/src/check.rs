//! The checks of a case on the packets of both ends of its link, as the public runner has them.
//! They look at the packets of an end before the link could lose or change them.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use fullpipe_judge::quic::{Close, Packet, PacketType, Seen, Trace, V1, V2};

use super::cases::{Case, Kind};
use super::report::Grade;

/// ChaCha20 in TLS.
const CHACHA20: u16 = 0x1303;

/// The most streams that a server may allow at first where it has to raise that.
const MOST_STREAMS: u64 = 1000;

/// The most bytes of the client in 1-RTT packets where its requests are to go in 0-RTT packets:
/// half of their names.
const MOST_1RTT_BYTES: usize = 40 * 250 / 2;

/// The least bytes of a server's handshake with the long chain.
const LEAST_HANDSHAKE_BYTES: u64 = 7500;

/// The most bytes that a server may send to a client before it has validated its address, as a
/// multiple of the bytes that it received from it (RFC 9000 section 8.1).
const AMPLIFICATION: f64 = 3.0;
/// The multiple from which on the public runner finds a server at fault.
const RUNNERS_AMPLIFICATION: f64 = 4.0;

/// Codes of the ECN bits.
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

/// The subject of a check.
pub(super) struct Ground<'a> {
    pub(super) case: &'a Case,
    /// At the client's end of the link.
    pub(super) client: Trace,
    /// At the server's.
    pub(super) server: Trace,
    /// True if an end wrote down its secrets.
    pub(super) has_keys: bool,
    /// True if the server is this program's, which is held to more than the runner asks for.
    pub(super) is_own_server: bool,
}

/// The result of the checks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct CheckResult {
    /// The faults.
    pub(super) wrong: Vec<String>,
    /// The parts that could not be looked at.
    pub(super) unchecked: Vec<String>,
    /// Remarks on what was seen, for people.
    pub(super) seen: Vec<String>,
}

impl CheckResult {
    pub(super) fn into_parts(self) -> (Grade, Vec<String>) {
        match self {
            Self { wrong, .. } if !wrong.is_empty() => (Grade::Failed, wrong),
            Self { unchecked, .. } if !unchecked.is_empty() => (Grade::NotChecked, unchecked),
            Self { seen, .. } => (Grade::Passed, seen),
        }
    }

    fn require(&mut self, is_so: bool, otherwise: impl FnOnce() -> String) {
        if !is_so {
            self.wrong.push(otherwise());
        }
    }
}

/// All checks of a case.
pub(super) fn check(ground: &Ground<'_>) -> CheckResult {
    let mut verdict = CheckResult::default();
    ground.handshakes(&mut verdict);
    let needs_keys = matches!(
        ground.case.kind,
        Kind::Multiplexing
            | Kind::Resumption
            | Kind::Http3
            | Kind::KeyUpdate
            | Kind::Ecn
            | Kind::AmplificationLimit
            | Kind::RebindPort
            | Kind::RebindAddr
            | Kind::ConnectionMigration
    );
    if needs_keys && !ground.has_keys {
        verdict.unchecked.push("no end wrote its secrets to SSLKEYLOGFILE".to_owned());
        return verdict;
    }
    match ground.case.kind {
        Kind::Handshake => {
            verdict.require(ground.retries().next().is_none(), || "there was a Retry".to_owned())
        }
        Kind::Transfer => ground.closes(&mut verdict),
        Kind::LongRtt => ground.client_hellos(&mut verdict),
        Kind::ChaCha20 => ground.chacha20(&mut verdict),
        Kind::Multiplexing => ground.stream_limit(&mut verdict),
        Kind::Retry => ground.retry(&mut verdict),
        Kind::Resumption => ground.resumption(&mut verdict),
        Kind::ZeroRtt => ground.zero_rtt(&mut verdict),
        Kind::Http3 => ground.http3(&mut verdict),
        Kind::KeyUpdate => ground.key_update(&mut verdict),
        Kind::Ecn => ground.ecn(&mut verdict),
        Kind::AmplificationLimit => ground.amplification(&mut verdict),
        Kind::Ipv6 => ground.ipv6(&mut verdict),
        Kind::V2 => ground.version2(&mut verdict),
        Kind::RebindPort => ground.new_paths(&mut verdict),
        Kind::RebindAddr => {
            ground.addresses(&mut verdict);
            ground.new_paths(&mut verdict);
        }
        Kind::ConnectionMigration => {
            ground.new_paths(&mut verdict);
            ground.new_ids(&mut verdict);
        }
        Kind::Goodput | Kind::CrossTraffic => {
            verdict.require(ground.kbps().is_some(), || "the server sent no data".to_owned());
        }
        Kind::Blackhole
        | Kind::HandshakeLoss
        | Kind::TransferLoss
        | Kind::HandshakeCorruption
        | Kind::TransferCorruption => {}
    }
    verdict
}

impl Ground<'_> {
    /// Goodput in kbit/s: the bytes of the files by the time from the first to the last packet with
    /// a short header that the client got from the server; nothing of a case that is no
    /// measurement.
    pub(super) fn kbps(&self) -> Option<f64> {
        if !self.case.is_measurement() {
            return None;
        }
        let is_data = |seen: &&Seen| seen.packets.iter().any(|p| p.kind == PacketType::OneRtt);
        let mut times = self.client.from(true).filter(is_data).map(|seen| seen.at);
        let first = times.next()?;
        let elapsed = times.last()?.saturating_sub(first).as_secs_f64();
        (elapsed > 0.0).then(|| 8.0 * self.case.bytes() as f64 / elapsed / 1000.0)
    }

    fn initials(&self, is_server: bool) -> impl Iterator<Item = &Packet> {
        let trace = if is_server { &self.server } else { &self.client };
        trace.packets(is_server, PacketType::Initial)
    }

    fn retries(&self) -> impl Iterator<Item = &Packet> {
        self.client.packets(true, PacketType::Retry)
    }

    /// The number of handshakes, by the IDs that the server chose, and the version.
    fn handshakes(&self, verdict: &mut CheckResult) {
        let ids: HashSet<&[u8]> = self.initials(true).map(|p| p.source.as_slice()).collect();
        let (found, wanted) = (ids.len(), self.case.handshakes);
        verdict.require(found == wanted, || format!("{found} handshakes in place of {wanted}"));
        if self.case.kind == Kind::V2 {
            return;
        }
        let others: HashSet<u32> =
            self.initials(true).map(|p| p.version).filter(|v| *v != V1).collect();
        verdict.require(others.is_empty(), || {
            format!("the server used {} in place of version 1", versions(&others))
        });
    }

    /// A connection ends without an error.
    fn closes(&self, verdict: &mut CheckResult) {
        for (trace, is_server) in [(&self.client, false), (&self.server, true)] {
            let opened = trace
                .from(is_server)
                .flat_map(|seen| &seen.packets)
                .filter_map(|p| p.opened.as_ref());
            let closes = opened.filter_map(|o| o.frames.close);
            let codes: HashSet<u64> = closes.filter(Close::is_error).map(|c| c.code).collect();
            for code in codes {
                verdict.wrong.push(format!(
                    "the {} closed the connection with code {code:#x}",
                    end(is_server)
                ));
            }
        }
        if !self.has_keys {
            verdict.unchecked.push(
                "no end wrote its secrets to SSLKEYLOGFILE: the close was not read".to_owned(),
            );
        }
    }

    fn client_hellos(&self, verdict: &mut CheckResult) {
        let begins = |p: &&Packet| {
            let crypto = p.opened.iter().flat_map(|opened| &opened.frames.crypto);
            crypto.into_iter().any(|(offset, data)| *offset == 0 && data.first() == Some(&1))
        };
        let count = self.initials(false).filter(begins).count();
        verdict.require(count >= 2, || {
            format!("the client sent its ClientHello {count} times in place of at least 2")
        });
        verdict.seen.push(format!("{count} ClientHellos"));
    }

    fn chacha20(&self, verdict: &mut CheckResult) {
        for known in self.client.connections.iter().filter(|c| c.random.is_some()) {
            let names: Vec<String> =
                known.offered.iter().map(|suite| format!("{suite:#06x}")).collect();
            verdict.require(known.offered == [CHACHA20], || {
                format!(
                    "the client offered the cipher suites {} in place of 0x1303 alone",
                    names.join(", ")
                )
            });
        }
        let used = self.server.connections.iter().any(|known| known.suite == Some(CHACHA20));
        verdict.require(used, || "TLS_CHACHA20_POLY1305_SHA256 was not used".to_owned());
    }

    fn stream_limit(&self, verdict: &mut CheckResult) {
        let limits: Vec<u64> =
            self.server.connections.iter().filter_map(|known| known.max_streams).collect();
        let Some(most) = limits.iter().max() else {
            verdict.unchecked.push("the server's parameters could not be read".to_owned());
            return;
        };
        verdict.require(*most <= MOST_STREAMS, || {
            format!("the server allowed {most} streams at once: it had nothing to raise")
        });
        verdict.seen.push(format!("{most} streams at first"));
    }

    fn retry(&self, verdict: &mut CheckResult) {
        let tokens: Vec<&[u8]> = self.retries().map(|p| p.token.as_slice()).collect();
        verdict.require(!tokens.is_empty(), || "the server sent no Retry".to_owned());
        verdict.require(tokens.iter().all(|token| !token.is_empty()), || {
            "a Retry had no token".to_owned()
        });
        let number = |p: &Packet| p.opened.as_ref().map(|opened| opened.number);
        let before = self.initials(false).filter(|p| p.token.is_empty()).filter_map(number).max();
        let mut after = self.initials(false).filter(|p| tokens.contains(&p.token.as_slice()));
        match after.next() {
            None => verdict.wrong.push("the client returned no token of a Retry".to_owned()),
            // RFC 9000 section 17.2.5.3.
            Some(first) => verdict.require(number(first) > before, || {
                "the client began to count its packets anew after the Retry".to_owned()
            }),
        }
    }

    fn resumption(&self, verdict: &mut CheckResult) {
        let known: Vec<bool> = self
            .server
            .connections
            .iter()
            .filter(|c| c.suite.is_some())
            .map(|c| c.has_certificate)
            .collect();
        match known.as_slice() {
            [true, false] => {}
            [false, _] => verdict
                .unchecked
                .push("the first handshake was not read: it has no certificate".to_owned()),
            [true, true] => verdict.wrong.push("the second handshake has a certificate".to_owned()),
            other => {
                verdict.wrong.push(format!("{} handshakes were read in place of 2", other.len()))
            }
        }
    }

    fn zero_rtt(&self, verdict: &mut CheckResult) {
        let sum = |kind| self.client.packets(false, kind).map(|p| p.bytes).sum::<usize>();
        let (early, late) = (sum(PacketType::ZeroRtt), sum(PacketType::OneRtt));
        verdict.require(early > 0, || "the client sent no 0-RTT packet".to_owned());
        verdict.require(late <= MOST_1RTT_BYTES, || {
            format!("the client sent {late} bytes in 1-RTT packets, more than {MOST_1RTT_BYTES}, and {early} in 0-RTT packets")
        });
        verdict.seen.push(format!("{early} bytes in 0-RTT packets, {late} in 1-RTT packets"));
    }

    fn http3(&self, verdict: &mut CheckResult) {
        let mut protocols =
            self.server.connections.iter().filter_map(|known| known.protocol.as_deref());
        match protocols.next() {
            None => verdict
                .unchecked
                .push("the server's choice of a protocol could not be read".to_owned()),
            Some(protocol) => verdict.require(protocol == b"h3", || {
                format!("the protocol is {:?} in place of h3", String::from_utf8_lossy(protocol))
            }),
        }
    }

    fn key_update(&self, verdict: &mut CheckResult) {
        for (trace, is_server) in [(&self.client, false), (&self.server, true)] {
            let phases =
                trace.packets(is_server, PacketType::OneRtt).filter_map(|p| p.opened.as_ref());
            let changed = phases.filter(|opened| opened.key_phase).count();
            verdict.require(changed > 0, || {
                format!("the {} never changed its key phase", end(is_server))
            });
            verdict.seen.push(format!(
                "{changed} packets of the {} in the other key phase",
                end(is_server)
            ));
        }
    }

    fn ecn(&self, verdict: &mut CheckResult) {
        for (trace, is_server) in [(&self.client, false), (&self.server, true)] {
            let who = end(is_server);
            let any =
                |bits: &[u8]| trace.from(is_server).filter(|seen| bits.contains(&seen.ecn)).count();
            let marked = any(&[ECT0, ECT1]);
            verdict.require(marked > 0, || format!("the {who} marked no packet as ECN-capable"));
            verdict.require(any(&[CE]) == 0, || format!("the {who} sent packets with CE"));
            let opened = trace
                .from(is_server)
                .flat_map(|seen| &seen.packets)
                .filter_map(|p| p.opened.as_ref());
            let counts = opened.filter(|opened| opened.frames.ecn_counts.is_some()).count();
            verdict.require(counts > 0, || format!("the {who} acknowledged without ECN counts"));
        }
    }

    fn amplification(&self, verdict: &mut CheckResult) {
        let most = self.server.handshake_bytes.iter().max().copied().unwrap_or_default();
        verdict.require(most >= LEAST_HANDSHAKE_BYTES, || {
            format!("the server's handshake has {most} bytes, fewer than {LEAST_HANDSHAKE_BYTES}: it does not use its certificate chain")
        });
        let (mut received, mut sent, mut worst) = (0, 0, 0.0_f64);
        let mut is_validated = false;
        for seen in &self.server.datagrams {
            if seen.is_from_server {
                sent += seen.bytes;
                worst = worst.max(sent as f64 / received.max(1) as f64);
            } else if seen.packets.iter().any(|p| p.kind == PacketType::Handshake) {
                is_validated = true;
                break;
            } else {
                received += seen.bytes;
            }
        }
        verdict.require(is_validated, || "the client sent no Handshake packet".to_owned());
        let is_too_much = match self.is_own_server {
            true => worst > AMPLIFICATION,
            false => worst >= RUNNERS_AMPLIFICATION,
        };
        verdict.require(!is_too_much, || {
            format!(
                "the server sent {worst:.2} times what the client had sent before its address was validated"
            )
        });
        verdict.seen.push(format!("at most {worst:.2} times what the client had sent"));
    }

    fn ipv6(&self, verdict: &mut CheckResult) {
        let fours = self.server.datagrams.iter().filter(|seen| seen.from.is_ipv4()).count();
        verdict.require(fours == 0, || format!("{fours} packets of IPv4"));
    }

    fn version2(&self, verdict: &mut CheckResult) {
        let of = |packets: &mut dyn Iterator<Item = &Packet>| {
            packets.map(|p| p.version).collect::<HashSet<u32>>()
        };
        let first = of(&mut self.initials(false));
        verdict.require(first.contains(&V1), || {
            format!("the client began with {} in place of version 1", versions(&first))
        });
        let answer = of(&mut self.initials(true));
        verdict.require(answer.contains(&V2), || {
            format!("the server's Initial packets have {} in place of version 2", versions(&answer))
        });
        for (trace, is_server) in [(&self.client, false), (&self.server, true)] {
            let used = of(&mut trace.packets(is_server, PacketType::Handshake));
            verdict.require(used.len() == 1 && used.contains(&V2), || {
                format!(
                    "the {}'s Handshake packets have {} in place of version 2",
                    end(is_server),
                    versions(&used)
                )
            });
        }
    }

    /// The addresses of the client that the server sent to.
    fn addresses(&self, verdict: &mut CheckResult) {
        let addresses: HashSet<IpAddr> = self.server.from(true).map(|seen| seen.to.ip()).collect();
        verdict.require(addresses.len() > 1, || {
            "the server used one address of the client alone".to_owned()
        });
    }

    /// The server's first packet on a path has a challenge, which the client answers.
    fn new_paths(&self, verdict: &mut CheckResult) {
        let mut known: HashSet<(SocketAddr, SocketAddr)> = HashSet::new();
        let mut asked: HashSet<[u8; 8]> = HashSet::new();
        for seen in self.server.from(true) {
            let is_new = known.insert((seen.from, seen.to));
            if !is_new || known.len() == 1 {
                continue;
            }
            let opened = seen.packets.iter().filter_map(|p| p.opened.as_ref());
            let challenges: Vec<[u8; 8]> =
                opened.flat_map(|opened| opened.frames.challenges.clone()).collect();
            verdict.require(!challenges.is_empty(), || {
                format!(
                    "the server's first packet on the path from {} to {} has no PATH_CHALLENGE",
                    seen.from, seen.to
                )
            });
            asked.extend(challenges);
        }
        verdict.require(known.len() > 1, || "the server used one path alone".to_owned());
        let opened =
            self.client.packets(false, PacketType::OneRtt).filter_map(|p| p.opened.as_ref());
        let answered: HashSet<[u8; 8]> =
            opened.flat_map(|opened| opened.frames.responses.clone()).collect();
        let open = asked.difference(&answered).count();
        verdict.require(open == 0, || {
            format!("the client did not answer {open} of {} PATH_CHALLENGEs", asked.len())
        });
        verdict.seen.push(format!("{} paths", known.len()));
    }

    /// The client's first packet on a path of its own choice has another connection ID.
    fn new_ids(&self, verdict: &mut CheckResult) {
        let mut known: HashSet<(SocketAddr, SocketAddr)> = HashSet::new();
        let mut last: Option<&[u8]> = None;
        for seen in self.client.from(false) {
            let Some(packet) = seen.packets.first() else { continue };
            let is_new = known.insert((seen.from, seen.to));
            if is_new && known.len() > 1 {
                verdict.require(last != Some(&packet.destination), || {
                    format!(
                        "the client's first packet to {} has the connection ID of the path before",
                        seen.to
                    )
                });
            }
            last = Some(&packet.destination);
        }
        verdict.require(known.len() > 1, || "the client used one path alone".to_owned());
    }
}

fn end(is_server: bool) -> &'static str {
    if is_server { "server" } else { "client" }
}

fn versions(versions: &HashSet<u32>) -> String {
    let mut names: Vec<String> =
        versions.iter().map(|version| format!("{version:#010x}")).collect();
    names.sort();
    match names.as_slice() {
        [] => "no version".to_owned(),
        [one] => format!("version {one}"),
        more => format!("versions {}", more.join(" and ")),
    }
}

#[cfg(test)]
mod tests;
