//! One direction of a network path, with the fields of a scenario's `[path]`.

use std::sync::Arc;

use fullpipe_cc::Instant;
use fullpipe_judge::program::ProgramPath;
use fullpipe_scenario::Edition;
use pyo3::prelude::*;

use crate::error::{of_argument, of_file};

/// A packet that came out of a path, or was dropped on it.
#[pyclass(frozen, get_all, module = "fullpipe._fullpipe")]
pub(crate) struct Event {
    /// Time at which it left the path or was dropped.
    at_ns: u64,
    /// The sender's payload.
    payload: Py<PyAny>,
    /// Reason of a drop; None for a packet that was delivered.
    dropped: Option<String>,
    /// Queueing delay; 0 for a packet that was dropped.
    queued_ns: u64,
    /// True if bits of it were changed on the way.
    corrupted: bool,
}

/// A row of elements that packets pass. Times are nanoseconds of the caller's clock.
#[pyclass(module = "fullpipe._fullpipe")]
pub(crate) struct Path(fullpipe_path::Path<Arc<Py<PyAny>>>);

impl Event {
    fn of(py: Python<'_>, event: fullpipe_path::Event<Arc<Py<PyAny>>>) -> Self {
        let at_ns = event.at().as_nanos();
        match event {
            fullpipe_path::Event::Delivered(d) => Self {
                at_ns,
                payload: d.payload.clone_ref(py),
                dropped: None,
                queued_ns: d.queued.as_nanos(),
                corrupted: d.corrupted,
            },
            fullpipe_path::Event::Dropped(d) => Self {
                at_ns,
                payload: d.payload.clone_ref(py),
                dropped: Some(d.reason.to_string()),
                queued_ns: 0,
                corrupted: false,
            },
        }
    }
}

#[pymethods]
impl Path {
    /// The path of a scenario's text; `back` is the way of its ACKs.
    #[new]
    #[pyo3(signature = (text, back = false))]
    fn new(text: &str, back: bool) -> PyResult<Self> {
        let directory = std::path::Path::new("");
        let plan =
            fullpipe_report::plan::Plan::parse(text, "path", "path", directory, Edition::default());
        let plan = plan.map_err(of_file)?;
        let path = ProgramPath::of(&plan, back).map_err(|e| of_argument("path", e))?;
        let path = fullpipe_path::Path::new(&path.down).map_err(|e| of_argument("path", e))?;
        Ok(Self(path))
    }

    /// A packet enters. One that is dropped on the spot is returned; later drops come out of
    /// `poll`.
    fn send(
        &mut self,
        py: Python<'_>,
        now_ns: u64,
        wire_bytes: u32,
        payload: Py<PyAny>,
    ) -> Option<Event> {
        let sent = self.0.send(Instant::from_nanos(now_ns), wire_bytes, Arc::new(payload));
        sent.err().map(|dropped| Event::of(py, fullpipe_path::Event::Dropped(dropped)))
    }

    /// The time of the next event, in nanoseconds; None while the path is empty.
    fn next_event(&self) -> Option<u64> {
        self.0.next_event().map(Instant::as_nanos)
    }

    /// The next event until then; None when there is none.
    fn poll(&mut self, py: Python<'_>, now_ns: u64) -> Option<Event> {
        self.0.poll(Instant::from_nanos(now_ns)).map(|event| Event::of(py, event))
    }

    /// Packets sent, delivered and dropped so far, and those inside.
    #[getter]
    fn counts(&self) -> (u64, u64, u64, u64) {
        let stats = self.0.stats();
        let [sent, out, dropped, inside] =
            [stats.arrived, stats.delivered, stats.dropped(), stats.inside];
        (sent.packets, out.packets, dropped.packets, inside.packets)
    }
}
