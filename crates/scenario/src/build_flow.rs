//! A flow of a scenario, and cross traffic.

use fullpipe_cc::{
    Algorithm, Amendments, BbrSwiftOptions, CubicRules, Duration, Rate, SavedParameters, Start,
    StartupGains,
};
use fullpipe_path::{Arrivals, CrossTraffic, Ecn, ElementConfig, MTU_BYTES};
use fullpipe_sim::{
    AckPolicy, FlowConfig, PacedBy, ReceiveWindow, Reordering, RoutedTraffic, TcpConfig,
};
use fullpipe_traffic::{Adapt, Application, Direction, Media};

use super::build_net::Net;
use super::error::Wrong;
use super::quantity::{Room, Time};
use super::routes::Routes;
use super::schema::{
    App, CrossTable, Cubic, EcnMode, FlowTable, LossDetection, MediaTable, OnOff, Pacer,
    RateLimited, RequestResponse, ShortFlows, Spacing, Startup,
};
use super::{Cc, Protocol};
use crate::units::show_duration;

/// An application writes so much at a time when nothing else is said: a disk's or a codec's block.
const WRITE_BYTES: u64 = 4096;

/// An encoder makes so many frames a second when nothing else is said, keyframes are of so many
/// other frames, and a player is so far behind it.
const FPS: u32 = 30;
const KEYFRAME_SIZE: u32 = 4;
const PLAYOUT: Duration = Duration::from_millis(200);

/// More frames a second than any camera's.
const MAX_FPS: u32 = 1_000;

/// More connections than these are no experiment: each has a controller and a sender of its own.
const MAX_CONNECTIONS: u64 = 1_000_000;

/// More packets of cross traffic, or steps of an application, than a run could ever get through.
const MAX_PER_SEC: u64 = 10_000_000;

/// Checks the number of connections: on a path too slow for them, all connections of short flows
/// exist at the end.
pub(super) fn check_connections(
    flow: &FlowConfig,
    count: u64,
    end: Option<Duration>,
    field: &str,
) -> Result<(), Wrong> {
    let end = end.unwrap_or(Duration::MAX);
    let Application::ShortFlows { mean_interval, .. } = flow.application else { return Ok(()) };
    let each = end.as_nanos() / mean_interval.as_nanos().max(1);
    let connections = each.saturating_mul(count);
    if connections > MAX_CONNECTIONS {
        let why = format!(
            "makes some {connections} connections, the most is {MAX_CONNECTIONS}; write a longer every"
        );
        return Err(Wrong::new(format!("{field}.app"), why));
    }
    Ok(())
}

pub(super) fn check_times(
    table: &FlowTable,
    count: u64,
    field: &str,
    end: Option<Duration>,
) -> Result<(), Wrong> {
    let end = end.unwrap_or(Duration::MAX);
    let start = table.start.map_or(Duration::ZERO, |t| t.0);
    let every = table.every.map_or(Duration::ZERO, |t| t.0);
    if table.count() == 0 {
        return Err(Wrong::new(format!("{field}.count"), "0 flows are none; write at least 1"));
    }
    let last = start + every.times(count - 1);
    if last >= end {
        let place = if start >= end { "start" } else { "every" };
        let why = format!(
            "a flow starts at {}, and the run ends at {}; write a longer duration",
            show_duration(last),
            show_duration(end)
        );
        return Err(Wrong::new(format!("{field}.{place}"), why));
    }
    match table.stop {
        Some(stop) if stop.0 <= last => Err(Wrong::new(
            format!("{field}.stop"),
            format!(
                "{} is not after the start at {}; write a later time",
                show_duration(stop.0),
                show_duration(last)
            ),
        )),
        _ => Ok(()),
    }
}

