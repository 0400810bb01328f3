"""The types that the package says it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_the_package_is_typed_throughout():
    pytest.importorskip("mypy")
    config = Path(__file__).parents[1] / "pyproject.toml"
    args = [sys.executable, "-m", "mypy", "--config-file", config, "-p", "fullpipe"]
    done = subprocess.run(args, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout


def test_the_stubs_are_of_the_module():
    pytest.importorskip("mypy")
    args = [sys.executable, "-m", "mypy.stubtest", "fullpipe._fullpipe"]
    done = subprocess.run(args, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
