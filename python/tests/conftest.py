"""Parts that the tests share: the command that the package is held equal to."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def command() -> Path:
    """The built command: FULLPIPE_COMMAND, or that of target/release."""
    path = Path(os.environ.get("FULLPIPE_COMMAND", ROOT / "target/release/fullpipe"))
    if not path.exists():
        pytest.fail(f"{path} is not there: cargo build --release")
    return path


@pytest.fixture(scope="session")
def fullpipe_json(command: Path) -> Any:
    """Runs the command with arguments; the object that it printed."""

    def run(*args: str | Path, text: str | None = None) -> Any:
        done = subprocess.run([command, *args], input=text, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    return run
