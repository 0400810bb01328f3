//! Congestion control in Python: an object whose methods are called with the connection.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fullpipe_cc::{
    Algorithm, Congestion, CongestionControl, Conn, CustomAlgorithm, CustomControl, Gain, Instant,
    Rate, RateSample, Snapshot, State,
};
use fullpipe_lab::RunError;
use fullpipe_report::metrics::RunResult;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::wait::LOOK;

/// A call from Python that has algorithms at work. What they raise their caller cannot hand on: it
/// is kept here.
#[derive(Default)]
pub(crate) struct Call {
    /// Set when the work shall end early, as it shall after an exception.
    pub(crate) stop: AtomicBool,
    /// The first exception of an algorithm, until somebody raises it.
    failure: Mutex<Option<PyErr>>,
}

thread_local! {
    /// Whose algorithms this thread calls.
    static CALL: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

/// Whose algorithms are called on the threads of a transport, which do not say so themselves.
static REAL_TIME: Mutex<Option<Arc<Call>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Call {
    /// The exception that an algorithm of this call raised, if one did. It is handed out once.
    pub(crate) fn failure(&self) -> Option<PyErr> {
        lock(&self.failure).take()
    }

    /// Does work that calls algorithms on this thread.
    pub(crate) fn within<R>(self: &Arc<Self>, work: impl FnOnce() -> R) -> R {
        struct Outer(Option<Arc<Call>>);
        impl Drop for Outer {
            fn drop(&mut self) {
                CALL.set(self.0.take());
            }
        }
        let _outer = Outer(CALL.replace(Some(self.clone())));
        work()
    }

    /// Carries out a run; without a result when the call has to end.
    pub(crate) fn run(
        self: &Arc<Self>,
        is_realtime: bool,
        run: impl FnOnce() -> Result<RunResult, RunError>,
    ) -> Result<RunResult, RunError> {
        let _turn = is_realtime.then(|| Turn::of(self)).transpose()?;
        let result = self.within(run);
        // An algorithm that raised may have let it end as usual.
        if self.stop.load(Ordering::Relaxed) { Err(RunError::StoppedEarly) } else { result }
    }
}

/// A run in real time, which would disturb another one.
struct Turn;

impl Turn {
    /// Waits until no other is under way.
    fn of(call: &Arc<Call>) -> Result<Self, RunError> {
        while !call.stop.load(Ordering::Relaxed) {
            let mut at = lock(&REAL_TIME);
            if at.is_none() {
                *at = Some(call.clone());
                return Ok(Self);
            }
            drop(at);
            std::thread::sleep(LOOK);
        }
        Err(RunError::StoppedEarly)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&REAL_TIME) = None;
    }
}

/// A connection as an algorithm sees it, and its control parameters, which it sets. Times are
/// nanoseconds, volumes bytes.
#[pyclass(module = "fullpipe._fullpipe")]
pub(crate) struct Connection {
    /// Congestion window.
    #[pyo3(get, set)]
    cwnd: u64,
    /// Pacing rate in bit/s; None when the transport is not to pace.
    #[pyo3(get, set)]
    pacing_bps: Option<u64>,
    /// The most that is sent in one burst.
    #[pyo3(get, set)]
    send_quantum: u64,
    #[pyo3(get)]
    smss: u64,
    #[pyo3(get)]
    initial_cwnd: u64,
    #[pyo3(get)]
    min_window: u64,
    #[pyo3(get)]
    timeout_window: u64,
    #[pyo3(get)]
    inflight: u64,
    #[pyo3(get)]
    delivered: u64,
    #[pyo3(get)]
    lost: u64,
    #[pyo3(get)]
    min_rtt_ns: Option<u64>,
    #[pyo3(get)]
    srtt_ns: Option<u64>,
    #[pyo3(get)]
    latest_rtt_ns: Option<u64>,
    #[pyo3(get)]
    in_recovery: bool,
    #[pyo3(get)]
    is_cwnd_limited: bool,
    /// Set by `pace_by_window`.
    gain_percent: Option<u32>,
}

