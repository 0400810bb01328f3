//! A qlog for each flow of a run: the main schema's version 0.3 as JSON-SEQ, which is what qvis
//! reads.
//!
//! The events are those of the qlog crate, and the framing is ours: its streamer keeps time in 32
//! bits, and does not say why a file could not be written.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::qlog::events::quic::{
    CongestionStateUpdated, MetricsUpdated, PacketHeader, PacketSent, PacketType,
    RecoveryParametersSet,
};
use ::qlog::events::{EventData, RawInfo};
use ::qlog::{CommonFields, QLOG_VERSION, QlogSeq, TraceSeq, VantagePoint, VantagePointType};
use fullpipe_cc::{Controller, Duration, Instant, Rate, Transport};
use fullpipe_sim::FlowConfig;
use serde::Serialize;

use super::store::{StoreError, create_dir, file_name_of};
use crate::observe::FlowSample;
use crate::plan::Plan;
use crate::scenario::Scenario;

/// RFC 7464: the byte before every text of a sequence.
const RECORD_SEPARATOR: u8 = 0x1e;

/// Thousands of flows write by turns: a file is open only while so many bytes go to it.
const BUFFER_BYTES: usize = 8 << 10;

/// A directory that qlog files can be written into.
#[derive(Clone, Debug)]
pub struct QlogDir(PathBuf);

impl QlogDir {
    /// Makes the directory when it is not there.
    ///
    /// # Errors
    /// It cannot be made, or nothing can be written into it.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        create_dir(path)?;
        Ok(Self(path.to_owned()))
    }
}

/// The files of a run.
pub(crate) struct Qlog {
    logs: Vec<Log>,
}

impl Qlog {
    /// Begins the files of run number `index`, over those of an earlier run of that name.
    pub(crate) fn start(
        dir: &QlogDir,
        plan: &Plan,
        index: usize,
        scenario: &Scenario,
    ) -> Result<Self, StoreError> {
        let stem = file_name_of(&plan.name);
        let each = scenario.flows.iter().zip(&scenario.config.flows).enumerate();
        let logs = each.map(|(i, (label, flow))| {
            let name = file_name_of(&label.name);
            let path = dir.0.join(format!("{stem}-run{index}-flow{i}-{name}.sqlog"));
            let config = &flow.cc;
            let at = plan.grid.runs[index].at.iter().map(|(axis, value)| format!("{axis}={value}"));
            let title = format!("{}, run {index}, flow {i}: {}", plan.name, label.name);
            let about = [vec![format!("cc={}", label.cc)], at.collect()].concat().join(" ");
            let is_tcp = config.transport == Transport::Tcp;
            let mut log = Log { path, is_tcp, buffer: Vec::new(), state: None, packet: None };
            let begun = log.begin(title, about, flow);
            begun.and_then(|()| File::create(&log.path)).map_err(StoreError::at(&log.path))?;
            Ok(log)
        });
        Ok(Self { logs: logs.collect::<Result<_, _>>()? })
    }

    /// Writes the model of flow number `i` and its actions until now.
    pub(crate) fn sample(
        &mut self,
        i: usize,
        now: Duration,
        flow: &FlowSample,
    ) -> Result<(), StoreError> {
        let log = &mut self.logs[i];
        log.sample(now, flow).map_err(StoreError::at(&log.path))
    }

    /// Writes what is not in the files yet.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        let mut logs = self.logs.iter_mut();
        logs.try_for_each(|log| log.flush().map_err(StoreError::at(&log.path)))
    }
}

/// The file of a flow.
struct Log {
    path: PathBuf,
    is_tcp: bool,
    buffer: Vec<u8>,
    /// The values written last: the state, and the number of a packet.
    state: Option<&'static str>,
    packet: Option<u64>,
}

/// The crate's own event has a time of 32 bits, which after a minute are steps of 4 µs.
#[derive(Serialize)]
struct Event {
    time: f64,
    #[serde(flatten)]
    data: EventData,
}

impl Log {
    /// The head, and an event that is there also when the flow never has a row: qvis wants one.
    fn begin(&mut self, title: String, about: String, flow: &FlowConfig) -> io::Result<()> {
        let protocol = if self.is_tcp { "TCP" } else { "QUIC" };
        let trace = TraceSeq::new(
            // Data flow from the server, as in qvis.
            VantagePoint { name: Some("sender".into()), ty: VantagePointType::Server, flow: None },
            Some(title.clone()),
            Some(about),
            None,
            Some(CommonFields {
                group_id: None,
                protocol_type: Some(vec![protocol.into()]),
                reference_time: Some(0.0),
                time_format: Some("relative".into()),
            }),
        );
        self.record(&QlogSeq {
            qlog_version: QLOG_VERSION.into(),
            qlog_format: "JSON-SEQ".into(),
            title: Some(title),
            description: None,
            summary: None,
            trace,
        })?;
        let controller = Controller::new(flow.algorithm, flow.cc, Instant::default());
        let cwnd = controller.snapshot().cwnd;
        let parameters = RecoveryParametersSet {
            max_datagram_size: Some(flow.cc.smss),
            initial_congestion_window: Some(cwnd),
            ..Default::default()
        };
        self.event(flow.start, EventData::RecoveryParametersSet(parameters))
    }

    fn sample(&mut self, now: Duration, flow: &FlowSample) -> io::Result<()> {
        if let Some(packet) = flow.newest_packet.filter(|p| self.packet != Some(p.number)) {
            self.packet = Some(packet.number);
            let packet_type = if self.is_tcp { PacketType::Unknown } else { PacketType::OneRtt };
            let packet_number = Some(packet.number);
            let length = Some(u64::from(packet.bytes));
            let sent = PacketSent {
                header: PacketHeader { packet_type, packet_number, ..Default::default() },
                raw: Some(RawInfo { length, ..Default::default() }),
                ..Default::default()
            };
            self.event(packet.sent.since(Instant::default()), EventData::PacketSent(sent))?;
        }
        if let Some(state) = flow.state.filter(|state| self.state != Some(state)) {
            let old = self.state.replace(state).map(str::to_owned);
            let new = state.to_owned();
            let update = CongestionStateUpdated { old, new, trigger: None };
            self.event(now, EventData::CongestionStateUpdated(update))?;
        }
        let (stats, model) = (flow.sender, flow.model);
        let counts = [("sent_packets", stats.sent_packets), ("lost_packets", stats.lost_packets)];
        let metrics = MetricsUpdated {
            min_rtt: model.and_then(|m| m.bbr).and_then(|b| b.min_rtt).map(millis),
            smoothed_rtt: flow.srtt.map(millis),
            latest_rtt: flow.rtt.map(millis),
            congestion_window: Some(flow.cwnd),
            bytes_in_flight: flow.inflight,
            ssthresh: model.and_then(|m| m.ssthresh),
            pacing_rate: flow.pacing.map(Rate::as_bits_per_sec),
            ex_data: BTreeMap::from(counts.map(|(name, n)| (name.to_owned(), n.into()))),
            ..Default::default()
        };
        self.event(now, EventData::MetricsUpdated(metrics))?;
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn event(&mut self, at: Duration, data: EventData) -> io::Result<()> {
        self.record(&Event { time: at.as_nanos() as f64 / 1e6, data })
    }

    fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.buffer.push(RECORD_SEPARATOR);
        serde_json::to_writer(&mut self.buffer, record)?;
        self.buffer.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// As precise as the crate keeps it: seven digits.
fn millis(d: Duration) -> f32 {
    (d.as_nanos() as f64 / 1e6) as f32
}
