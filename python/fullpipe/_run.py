"""Runs and sweeps on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from ._fullpipe import ROWS
from ._results import Results
from ._scenario import ScenarioLike, plan_of


@contextmanager
def _bar(show: bool, name: str, runs: int) -> Iterator[Callable[[int], None] | None]:
    """A tqdm bar as a function that takes the number of runs that are done; None where none is wanted."""
    if not show:
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(total=runs, desc=name, unit="run") as bar:

        def tell(done: int) -> None:
            if bar.n == 0 and done > 1 and bar.initial == 0:
                # Runs of another day say nothing about the pace of this one.
                bar.initial = done
            bar.update(done - bar.n)

        yield tell


def run(
    scenario: ScenarioLike,
    *,
    stack: str | None = None,
    clock: str | None = None,
    link: str | None = None,
    full: bool = False,
    jobs: int | None = None,
    max_memory: str = "2GB",
    progress: bool = False,
) -> Results:
    """Runs every point of a scenario, as ``fullpipe run`` does, and keeps all results in memory.

    ``stack``, ``clock`` and ``link`` are those of the command's options, before what the scenario names.

    ``scenario`` is a file's path, a :class:`Scenario` or a mapping with a file's fields. ``jobs`` is the number of runs
    at a time in the simulator, by default one for each core. ``full`` takes the fields of the table ``full``.

    :raises ScenarioError: the scenario cannot be run; the exception has the file's line.
    :raises RunError: a run gave no result.
    """
    plan = plan_of(scenario, stack=stack, clock=clock, link=link, full=full)
    jobs = plan.check(jobs, max_memory, ROWS)
    with _bar(progress, plan.name, len(plan)) as tell:
        return Results._of(plan, plan.run(jobs=jobs, rows=ROWS, progress=tell))


def sweep(
    scenario: ScenarioLike,
    out: str | os.PathLike[str],
    *,
    on: Literal["ray"] | None = None,
    jobs: int | None = None,
    max_memory: str = "2GB",
    progress: bool = True,
    **cluster: Any,
) -> Results:
    """Runs every point of a scenario's grid into a directory, as ``fullpipe sweep`` does.

    What is done is on disk; a sweep that was stopped goes on from there when it is called again with the same
    directory. The files are those of the command, whichever of the two began.

    With ``on="ray"`` the runs go to the workers of a Ray cluster, and ``out`` is any path that fsspec knows; see
    :func:`fullpipe.cluster.sweep` for the further arguments.

    :raises ScenarioError: the scenario cannot be run; the exception has the file's line.
    :raises RunError: a run gave no result.
    :raises OutputError: the directory cannot be written, or is another sweep's.
    """
    if on == "ray":
        from .cluster import sweep as on_ray

        return on_ray(scenario, os.fspath(out), max_memory=max_memory, progress=progress, **cluster)
    if on is not None or cluster:
        wrong = f"on={on!r}" if on is not None else ", ".join(cluster)
        raise TypeError(f"sweep: {wrong} is no argument; the cluster that there is is on='ray'")
    plan = plan_of(scenario)
    jobs = plan.check(jobs, max_memory)
    with _bar(progress, plan.name, len(plan)) as tell:
        return Results._of(plan, plan.sweep(os.fspath(out), jobs=jobs, progress=tell))
