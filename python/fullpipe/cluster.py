"""Sweeps on a Ray cluster.

The runs of a grid are dealt out to batches of about a second: batch ``k`` of ``n`` has the runs ``k``, ``k + n``,
``k + 2n`` and so on, so that batches take about equally long. A worker writes the tables of its batch and then the
batch's entry of the journal, each under a temporary name that is renamed when the file is whole. The names depend on
the batch's number alone, and the content on the scenario alone: a batch that runs again writes the same files.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import tempfile
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet
import ray
from fsspec.implementations.local import LocalFileSystem

from ._core import algorithm, registered
from ._errors import OutputError, RunError, ScenarioError
from ._fullpipe import Plan, __version__
from ._results import Results, expectations_of
from ._run import _bar
from ._scenario import ScenarioLike, plan_of

TABLES = ("summary", "flows", "links", "series")

#: Time for which runs are measured before they are dealt out to batches, in seconds.
_MEASURE = 0.5

#: Files that are read at a time.
_READERS = 16

#: Batches for each worker at the least, so that none waits for the last one long.
_SHARE = 8


@dataclass(frozen=True)
class _Head:
    """The sweep of a directory of results: ``sweep.json``."""

    fullpipe: str
    scenario: str
    runs: int
    batches: int


@dataclass(frozen=True)
class _Job:
    """A sweep, as a worker gets it."""

    head: _Head
    #: This call of :func:`sweep`'s own.
    id: str
    name: str
    text: str
    #: Traces that the scenario names: name and content.
    files: tuple[tuple[str, str], ...]
    #: Algorithms in Python that the driver has registered.
    algorithms: tuple[tuple[str, Any], ...]
    out: str
    storage: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Done:
    """Entry of the journal: a batch that is done."""

    batch: int
    runs: list[int]
    """The runs of the batch."""
    probes: list[list[float | None]]
    """The values that each brought for the expectations."""
    seconds: float
    """Time that the simulator took."""
    written: float
    """Time that the tables took, in seconds."""
    ended: float
    """The time at which it ended, in seconds since 1970."""
    node: str
    """The node of the cluster that ran it."""


class _Store:
    """A directory of results behind fsspec, for the sweep of this id."""

    def __init__(self, out: str, storage: Iterable[tuple[str, Any]], id: str = "") -> None:
        self.fs, root = fsspec.core.url_to_fs(out, **dict(storage))
        self.root: str = root.rstrip("/")
        self.is_local = isinstance(self.fs, LocalFileSystem)
        self.end = f".{id}.tmp"

    def path(self, *names: str) -> str:
        return "/".join((self.root, *names))

    def write(self, content: bytes, *names: str) -> None:
        """Writes a file that is there as a whole or not at all."""
        path = self.path(*names)
        try:
            temporary = self._write_temporary(content, path)
            # Where fsspec's `mv` copies, it takes a name for a pattern.
            if self.fs.async_impl or type(self.fs).mv is fsspec.AbstractFileSystem.mv:
                self.fs.cp_file(temporary, path)
                self.fs.rm_file(temporary)
            else:
                self.fs.mv(temporary, path)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error}") from error

    def create(self, content: bytes, *names: str) -> None:
        """Writes a file unless it is there: where the store can tell, also of two that do so at once one alone does."""
        path = self.path(*names)
        with contextlib.suppress(NotImplementedError, OSError, TypeError):
            if self.is_local:
                temporary = self._write_temporary(content, path)
                try:
                    os.link(temporary, path)
                finally:
                    os.remove(temporary)
            elif self.fs.async_impl:
                self.fs.pipe_file(path, content, mode="create")
        # Where the store cannot tell.
        if self.read(*names) is None:
            self.write(content, *names)

    def _write_temporary(self, content: bytes, path: str) -> str:
        directory, name = path.rsplit("/", 1)
        temporary = f"{directory}/.{name}.{uuid.uuid4().hex}{self.end}"
        self.fs.makedirs(directory, exist_ok=True)
        with self.fs.open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            # Only files of this machine have a descriptor.
            descriptor = None
            with contextlib.suppress(AttributeError, OSError):
                descriptor = file.fileno()
            if descriptor is not None:
                os.fsync(descriptor)
        return temporary

    def read(self, *names: str) -> bytes | None:
        """The content of a file; None where there is none."""
        try:
            content: bytes = self.fs.cat_file(self.path(*names))
        except FileNotFoundError:
            return None
        return content

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory; none where there is no directory."""
        try:
            self.fs.invalidate_cache()
            found = self.fs.ls(self.path(directory), detail=False)
        except FileNotFoundError:
            return []
        return [path.rsplit("/", 1)[-1] for path in found]

    def remove_temporary(self) -> None:
        """Removes what killed workers of this sweep left."""
        for directory in (*TABLES, "journal"):
            for name in self.names(directory):
                if name.startswith(".") and name.endswith(self.end):
                    with contextlib.suppress(FileNotFoundError):
                        self.fs.rm_file(self.path(directory, name))