pub(super) fn flow_config(
    table: &FlowTable,
    cc: Cc,
    field: &str,
    net: &Net,
) -> Result<FlowConfig, Wrong> {
    // Of an algorithm that is not ours nobody looks at this one: the simulator refuses the flow.
    let algorithm = cc.algorithm().unwrap_or(Algorithm::RENO);
    let seed = 0; // each flow made of this one has its own
    let mut flow = match table.transport.unwrap_or_default() {
        Protocol::Quic => FlowConfig::bulk(algorithm, seed),
        Protocol::Tcp => FlowConfig::tcp_bulk(algorithm, seed),
    };
    if let Some(mss) = table.mss {
        if !(100..=65_000).contains(&mss) {
            let why = format!("{mss} bytes are no packet; write 100 to 65000, like 1200");
            return Err(Wrong::new(format!("{field}.mss"), why));
        }
        flow.cc.smss = mss;
    }
    flow.cc.initial_cwnd = table.initial_cwnd.map(|n| n.0);
    if flow.cc.initial_cwnd == Some(0) {
        let why = "must be greater than 0; write a volume like 15kB";
        return Err(Wrong::new(format!("{field}.initial_cwnd"), why));
    }
    flow.cc.start = match table.startup {
        None | Some(Startup::Standard) => Start::Standard,
        Some(Startup::RapidStart) => Start::RapidStart,
        Some(Startup::Search) => Start::Search,
    };
    flow.cc.resume = resume(table, net, field)?;
    flow.cc.paced = table.paced.unwrap_or(flow.cc.paced);
    flow.algorithm = with_options(algorithm, table, field)?;
    flow.acks = AckPolicy {
        every: table.ack_every.unwrap_or(flow.acks.every),
        max_delay: table.ack_delay.map_or(flow.acks.max_delay, |t| t.0),
        quick: table.quick_acks.unwrap_or(flow.acks.quick),
    };
    flow.jitter = table.jitter.map_or(flow.jitter, |t| t.0);
    flow.receiver_delay = table.receiver_delay.map_or(Duration::ZERO, |t| t.0);
    flow.pacer = match table.pacer {
        Some(Pacer::Noq) if table.transport == Some(Protocol::Tcp) => {
            let why = "\"noq\" is a QUIC stack's; leave it out";
            return Err(Wrong::new(format!("{field}.pacer"), why));
        }
        Some(Pacer::Noq) => PacedBy::Noq,
        Some(Pacer::Core) | None => PacedBy::Core,
    };
    flow.handshake = table.handshake.unwrap_or(flow.handshake);
    flow.tcp = tcp_config(table, field)?;
    if flow.acks.every == 0 {
        return Err(Wrong::new(format!("{field}.ack_every"), "0 is never; write at least 1"));
    }
    flow.ignores_marks = table.ecn == EcnMode::Ignored;
    (flow.ecn, flow.cc.ecn) = match table.ecn {
        EcnMode::Off => (Ecn::NotEct, false),
        EcnMode::Classic | EcnMode::Ignored => (Ecn::Ect0, false),
        EcnMode::L4s => (Ecn::Ect1, true),
    };
    flow.stop = table.stop.map(|t| t.0);
    flow.extra_rtt = table.extra_rtt.map_or(Duration::ZERO, |t| t.0);
    flow.direction = direction(table, field, net)?;
    let access = table.access.as_ref().map(|access| net.access(access, &format!("{field}.access")));
    flow.access = access.transpose()?;
    flow.application = table.app.map_or(Ok(Application::Bulk), |app| application(app, field))?;
    let bytes = |room: Option<Room>, name: &str| {
        room.map(|room| net.bytes(room, &format!("{field}.{name}"))).transpose()
    };
    flow.send_buffer = bytes(table.send_buffer, "send_buffer")?;
    let window = bytes(table.receive_window, "receive_window")?;
    let initial = bytes(table.receive_window_initial, "receive_window_initial")?;
    flow.receive_window = match (initial, window) {
        (None, None) => ReceiveWindow::Unlimited,
        (None, Some(bytes)) => ReceiveWindow::Fixed(bytes),
        (Some(initial), Some(max)) if initial <= max => ReceiveWindow::Auto { initial, max },
        (Some(_), _) => {
            let why = "grows to receive_window; write that too, and larger";
            return Err(Wrong::new(format!("{field}.receive_window_initial"), why));
        }
    };
    Ok(flow)
}

/// Reads the parameters of Careful Resume.
fn resume(table: &FlowTable, net: &Net, field: &str) -> Result<Option<SavedParameters>, Wrong> {
    let Some(resume) = table.resume else { return Ok(None) };
    let field = format!("{field}.resume");
    if matches!(table.app, Some(App::ShortFlows(_))) {
        let why = "one connection at a time may use what another left, and short_flows has many; leave it out";
        return Err(Wrong::new(field, why));
    }
    if resume.rtt.0 == Duration::ZERO {
        let why = "must be greater than 0; write the shortest round trip, like 40ms";
        return Err(Wrong::new(format!("{field}.rtt"), why));
    }
    let Some(cwnd) = resume.cwnd.0 else { return Ok(None) };
    let cwnd = net.bytes(Room(cwnd), &format!("{field}.cwnd"))?;
    Ok(Some(SavedParameters { cwnd, rtt: resume.rtt.0 }))
}