#[pymethods]
impl Connection {
    /// Paces at so many percent of a window in each smoothed round trip.
    #[pyo3(signature = (gain_percent = 125))]
    fn pace_by_window(&mut self, gain_percent: u32) {
        self.gain_percent = Some(gain_percent);
    }
}

impl Connection {
    fn of(conn: &Conn) -> Self {
        Self {
            cwnd: conn.cwnd(),
            pacing_bps: conn.pacing_rate().map(Rate::as_bits_per_sec),
            send_quantum: conn.send_quantum(),
            smss: conn.smss(),
            initial_cwnd: conn.initial_cwnd(),
            min_window: conn.min_window(),
            timeout_window: conn.timeout_window(),
            inflight: conn.inflight(),
            delivered: conn.delivered(),
            lost: conn.lost(),
            min_rtt_ns: conn.min_rtt().map(|d| d.as_nanos()),
            srtt_ns: conn.srtt().map(|d| d.as_nanos()),
            latest_rtt_ns: conn.latest_rtt().map(|d| d.as_nanos()),
            in_recovery: conn.in_recovery(),
            is_cwnd_limited: conn.is_cwnd_limited(),
            gain_percent: None,
        }
    }

    /// Takes over what Python changed, within what a connection can have.
    fn apply(&self, conn: &mut Conn) -> PyResult<()> {
        if self.cwnd != conn.cwnd() {
            conn.set_cwnd(self.cwnd.max(conn.smss()));
        }
        if self.send_quantum != conn.send_quantum() {
            conn.set_send_quantum(self.send_quantum.max(conn.smss()));
        }
        if self.pacing_bps != conn.pacing_rate().map(Rate::as_bits_per_sec) {
            match self.pacing_bps.map(Rate::from_bits_per_sec) {
                Some(rate) if rate.as_bytes_per_sec() > 0 => conn.set_pacing_rate(rate),
                _ => return Err(PyValueError::new_err("pacing_bps is 8 bit/s or more")),
            }
        }
        if let Some(percent) = self.gain_percent {
            conn.pace_by_window(Gain::percent(percent));
        }
        Ok(())
    }
}

/// The delivery-rate sample of an ACK.
#[pyclass(frozen, get_all, module = "fullpipe._fullpipe")]
pub(crate) struct Sample {
    now_ns: u64,
    rtt_ns: Option<u64>,
    delivery_bps: u64,
    is_app_limited: bool,
    delivered: u64,
    prior_delivered: u64,
    newly_acked: u64,
    tx_in_flight: u64,
    lost: u64,
    prior_inflight: u64,
    /// True if the window may grow: the flow was limited by it.
    may_grow: bool,
}

impl Sample {
    fn of(conn: &Conn, rs: &RateSample) -> Self {
        Self {
            now_ns: rs.now.as_nanos(),
            rtt_ns: rs.rtt().map(|d| d.as_nanos()),
            delivery_bps: rs.delivery_rate.as_bits_per_sec(),
            is_app_limited: rs.is_app_limited,
            delivered: rs.delivered,
            prior_delivered: rs.prior_delivered,
            newly_acked: rs.newly_acked,
            tx_in_flight: rs.tx_in_flight,
            lost: rs.lost,
            prior_inflight: rs.prior_inflight,
            may_grow: conn.may_grow(rs),
        }
    }
}

/// An algorithm at work for one flow.
#[derive(Debug)]
struct InPython {
    name: &'static str,
    object: Py<PyAny>,
    /// True after an exception: the flow then stays as it is until its run is stopped.
    has_failed: bool,
}

impl Clone for InPython {
    fn clone(&self) -> Self {
        Python::attach(|py| {
            let copied =
                py.import("copy").and_then(|copy| copy.call_method1("deepcopy", (&self.object,)));
            let has_failed = copied.is_err();
            let object = copied.map_or_else(
                |error| {
                    note(error);
                    self.object.clone_ref(py)
                },
                Bound::unbind,
            );
            Self { name: self.name, object, has_failed: self.has_failed || has_failed }
        })
    }
}