def _entry(batch: int) -> str:
    return f"{batch:06}.json"


def _runs_of(head: _Head, batch: int) -> list[int]:
    return list(range(batch, head.runs, head.batches))


#: The plans that this worker has read, by the sweep's id; the newest alone, because a large grid is large.
_plans: dict[str, Plan] = {}


def _plan(job: _Job) -> Plan:
    """The plan of a job, read once in each worker."""
    if job.id not in _plans:
        _plans.clear()
        _plans[job.id] = _read(job)
    return _plans[job.id]


def _read(job: _Job) -> Plan:
    for name, new in job.algorithms:
        algorithm(name)(new)
    with tempfile.TemporaryDirectory() as directory:
        for name, content in job.files:
            path = Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        plan = Plan.parse(job.text, name=job.name, directory=directory)
    if (__version__, plan.fingerprint) != (job.head.fullpipe, job.head.scenario):
        raise RunError(
            f"a worker has fullpipe {__version__}, which reads the scenario in another way than the driver's "
            f"{job.head.fullpipe}; install one version everywhere"
        )
    return plan


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(table, out)
    return out.getvalue()


def _run_batch(job: _Job, batch: int) -> tuple[int, float, float]:
    """Runs a batch on a worker and writes what came of it."""
    plan = _plan(job)
    store = _Store(job.out, job.storage, job.id)
    runs = _runs_of(job.head, batch)
    begun = time.perf_counter()
    results = plan.run(runs)
    ran = time.perf_counter()
    for name in TABLES:
        table = results.table(name)
        if len(table) > 0:
            store.write(_parquet(pa.table(table)), name, f"{batch:06}.parquet")
    written = time.perf_counter()
    node = ray.get_runtime_context().get_node_id()
    done = Done(batch, runs, results.probes(), ran - begun, written - ran, time.time(), node)
    store.write(json.dumps(asdict(done)).encode(), "journal", _entry(batch))
    return batch, done.seconds, done.written


def _trace_files(plan: Plan, scenario: ScenarioLike) -> tuple[tuple[str, str], ...]:
    """The traces that a scenario names, for workers that have not its directory."""
    directory = Path(scenario).parent if isinstance(scenario, (str, os.PathLike)) else Path()
    for name in plan.trace_files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            message = f"'{name}' is not below the scenario's directory; a cluster gets traces from there alone"
            raise ScenarioError(f"trace: {message}", field="trace", message=message)
    return tuple((name, Path(directory, name).read_text(encoding="utf-8")) for name in plan.trace_files)


