"""One BBR congestion control for every transport, and the lab that proves it.

    import fullpipe

    results = fullpipe.run("scenarios/quickstart.toml")
    results.summary.to_pandas()
"""

from ._core import Algorithm, Connection, Controller, Event, Packet, Path, Sample, algorithm
from ._errors import Error, OutputError, RunError, ScenarioError
from ._fullpipe import __version__
from ._results import Expectation, Results
from ._run import run, sweep
from ._scenario import Scenario
from ._survey import survey

__all__ = [
    "Algorithm",
    "Connection",
    "Controller",
    "Error",
    "Event",
    "Expectation",
    "OutputError",
    "Packet",
    "Path",
    "Results",
    "RunError",
    "Sample",
    "Scenario",
    "ScenarioError",
    "__version__",
    "algorithm",
    "run",
    "survey",
    "sweep",
]
