//! A second reader of the packets, where it is installed: tshark, which the public runner uses,
//! must find the same as this program.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use fullpipe_judge::quic::{PacketType, Trace};

const PROGRAM: &str = "tshark";

/// Numbers of frames that cases ask for: ACK with ECN counts, PATH_CHALLENGE and PATH_RESPONSE.
const FRAMES: [(u64, &str); 3] =
    [(0x03, "ACKs with ECN counts"), (0x1a, "PATH_CHALLENGEs"), (0x1b, "PATH_RESPONSEs")];

/// The count of each thing.
type Counts = BTreeMap<&'static str, usize>;

/// The differences that tshark finds in what the client and the server sent, before the link could
/// lose or change it; nothing where it is not installed. `servers` are all addresses of the server.
pub(super) fn compare(
    traces: [&Trace; 2],
    files: [&Path; 2],
    servers: &[IpAddr],
    keys: &Path,
) -> Option<Vec<String>> {
    let mut differences = Vec::new();
    let of_server = servers.iter().map(|address| match address {
        IpAddr::V4(four) => format!("ip.src == {four}"),
        IpAddr::V6(six) => format!("ipv6.src == {six}"),
    });
    let of_server = of_server.collect::<Vec<_>>().join(" || ");
    let ends = [("client", format!("!({of_server})")), ("server", format!("({of_server})"))];
    for ((trace, file), (end, sent)) in traces.into_iter().zip(files).zip(ends) {
        let theirs = match read(file, &sent, keys) {
            Ok(theirs) => theirs,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => return Some(vec![format!("tshark: {e}")]),
        };
        differences.extend(differ(&ours(trace, end == "server"), &theirs, end));
    }
    Some(differences)
}

/// The counts that tshark has found.
#[derive(Default)]
struct Found {
    counts: Counts,
    /// Datagrams of which it opened nothing: it loses track of connections after a Retry, or after
    /// the client has moved.
    unopened: usize,
}

/// More than this program finds is a difference, and less too where tshark opened everything:
/// whatever this program opens has a right tag.
fn differ(ours: &Counts, theirs: &Found, end: &str) -> Vec<String> {
    let more = theirs.counts.keys().filter(|name| !ours.contains_key(*name));
    let of = |counts: &Counts, name| counts.get(name).copied().unwrap_or_default();
    let pairs =
        ours.keys().chain(more).map(|name| (name, of(ours, name), of(&theirs.counts, name)));
    pairs
        .filter(|(_, own, other)| own < other || (own > other && theirs.unopened == 0))
        .map(|(name, own, other)| {
            format!("of the {end} tshark finds {other} {name} in place of {own}")
        })
        .collect()
}

/// The name of a type of packets.
fn name(kind: PacketType) -> Option<&'static str> {
    match kind {
        PacketType::Initial => Some("Initial packets"),
        PacketType::ZeroRtt => Some("0-RTT packets"),
        PacketType::Handshake => Some("Handshake packets"),
        PacketType::Retry => Some("Retry packets"),
        _ => None,
    }
}

fn ours(trace: &Trace, is_server: bool) -> Counts {
    let mut counts = Counts::new();
    let mut add = |name, count: usize| {
        if count > 0 {
            *counts.entry(name).or_default() += count;
        }
    };
    for packet in trace.from(is_server).flat_map(|seen| &seen.packets) {
        if let Some(name) = name(packet.kind) {
            add(name, 1);
        }
        let Some(opened) = &packet.opened else { continue };
        if packet.kind == PacketType::OneRtt {
            add("packets in the other key phase", usize::from(opened.key_phase));
        }
        add(FRAMES[0].1, usize::from(opened.frames.ecn_counts.is_some()));
        add(FRAMES[1].1, opened.frames.challenges.len());
        add(FRAMES[2].1, opened.frames.responses.len());
    }
    counts
}