/// Keeps an exception for the call that this thread works for.
fn note(error: PyErr) {
    let call = CALL.with_borrow(Clone::clone).or_else(|| lock(&REAL_TIME).clone());
    match call {
        Some(call) => {
            lock(&call.failure).get_or_insert(error);
            call.stop.store(true, Ordering::Relaxed);
        }
        None => Python::attach(|py| error.write_unraisable(py, None)),
    }
}

impl InPython {
    /// Calls a method with the connection and what else it gets; without the method nothing
    /// happens, and this is false.
    fn call(
        &mut self,
        name: impl Fn(Python<'_>) -> &Bound<'_, PyString>,
        conn: &mut Conn,
        more: impl FnOnce(Python<'_>, &Conn) -> PyResult<Option<Py<PyAny>>>,
    ) -> bool {
        if self.has_failed {
            return true;
        }
        let called = Python::attach(|py| {
            let Some(method) = self.object.bind(py).getattr_opt(name(py))? else {
                return Ok(false);
            };
            let connection = Bound::new(py, Connection::of(conn))?;
            match more(py, conn)? {
                Some(argument) => method.call1((&connection, argument))?,
                None => method.call1((&connection,))?,
            };
            connection.borrow().apply(conn)?;
            Ok(true)
        });
        called.unwrap_or_else(|error| {
            self.has_failed = true;
            note(error);
            true
        })
    }
}

fn nothing(_: Python<'_>, _: &Conn) -> PyResult<Option<Py<PyAny>>> {
    Ok(None)
}

impl CongestionControl for InPython {
    fn on_enter_recovery(&mut self, conn: &mut Conn) {
        self.call(|py| intern!(py, "on_enter_recovery"), conn, nothing);
    }

    fn on_exit_recovery(&mut self, conn: &mut Conn) {
        self.call(|py| intern!(py, "on_exit_recovery"), conn, nothing);
    }

    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        let new_episode = congestion.new_episode;
        let more = |py: Python<'_>, _: &Conn| {
            Ok(Some(new_episode.into_pyobject(py)?.to_owned().into_any().unbind()))
        };
        self.call(|py| intern!(py, "on_congestion"), conn, more);
    }

    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let more =
            |py: Python<'_>, conn: &Conn| Ok(Some(Py::new(py, Sample::of(conn, rs))?.into_any()));
        self.call(|py| intern!(py, "on_ack"), conn, more);
    }

    fn on_rto(&mut self, conn: &mut Conn) {
        if !self.call(|py| intern!(py, "on_rto"), conn, nothing) {
            conn.set_cwnd(conn.timeout_window());
        }
    }

    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        let more = |py: Python<'_>, _: &Conn| Ok(Some(cwnd.into_pyobject(py)?.into_any().unbind()));
        if !self.call(|py| intern!(py, "on_idle"), conn, more) {
            conn.set_cwnd(cwnd);
        }
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, self.name, State::CongestionAvoidance)
    }
}

/// Makes a name mean an algorithm: `new` is called without arguments for each flow that has it. A
/// name stays for as long as the process, and so does what is behind it.
#[pyfunction]
pub(crate) fn register(name: String, new: Py<PyAny>) -> PyResult<()> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(PyValueError::new_err(format!(
            "'{}' is no name of an algorithm; write letters, digits, -, _ and .",
            name.escape_debug()
        )));
    }
    if name.parse::<Algorithm>().is_ok() {
        return Err(PyValueError::new_err(format!("'{name}' is an algorithm of fullpipe's")));
    }
    let name: &'static str = name.leak();
    let make =
        move |conn: &mut Conn, _: Instant, _: &fullpipe_cc::Config| -> Box<dyn CustomControl> {
            let object = Python::attach(|py| match new.call0(py) {
                Ok(object) => Some(object),
                Err(error) => {
                    note(error);
                    None
                }
            });
            let has_failed = object.is_none();
            let object = object.unwrap_or_else(|| Python::attach(|py| py.None()));
            let mut control = InPython { name, object, has_failed };
            control.call(|py| intern!(py, "on_start"), conn, nothing);
            Box::new(control)
        };
    let algorithm = CustomAlgorithm { name, new: Box::leak(Box::new(make)) };
    fullpipe_adapter::register_algorithms(&[Box::leak(Box::new(algorithm))]);
    Ok(())
}