/// The algorithm with the options that the flow has for it.
fn with_options(algorithm: Algorithm, table: &FlowTable, field: &str) -> Result<Algorithm, Wrong> {
    let gains = match (table.startup_pacing_gain, table.startup_cwnd_gain) {
        (Some(pacing), Some(cwnd)) => Some(StartupGains { pacing: pacing.0, cwnd: cwnd.0 }),
        (None, None) => None,
        _ => {
            let why = "write startup_pacing_gain and startup_cwnd_gain, or neither";
            return Err(Wrong::new(format!("{field}.startup_cwnd_gain"), why));
        }
    };
    let targets = swift(table, algorithm, field)?;
    let without = table.bbr3x_without.map_or(Amendments::NONE, |without| without.0);
    Ok(match algorithm {
        Algorithm::Bbr3(all) => {
            Algorithm::Bbr3(gains.map_or(all, |gains| all.with_startup_gains(gains)))
        }
        Algorithm::Bbr3Linux(all) => {
            Algorithm::Bbr3Linux(gains.map_or(all, |gains| all.with_startup_gains(gains)))
        }
        Algorithm::Bbr3x(all) => {
            let all = all.without(without);
            Algorithm::Bbr3x(gains.map_or(all, |gains| all.with_startup_gains(gains)))
        }
        Algorithm::Bbr3xLinux(all) => {
            let all = all.without(without);
            Algorithm::Bbr3xLinux(gains.map_or(all, |gains| all.with_startup_gains(gains)))
        }
        Algorithm::BbrSwift(_) => {
            Algorithm::BbrSwift(gains.map_or(targets, |gains| targets.with_startup_gains(gains)))
        }
        Algorithm::Bbr1(all) => Algorithm::Bbr1(
            table.ack_aggregation.map_or(all, |is_on| all.with_ack_aggregation(is_on)),
        ),
        Algorithm::Cubic(all) => Algorithm::Cubic(match table.cubic {
            None => all,
            Some(Cubic::Rfc9438) => all.with_rules(CubicRules::Rfc9438),
            Some(Cubic::Linux) => all.with_rules(CubicRules::Linux),
        }),
        others => others,
    })
}

/// The longest target of bbr-swift: the core counts it in 32 bits of nanoseconds.
const MAX_TARGET: Duration = Duration::from_secs(4);

/// Reads bbr-swift's targets. The first has the hops in it.
fn swift(table: &FlowTable, algorithm: Algorithm, field: &str) -> Result<BbrSwiftOptions, Wrong> {
    let fields = [
        ("swift_target", table.swift_target),
        ("swift_range", table.swift_range),
        ("swift_endpoint", table.swift_endpoint),
    ];
    let standard = BbrSwiftOptions::new();
    let Some((name, _)) = fields.iter().find(|(_, time)| time.is_some()) else {
        return Ok(standard);
    };
    if !matches!(algorithm, Algorithm::BbrSwift(_)) {
        let why = "only bbr-swift has it; write cc = \"bbr-swift\" too, or leave it out";
        return Err(Wrong::new(format!("{field}.{name}"), why));
    }
    if let Some((name, _)) = fields.iter().find(|(_, time)| time.is_some_and(|t| t.0 > MAX_TARGET))
    {
        let why = "above 4s, which is the longest target of bbr-swift; write a shorter one";
        return Err(Wrong::new(format!("{field}.{name}"), why));
    }
    let of = |time: Option<Time>, standard| time.map_or(standard, |t| t.0);
    let hops = if table.swift_target.is_some() { 0 } else { standard.hops() };
    Ok(standard
        .with_base_target(of(table.swift_target, standard.base_target()))
        .with_hops(hops)
        .with_flow_scaling_range(of(table.swift_range, standard.flow_scaling_range()))
        .with_endpoint_target(of(table.swift_endpoint, standard.endpoint_target())))
}