def _batches(plan: Plan, seconds: float) -> int:
    """The number of batches of about so many seconds."""
    runs = len(plan)
    # Points from all over the grid.
    sample = [run * runs // 64 for run in range(64)] if runs > 64 else list(range(runs))
    begun, measured = time.perf_counter(), 0
    while measured < len(sample) and time.perf_counter() - begun < _MEASURE:
        # Twice as many each time: what a call costs by itself counts little.
        part = sample[measured : 2 * measured + 1]
        plan.run(part)
        measured += len(part)
    each = (time.perf_counter() - begun) / measured
    workers = int(ray.cluster_resources().get("CPU", 1))
    return min(runs, max(math.ceil(runs * each / seconds), _SHARE * workers))


def _head(store: _Store) -> _Head | None:
    try:
        known = store.read("sweep.json")
        return None if known is None else _Head(**json.loads(known))
    except (OSError, TypeError, ValueError) as error:
        raise OutputError(f"{store.path('sweep.json')} cannot be read: {error}") from error


def _open(store: _Store, plan: Plan, seconds: float) -> _Head:
    """Begins a sweep, or goes on with that of the directory."""
    head = _head(store)
    if head is None:
        # What a driver leaves that was killed here is no reason to refuse.
        names = [name for name in store.names("") if not (name.startswith(".") and name.endswith(".tmp"))]
        if names and (names != ["scenario.toml"] or store.read("scenario.toml") != plan.text.encode()):
            raise OutputError(f"{store.root} has files of something else; choose another directory")
        ours = _Head(__version__, plan.fingerprint, len(plan), _batches(plan, seconds))
        store.write(plan.text.encode(), "scenario.toml")
        store.create(json.dumps(asdict(ours)).encode(), "sweep.json")
        # Another driver may have been faster.
        head = _head(store) or ours
    if head.fullpipe != __version__:
        raise OutputError(f"{store.root} was begun by fullpipe {head.fullpipe}; choose another directory")
    if head.scenario != plan.fingerprint:
        raise OutputError(f"{store.root} holds the results of another scenario; choose another directory")
    return head


def journal(out: str, storage_options: dict[str, Any] | None = None) -> list[Done]:
    """The batches that are done in a directory of results, in their order."""
    store = _Store(out, (storage_options or {}).items())
    names = [name for name in store.names("journal") if not name.startswith(".")]
    with ThreadPoolExecutor(_READERS) as readers:
        contents = list(readers.map(lambda name: store.read("journal", name), names))
    return sorted((Done(**json.loads(text)) for text in contents if text), key=lambda done: done.batch)


def read(out: str, name: str, storage_options: dict[str, Any] | None = None) -> pa.Table:
    """A table of a directory of results, in the order of the grid."""
    store = _Store(out, (storage_options or {}).items())
    files = sorted(file for file in store.names(name) if not file.startswith("."))
    if not files:
        raise OutputError(f"{store.path(name)} holds no table")
    paths = [store.path(name, file) for file in files]
    table: pa.Table = pa.dataset.dataset(paths, filesystem=store.fs, format="parquet").to_table()
    # A stable sort: within a run the rows stay in their order.
    return table.take(pa.compute.sort_indices(table, sort_keys=[("run", "ascending")])).combine_chunks()


def sweep(
    scenario: ScenarioLike,
    out: str,
    *,
    address: str | None = None,
    batch_seconds: float = 1.0,
    retries: int = 5,
    storage_options: dict[str, Any] | None = None,
    max_memory: str = "2GB",
    progress: bool = True,
) -> Results:
    """Runs every point of a scenario's grid on a Ray cluster: ``fullpipe.sweep(..., on="ray")``.

    ``out`` is a path that fsspec knows and every node reaches. A sweep that was stopped goes on from there. ``address``
    is that of the cluster, unless :func:`ray.init` was called before. A batch takes about ``batch_seconds``; one whose
    worker died is run again up to ``retries`` times. ``max_memory`` is the most that a run may need.

    :raises ScenarioError: the scenario cannot be run.
    :raises RunError: a run gave no result, or the workers of a batch died too often.
    :raises OutputError: the directory cannot be written, or is another sweep's.
    """
    plan = plan_of(scenario)
    plan.check(1, max_memory)
    if not ray.is_initialized():
        ray.init(address=address)
    options = dict(storage_options or {})
    if "://" not in out:
        out = os.path.abspath(out)
    id = uuid.uuid4().hex
    store = _Store(out, options.items(), id)
    if store.is_local:
        # A worker has a working directory of its own.
        out = store.root
    head = _open(store, plan, batch_seconds)
    traces, algorithms = _trace_files(plan, scenario), tuple(registered.items())
    job = _Job(head, id, plan.name, plan.text, traces, algorithms, out, tuple(options.items()))
    known = {int(name.split(".")[0]) for name in store.names("journal") if not name.startswith(".")}
    _carry_out(job, [batch for batch in range(head.batches) if batch not in known], retries, progress)
    store.remove_temporary()
    probes: list[list[float | None]] = [[] for _ in range(head.runs)]
    missing = set(range(head.runs))
    for done in journal(out, options):
        for run, values in zip(done.runs, done.probes, strict=True):
            if run not in missing:
                raise OutputError(f"{store.root}: the journal has run {run} once too often; choose another directory")
            missing.remove(run)
            probes[run] = values
    if missing:
        raise OutputError(f"{store.root}: the journal has no run {min(missing)}; begin the sweep again, or choose another directory")
    expectations = expectations_of(plan.judge(probes))

    def table(name: str) -> pa.Table:
        # What no run has a row in was not written: the columns alone.
        return read(out, name, options) if store.names(name) else pa.table(plan.run([]).table(name))

    return Results(plan.name, plan.axes, table, expectations)


def _carry_out(job: _Job, todo: list[int], retries: int, progress: bool) -> None:
    """Has every batch run. A few for each processor are submitted at a time, so that a new node gets its share."""
    run_batch = ray.remote(_run_batch).options(num_cpus=1, max_retries=retries, name=f"fullpipe {job.name}")
    shared = ray.put(job)
    pending: dict[Any, int] = {}
    waiting = iter(todo)
    done = job.head.runs - sum(len(_runs_of(job.head, batch)) for batch in todo)
    with _bar(progress, job.name, job.head.runs) as tell:
        try:
            while True:
                most = 4 * max(1, int(ray.cluster_resources().get("CPU", 1)))
                for batch in waiting:
                    pending[run_batch.remote(shared, batch)] = batch
                    if len(pending) >= most:
                        break
                if not pending:
                    return
                ready, _ = ray.wait(list(pending), num_returns=1, timeout=1.0)
                for reference in ready:
                    batch = pending.pop(reference)
                    try:
                        ray.get(reference)
                    except ray.exceptions.RayTaskError as error:
                        raise error.cause if isinstance(error.cause, Exception) else error from None
                    except ray.exceptions.RayError as error:
                        raise RunError(f"batch {batch}: its workers died {retries + 1} times: {error}") from error
                    done += len(_runs_of(job.head, batch))
                if tell is not None:
                    tell(done)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)