/// The same by tshark: a line for each datagram, with the types of its packets, key phases and
/// frames.
fn read(file: &Path, sent: &str, keys: &Path) -> io::Result<Found> {
    let mut command = Command::new(PROGRAM);
    command.arg("-r").arg(file).arg("-o").arg(format!("tls.keylog_file:{}", keys.display()));
    command.args(["-d", "udp.port==1-65535,quic", "--disable-protocol", "http3"]);
    // An error of ICMP has a part of the packet that it is about.
    command.arg("-Y").arg(format!("quic && !icmp && !icmpv6 && {sent}"));
    command.args(["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]);
    let fields =
        ["long.packet_type", "long.packet_type_v2", "key_phase", "frame_type", "decryption_failed"];
    for field in fields {
        command.arg("-e").arg(format!("quic.{field}"));
    }
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(said.lines().last().unwrap_or("no reason").to_owned()));
    }
    Ok(found(&String::from_utf8_lossy(&output.stdout)))
}

fn found(lines: &str) -> Found {
    let mut found = Found::default();
    let counts = &mut found.counts;
    let kinds =
        [PacketType::Initial, PacketType::ZeroRtt, PacketType::Handshake, PacketType::Retry];
    for line in lines.lines() {
        let fields: Vec<Vec<&str>> = line
            .split('\t')
            .map(|field| field.split(',').filter(|f| !f.is_empty()).collect())
            .collect();
        let numbers = |at: usize| {
            let values = fields.get(at).into_iter().flatten();
            values.filter_map(|value| value.parse::<usize>().ok()).collect::<Vec<_>>()
        };
        // The types of version 2 are those of version 1 and one more, modulo four.
        let of_v2 = numbers(1).into_iter().map(|kind| (kind + 3) % 4);
        let types: Vec<usize> = numbers(0).into_iter().chain(of_v2).collect();
        let is_retry = types == [3];
        for name in types.into_iter().filter_map(|kind| name(*kinds.get(kind)?)) {
            *counts.entry(name).or_default() += 1;
        }
        if !is_retry && (numbers(3).is_empty() || !numbers(4).is_empty()) {
            found.unopened += 1;
            continue;
        }
        let phases = fields.get(2).into_iter().flatten();
        let changed = phases.filter(|phase| ["1", "True"].contains(phase)).count();
        if changed > 0 {
            *counts.entry("packets in the other key phase").or_default() += changed;
        }
        for frame in numbers(3) {
            if let Some((_, name)) = FRAMES.iter().find(|(number, _)| *number == frame as u64) {
                *counts.entry(name).or_default() += 1;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tshark_finds_otherwise_is_told() {
        let all = found(
            "0,2\t\t\t3,3,6,0\t\n\t1,3\t0\t6,0\t\n\t\t1\t26,12\t\n\t\tTrue\t27\t\n3\t\t\t\t\n",
        );
        let expected = [
            ("ACKs with ECN counts", 2),
            ("Handshake packets", 2),
            ("Initial packets", 2),
            ("PATH_CHALLENGEs", 1),
            ("PATH_RESPONSEs", 1),
            ("Retry packets", 1),
            ("packets in the other key phase", 2),
        ];
        assert_eq!(all.counts.iter().map(|(name, n)| (*name, *n)).collect::<Vec<_>>(), expected);
        assert_eq!(all.unopened, 0);
        assert_eq!(differ(&all.counts, &all, "client"), Vec::<String>::new());
        let mut ours = all.counts.clone();
        ours.remove("Retry packets");
        ours.insert("PATH_CHALLENGEs", 2);
        let less = "of the server tshark finds 1 PATH_CHALLENGEs in place of 2";
        let more = "of the server tshark finds 1 Retry packets in place of 0";
        assert_eq!(differ(&ours, &all, "server"), [less, more]);
        // What it could not open is no difference.
        let some = found("0,2\t\t\t3,3,6,0\t\n\t\t1\t\t\n\t\t1\t26\t1\n3\t\t\t\t\n");
        assert_eq!((some.unopened, some.counts.get("PATH_CHALLENGEs")), (2, None));
        assert_eq!(differ(&ours, &some, "server"), [more]);
    }
}
