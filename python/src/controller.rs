//! The core for one flow: what a transport in Rust has, in Python's words.

use std::sync::Arc;

use fullpipe_cc::{
    BandwidthProbe, Config, Duration, Instant, PacketState, Rate, RttSample, SendDecision,
};
use fullpipe_scenario::Cc;
use pyo3::prelude::*;

use crate::algorithm::Call;
use crate::error::of_argument;

/// A packet's state, which is kept beside it until it is acknowledged or lost.
#[pyclass(frozen, module = "fullpipe._fullpipe")]
pub(crate) struct Packet {
    state: PacketState,
    /// Its size in bytes, without headers of IP and UDP.
    #[pyo3(get)]
    bytes: u32,
}

/// Congestion control of one flow. Times are nanoseconds of the caller's clock.
#[pyclass(module = "fullpipe._fullpipe")]
pub(crate) struct Controller {
    controller: fullpipe_cc::Controller,
    call: Arc<Call>,
}

impl Controller {
    /// Does what may call an algorithm in Python.
    ///
    /// # Errors
    /// It raised.
    fn call<R>(&mut self, work: impl FnOnce(&mut fullpipe_cc::Controller) -> R) -> PyResult<R> {
        let result = self.call.within(|| work(&mut self.controller));
        self.call.failure().map_or(Ok(result), Err)
    }
}

#[pymethods]
impl Controller {
    #[new]
    #[pyo3(signature = (algorithm = "bbr3", *, seed = 1, smss = 1200, now_ns = 0))]
    fn new(algorithm: &str, seed: u64, smss: u32, now_ns: u64) -> PyResult<Self> {
        let cc: Cc = algorithm.parse().map_err(|e| of_argument("algorithm", e))?;
        let ours = cc.algorithm().ok_or_else(|| {
            of_argument("algorithm", format!("{cc} runs in a stack of other people's alone"))
        })?;
        if smss == 0 {
            return Err(of_argument("smss", "0; write the bytes of a full packet"));
        }
        let config = Config { smss, ..Config::new(seed) };
        let call = Arc::new(Call::default());
        let now = Instant::from_nanos(now_ns);
        let controller = call.within(|| fullpipe_cc::Controller::new(ours, config, now));
        call.failure().map_or(Ok(Self { controller, call }), Err)
    }

    /// The time at which a packet may leave, in nanoseconds: `now_ns` if at once; None while the
    /// window is full.
    fn send_at(&mut self, now_ns: u64) -> Option<u64> {
        match self.controller.can_send(Instant::from_nanos(now_ns)) {
            SendDecision::Now { .. } => Some(now_ns),
            SendDecision::At(time) => Some(time.as_nanos()),
            SendDecision::CwndLimited => None,
        }
    }

    /// A packet left.
    fn on_sent(&mut self, now_ns: u64, bytes: u32) -> PyResult<Packet> {
        let state = self.call(|cc| cc.on_sent(Instant::from_nanos(now_ns), bytes))?;
        Ok(Packet { state, bytes })
    }

    /// An ACK, or a timer that declared packets lost: all that it said, at once. Without `rtt_ns`
    /// the round trip is taken of the newest packet of `acked`.
    #[pyo3(signature = (now_ns, acked, lost, *, rtt_ns = None, ce = 0, timeout = false))]
    fn on_ack(
        &mut self,
        now_ns: u64,
        acked: Vec<PyRef<'_, Packet>>,
        lost: Vec<PyRef<'_, Packet>>,
        rtt_ns: Option<u64>,
        ce: u64,
        timeout: bool,
    ) -> PyResult<()> {
        self.call(|cc| {
            let mut batch = cc.ack(Instant::from_nanos(now_ns));
            acked.iter().for_each(|packet| batch.acked(&packet.state));
            lost.iter().for_each(|packet| batch.lost(&packet.state));
            if let Some(rtt) = rtt_ns {
                batch.rtt(RttSample::Exact(Duration::from_nanos(rtt)));
            }
            batch.ce(ce);
            if timeout {
                batch.timeout();
            }
            batch.finish();
        })
    }

    /// The application has nothing to send, although the window has room.
    fn on_app_limited(&mut self) {
        self.controller.on_app_limited();
    }

    /// Congestion window in bytes.
    #[getter]
    fn cwnd(&self) -> u64 {
        self.controller.cwnd()
    }

    /// Bytes in flight.
    #[getter]
    fn inflight(&self) -> u64 {
        self.controller.inflight()
    }

    /// Pacing rate in bit/s; None when the algorithm leaves pacing to the transport.
    #[getter]
    fn pacing_bps(&self) -> Option<u64> {
        self.controller.pacing_rate().map(Rate::as_bits_per_sec)
    }

    /// The rate in bit/s that an application may plan with; None before the first round trip.
    #[getter]
    fn send_rate_estimate_bps(&self) -> Option<u64> {
        self.controller.send_rate_estimate().map(Rate::as_bits_per_sec)
    }

    /// Asks whether the path carries `target_bps`: "reached", "probing", or the reason why not now.
    fn probe_bandwidth(&mut self, now_ns: u64, target_bps: u64) -> PyResult<&'static str> {
        let target = Rate::from_bits_per_sec(target_bps);
        let answer = self.call(|cc| cc.probe_bandwidth(Instant::from_nanos(now_ns), target))?;
        Ok(match answer {
            BandwidthProbe::Reached => "reached",
            BandwidthProbe::Probing => "probing",
            BandwidthProbe::NotNow(reason) => reason.name(),
            _ => "other",
        })
    }

    /// State of the algorithm, in the draft's spelling.
    #[getter]
    fn state(&self) -> &'static str {
        self.controller.snapshot().state.name()
    }

    /// Every variable of the model, as JSON.
    fn snapshot_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.controller.snapshot()).map_err(crate::error::of_run)
    }
}
