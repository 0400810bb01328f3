"""Plots of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects

    from ._results import Results

#: Metrics of a plot over an axis, and of the course of a run.
OF_RUNS = ("goodput_mbps", "queue_ms.mean")
OF_COURSE = ("goodput_mbps", "queue_ms", "cwnd_bytes")

#: A course of more runs cannot be told apart.
MOST_RUNS = 8


def plot(results: Results, metrics: tuple[str, ...]) -> plotly.graph_objects.Figure:
    """The course of each flow of a few runs; of more runs, or without a course, metrics over the first axis."""
    few = len(results) <= MOST_RUNS and results.series.num_rows > 0
    return _course(results, metrics or OF_COURSE) if few else _runs(results, metrics or OF_RUNS)


def _figure(results: Results, metrics: tuple[str, ...], known: list[str], x: str) -> Any:
    from plotly.subplots import make_subplots

    for metric in metrics:
        if metric not in known:
            raise ValueError(f"plot: no metric {metric!r} here; there are {', '.join(known)}")
    figure = make_subplots(rows=len(metrics), shared_xaxes=True, vertical_spacing=0.06)
    for row, metric in enumerate(metrics, 1):
        figure.update_yaxes(title_text=metric, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text=x, row=len(metrics), col=1)
    figure.update_layout(title=results.name, height=260 * len(metrics), template="plotly_white")
    return figure


def _add(figure: Any, metrics: tuple[str, ...], x: list[Any], y: dict[str, list[Any]], name: str, colour: int) -> None:
    import plotly.colors
    import plotly.graph_objects

    colours = plotly.colors.qualitative.D3
    line = {"color": colours[colour % len(colours)]}
    for row, metric in enumerate(metrics, 1):
        trace = plotly.graph_objects.Scatter(
            x=x, y=y[metric], name=name, legendgroup=name, showlegend=row == 1, line=line
        )
        figure.add_trace(trace, row=row, col=1)


def _course(results: Results, metrics: tuple[str, ...]) -> plotly.graph_objects.Figure:
    series = results.series.to_pydict()
    known = [name for name in series if name not in ("run", "flow", "t_s", "state", "repetition")]
    figure = _figure(results, metrics, known, "time in s")
    rows: dict[tuple[int, int], list[int]] = {}
    for row, key in enumerate(zip(series["run"], series["flow"], strict=True)):
        rows.setdefault(key, []).append(row)
    summary, flows = results.summary.to_pydict(), results.flows.to_pydict()
    names = dict(zip(zip(flows["run"], flows["flow"], strict=True), flows["name"], strict=True))
    for colour, ((run, flow), of_flow) in enumerate(sorted(rows.items())):
        place = summary["run"].index(run)
        at = ", ".join(f"{axis} {summary[axis][place]}" for axis in results.axes)
        name = f"{names[run, flow]} ({at})" if at else str(names[run, flow])
        x, y = [series["t_s"][row] for row in of_flow], {m: [series[m][row] for row in of_flow] for m in metrics}
        _add(figure, metrics, x, y, name, colour)
    return figure


def _runs(results: Results, metrics: tuple[str, ...]) -> plotly.graph_objects.Figure:
    summary = results.summary.to_pydict()
    known = [name for name in summary if name not in ("run", "scenario", "seed", *results.axes)]
    # The axis of the most values along the plot, and a line for each point of the others: means
    # over the seeds.
    axes = [axis for axis in results.axes if axis not in ("cc", "seed")] or results.axes or ["run"]
    along = max(axes, key=lambda axis: len(set(summary[axis])))
    others = [axis for axis in results.axes if axis not in (along, "seed")]
    figure = _figure(results, metrics, known, along)
    lines: dict[str, dict[Any, list[int]]] = {}
    for row, x in enumerate(summary[along]):
        name = ", ".join(f"{axis} {summary[axis][row]}" for axis in others) or results.name
        lines.setdefault(name, {}).setdefault(x, []).append(row)
    for colour, (name, points) in enumerate(lines.items()):

        def mean(metric: str, rows: list[int]) -> float | None:
            values = [summary[metric][row] for row in rows if summary[metric][row] is not None]
            return sum(values) / len(values) if values else None

        y = {metric: [mean(metric, rows) for rows in points.values()] for metric in metrics}
        _add(figure, metrics, list(points), y, name, colour)
    return figure