/// Reads the settings that only TCP has.
fn tcp_config(table: &FlowTable, field: &str) -> Result<TcpConfig, Wrong> {
    let fields = [
        ("reordering", table.reordering.is_some()),
        ("rto_min", table.rto_min.is_some()),
        ("idle_restart", table.idle_restart.is_some()),
        ("prr", table.prr.is_some()),
    ];
    if let Some((name, _)) = fields.iter().find(|(_, is_there)| *is_there)
        && table.transport != Some(Protocol::Tcp)
    {
        let why = "only tcp has it; write transport = \"tcp\" too, or leave it out";
        return Err(Wrong::new(format!("{field}.{name}"), why));
    }
    let standard = TcpConfig::default();
    Ok(TcpConfig {
        reordering: match table.reordering {
            None => standard.reordering,
            Some(LossDetection::Rack) => Reordering::Rack,
            Some(LossDetection::Threshold) => Reordering::Threshold,
        },
        rto_min: table.rto_min.map_or(standard.rto_min, |t| t.0),
        idle_restart: table.idle_restart.unwrap_or(standard.idle_restart),
        prr: table.prr.unwrap_or(standard.prr),
    })
}

fn application(app: App, field: &str) -> Result<Application, Wrong> {
    let zero = |what: &str| {
        Err(Wrong::new(format!("{field}.app"), format!("{what} must be greater than 0")))
    };
    let too_often = |what: &str, instead: &str| {
        let why = format!("makes {what} a second, the most is {MAX_PER_SEC}; write {instead}");
        Err(Wrong::new(format!("{field}.app"), why))
    };
    Ok(match app {
        App::Bulk {} => Application::Bulk,
        App::Bytes(bytes) if bytes.0 == 0 => return zero("bytes"),
        App::Bytes(bytes) => Application::Bytes(bytes.0),
        App::RateLimited(RateLimited { rate, write }) => {
            let write_bytes = write.map_or(WRITE_BYTES, |n| n.0);
            if write_bytes == 0 {
                return zero("write");
            }
            let writes = rate.0.as_bytes_per_sec() / write_bytes;
            if writes > MAX_PER_SEC {
                return too_often(&format!("{writes} writes"), "a lower rate or larger writes");
            }
            Application::RateLimited { rate: rate.0, write_bytes }
        }
        App::OnOff(OnOff { on, .. }) if on.0 == Duration::ZERO => return zero("on"),
        App::OnOff(OnOff { on, off }) => {
            let steps = 2_000_000_000 / on.0.as_nanos().saturating_add(off.0.as_nanos()).max(1);
            if steps > MAX_PER_SEC {
                return too_often(&format!("{steps} steps"), "longer times");
            }
            Application::OnOff { on: on.0, off: off.0 }
        }
        App::RequestResponse(RequestResponse { response, .. }) if response.0 == 0 => {
            return zero("response");
        }
        App::RequestResponse(RequestResponse { response, think }) => {
            Application::RequestResponse { response_bytes: response.0, think: think.0 }
        }
        App::ShortFlows(ShortFlows { bytes, every })
            if bytes.0 == 0 || every.0 == Duration::ZERO =>
        {
            return zero("bytes and every");
        }
        App::ShortFlows(ShortFlows { bytes, every }) => {
            Application::ShortFlows { bytes: bytes.0, mean_interval: every.0 }
        }
        App::Media(table) => Application::Media(media(&table, &format!("{field}.app.media"))?),
    })
}

