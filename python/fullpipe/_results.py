"""Results of runs: Arrow tables and expectations."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import _fullpipe

if TYPE_CHECKING:
    import plotly.graph_objects


@dataclass(frozen=True)
class Expectation:
    """An entry of a scenario's ``expect``, and what came of it."""

    expect: str
    """The expectation as it was written."""
    name: str
    comparison: str
    """The operator between its two sides."""
    met: bool
    """True if it was met in every case."""
    cases: int
    """Points of the grid in which it was compared."""
    unmet: int
    """Those of them in which it was not met."""
    value: float | None
    """The left side in the worst case; None without a value."""
    bound: float | None
    """The right side there."""
    margin: float | None
    """By how much it was met there; below 0 it was not."""
    at: dict[str, str]
    """That case: axes and their values."""
    known_failure: str | None = None
    """The reason for which the scenario says that it is not met."""

    @property
    def as_known(self) -> bool:
        """True if it is met, or else known not to be."""
        return self.met == (self.known_failure is None)


def expectations_of(text: str) -> list[Expectation]:
    """The lab's JSON list as expectations."""
    return [Expectation(**{**entry, "at": dict(entry["at"])}) for entry in json.loads(text)]


class Results:
    """Runs that are over, in the order of the grid.

    The tables are those that docs/results.md describes. They are made when they are asked for, and kept.
    """

    def __init__(
        self,
        name: str,
        axes: list[str],
        table: Callable[[str], pa.Table],
        expectations: list[Expectation],
        native: _fullpipe.Results | None = None,
    ) -> None:
        self.name = name
        """The scenario's name."""
        self.axes = axes
        """The fields with lists: columns of every table but ``series``."""
        self.expectations = expectations
        self._table = table
        self._native = native

    @classmethod
    def _of(cls, plan: _fullpipe.Plan, native: _fullpipe.Results) -> Results:
        expectations = expectations_of(native.expectations())
        return cls(plan.name, plan.axes, lambda name: pa.table(native.table(name)), expectations, native)

    @cached_property
    def summary(self) -> pa.Table:
        """A row a run."""
        return self._table("summary")

    @cached_property
    def flows(self) -> pa.Table:
        """A row a flow of a run."""
        return self._table("flows")

    @cached_property
    def links(self) -> pa.Table:
        """A row a link of a run."""
        return self._table("links")

    @cached_property
    def series(self) -> pa.Table:
        """A row a flow at a moment; empty when no course was recorded."""
        return self._table("series")

    @property
    def met(self) -> bool:
        """True if every expectation was met, or is known not to be."""
        return all(expectation.as_known for expectation in self.expectations)

    def to_json(self) -> str:
        """The object that ``fullpipe run --json`` prints."""
        return self._runs("to_json").json()

    def to_dict(self) -> dict[str, Any]:
        """That object as Python has it."""
        object_: dict[str, Any] = json.loads(self.to_json())
        return object_

    def write(self, directory: str | os.PathLike[str]) -> None:
        """Writes the files of ``fullpipe run --out``."""
        self._runs("write").write(os.fspath(directory))

    def plot(self, *metrics: str) -> plotly.graph_objects.Figure:
        """A plotly figure: the course of each flow, or without one the metrics of each run over the first axis."""
        from ._plot import plot

        return plot(self, metrics)

    def _runs(self, method: str) -> _fullpipe.Results:
        if self._native is None:
            raise ValueError(f"{method}: these results are tables on a cluster's storage; read them from there")
        return self._native

    def __len__(self) -> int:
        return int(self.summary.num_rows)

    def __repr__(self) -> str:
        unmet = sum(not expectation.met for expectation in self.expectations)
        return f"<fullpipe.Results of {self.name!r}: {len(self)} runs, {unmet} of {len(self.expectations)} expectations not met>"

    def _repr_html_(self) -> str:
        html: str = self.summary.to_pandas()._repr_html_()
        return html
