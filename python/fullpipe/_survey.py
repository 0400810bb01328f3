"""Surveys: random paths, and where an algorithm falls short of others."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import _fullpipe
from ._core import algorithm, registered
from ._errors import RunError
from ._fullpipe import Survey, SurveyResults, __version__
from ._run import _bar

#: Batches for each processor of a cluster, so that none waits for the last one long.
_SHARE = 16


@dataclass(frozen=True)
class _Job:
    """A survey, as a worker of a cluster gets it."""

    #: This call of :func:`survey`'s own.
    id: str
    fullpipe: str
    cc: tuple[str, ...]
    #: Arguments of :class:`Survey`.
    options: tuple[tuple[str, Any], ...]
    #: Algorithms in Python that the driver has registered.
    algorithms: tuple[tuple[str, Any], ...]


def survey(
    out: str | os.PathLike[str],
    *,
    cc: Sequence[str] = ("bbr3x", "bbr3", "cubic"),
    against: Sequence[str] = (),
    paths: int = 500,
    seed: int = 1,
    seeds: int = 1,
    kinds: Sequence[str] = (),
    limit: float = 0.95,
    worst: int = 3,
    stack: str | None = None,
    clock: str | None = None,
    link: str | None = None,
    on: Literal["ray"] | None = None,
    address: str | None = None,
    retries: int = 5,
    jobs: int | None = None,
    max_memory: str = "2GB",
    progress: bool = True,
) -> dict[str, Any]:
    """Draws random paths, runs algorithms on each, and finds those on which one falls short of another.

    It does what ``fullpipe survey`` does, and returns the object of ``survey.json``; docs/survey.md describes both. What is
    done is on disk: a survey that was stopped goes on when it is called again with the same directory.

    With ``on="ray"`` the runs go to the workers of a Ray cluster, whose ``address`` may be given, and each batch of a worker
    that died is run again up to ``retries`` times. The directory is one of this machine.

    :raises ScenarioError: the survey cannot be made.
    :raises OutputError: the directory cannot be written, or is another survey's.
    :raises RunError: the workers of a batch died too often.
    """
    if on not in (None, "ray"):
        raise TypeError(f"survey: on={on!r} is no argument; the cluster that there is is on='ray'")
    common: dict[str, Any] = {
        "against": tuple(against),
        "paths": paths,
        "seed": seed,
        "seeds": seeds,
        "kinds": tuple(kinds),
        "stack": stack,
        "clock": clock,
        "link": link,
        "max_memory": max_memory,
    }
    made = Survey(list(cc), jobs=jobs, **common)
    results = made.open(os.fspath(out), _program())
    with _bar(progress, "survey", len(made)) as tell:
        if on == "ray":
            id, algorithms = uuid.uuid4().hex, tuple(registered.items())
            job = _Job(id, __version__, tuple(cc), tuple(common.items()), algorithms)
            _on_ray(job, made, results, address, retries, tell)
        else:
            results.complete(tell)
    # In real time a path takes up to 80 runs to become simpler.
    shrink = clock != "real" and stack not in ("s2n", "linux")
    report: dict[str, Any] = json.loads(results.report(limit=limit, worst=worst, shrink=shrink))
    return report


def _program() -> bytes:
    """Differs for builds of the package, whose runs could have other results."""
    return hashlib.sha256(Path(str(_fullpipe.__file__)).read_bytes()).digest()


#: The surveys that this worker has drawn, by their job's id; the newest alone.
_surveys: dict[str, Survey] = {}


def _run_batch(job: _Job, numbers: list[int]) -> list[str]:
    """Runs a batch on a worker."""
    if job.id not in _surveys:
        if job.fullpipe != __version__:
            raise RunError(
                f"a worker has fullpipe {__version__} and the driver {job.fullpipe}; install one version everywhere"
            )
        for name, new in job.algorithms:
            algorithm(name)(new)
        _surveys.clear()
        _surveys[job.id] = Survey(list(job.cc), **dict(job.options))
    return _surveys[job.id].run(numbers)


def _on_ray(
    job: _Job,
    made: Survey,
    results: SurveyResults,
    address: str | None,
    retries: int,
    tell: Callable[[int], None] | None,
) -> None:
    """Has every run that is left carried out by the workers of a cluster."""
    import ray

    if not ray.is_initialized():
        ray.init(address=address)
    todo = results.todo()
    batches = min(len(todo), _SHARE * max(1, int(ray.cluster_resources().get("CPU", 1))))
    run_batch = ray.remote(_run_batch).options(num_cpus=1, max_retries=retries, name="fullpipe survey")
    shared = ray.put(job)
    pending = [run_batch.remote(shared, todo[batch::batches]) for batch in range(batches)]
    done = len(made) - len(todo)
    try:
        while pending:
            ready, pending = ray.wait(pending, num_returns=1)
            try:
                ended = ray.get(ready[0])
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error from None
            except ray.exceptions.RayError as error:
                raise RunError(f"the workers of a batch died {retries + 1} times: {error}") from error
            results.take(ended)
            done += len(ended)
            if tell is not None:
                tell(done)
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)