fn media(table: &MediaTable, field: &str) -> Result<Media, Wrong> {
    let wrong = |name: &str, why: String| Err(Wrong::new(format!("{field}.{name}"), why));
    let fps = table.fps.unwrap_or(FPS);
    if !(1..=MAX_FPS).contains(&fps) {
        return wrong("fps", format!("{fps} frames a second; write 1 to {MAX_FPS}"));
    }
    let keyframe_size = table.keyframe_size.unwrap_or(KEYFRAME_SIZE);
    if !(1..=1_000).contains(&keyframe_size) {
        return wrong("keyframe_size", format!("{keyframe_size} frames; write 1 to 1000"));
    }
    let keyframes = table.keyframes.map_or(Duration::ZERO, |time| time.0);
    if keyframes == Duration::ZERO && table.keyframe_size.is_some() {
        return wrong(
            "keyframe_size",
            "there are no keyframes; write keyframes = \"2s\"".to_owned(),
        );
    }
    let least = Duration::from_nanos(2_000_000_000 / u64::from(fps));
    if keyframes > Duration::ZERO && keyframes < least {
        let least = show_duration(Duration::from_millis(2_000_u64.div_ceil(u64::from(fps))));
        return wrong("keyframes", format!("less than two frames; write {least} or more"));
    }
    let bitrate = table.bitrate.0;
    let adapts =
        [("min", table.min.is_some()), ("max", table.max.is_some()), ("probe", table.probe)];
    if let Some((name, _)) = adapts.into_iter().find(|(_, is_there)| *is_there && !table.adapt) {
        return wrong(name, "without adapt the bitrate stays; write adapt = true".to_owned());
    }
    let most = bitrate.as_bytes_per_sec().saturating_mul(4);
    let max = table.max.map_or(Rate::from_bytes_per_sec(most), |rate| rate.0);
    let least = Rate::from_bytes_per_sec((bitrate.as_bytes_per_sec() / 10).max(1));
    let min = table.min.map_or(least, |rate| rate.0);
    if table.adapt && !(min <= bitrate && bitrate <= max) {
        let name = if min > bitrate { "min" } else { "max" };
        return wrong(name, "the bitrate is not between min and max; write it there".to_owned());
    }
    Ok(Media {
        bitrate,
        fps,
        keyframes,
        keyframe_size,
        adapt: table.adapt.then_some(Adapt { min, max, probe: table.probe }),
        playout: table.playout.map_or(PLAYOUT, |time| time.0),
    })
}

fn direction(table: &FlowTable, field: &str, net: &Net) -> Result<Direction, Wrong> {
    if table.direction == Direction::Down {
        return Ok(Direction::Down);
    }
    let has_rate = |element: &ElementConfig| {
        matches!(element, ElementConfig::Bottleneck { .. } | ElementConfig::Shaper { .. })
    };
    if !net.uplink.row.iter().any(has_rate) {
        let why = "the way up has no rate; write path.up = [{ bottleneck = { rate = \"10mbit\", buffer = \"64kB\" } }]";
        return Err(Wrong::new(format!("{field}.direction"), why));
    }
    Ok(Direction::Up)
}

pub(super) fn cross(
    table: &CrossTable,
    i: usize,
    net: &Net,
    routes: &mut Routes,
) -> Result<RoutedTraffic, Wrong> {
    let field = format!("cross[{i}]");
    let packet = table.packet.map_or(u64::from(MTU_BYTES), |n| n.0);
    let packet_bytes = u32::try_from(packet).ok().filter(|n| (1..=65_000).contains(n));
    let packets_per_sec = table.rate.0.as_bytes_per_sec() / packet.max(1);
    if packets_per_sec > MAX_PER_SEC {
        let why = format!(
            "makes {packets_per_sec} packets a second, the most is {MAX_PER_SEC}; write a \
             lower rate or larger packets"
        );
        return Err(Wrong::new(format!("{field}.rate"), why));
    }
    let start = table.start.map_or(Duration::ZERO, |t| t.0);
    if table.stop.is_some_and(|stop| stop.0 <= start) {
        return Err(Wrong::new(format!("{field}.stop"), "not after the start; write a later time"));
    }
    let traffic = CrossTraffic {
        rate: table.rate.0,
        packet_bytes: packet_bytes.ok_or_else(|| {
            Wrong::new(format!("{field}.packet"), "no packet; write 1B to 65000B, like 1500B")
        })?,
        arrivals: match table.arrivals {
            Spacing::Constant => Arrivals::Constant,
            Spacing::Poisson => Arrivals::Poisson,
        },
        start,
        stop: table.stop.map(|t| t.0),
    };
    let route = match &net.nodes {
        Some(nodes) => Some(routes.of_cross(nodes, table, &field)?),
        None if table.from.is_some() || table.to.is_some() => {
            let why =
                "there are no nodes for from and to; write [[node]] tables, or leave them out";
            return Err(Wrong::new(field, why));
        }
        None => {
            let text = table.route.as_deref();
            routes.over_chain(text, Direction::Down, net.links.len(), &field)?
        }
    };
    Ok(RoutedTraffic { traffic, route })
}
