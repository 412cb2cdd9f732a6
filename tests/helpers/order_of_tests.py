"""A plugin of pytest that decides which tests run, and which modules come first.

Long modules come first, so that the processes of pytest-xdist end at about the same time: by
`seconds_of_modules.json`, which `pytest --write-seconds` writes, and with `-m full` by the minutes of
benchmarks/proofs.md. A module that is not listed there comes last, and with `-m full` first.
"""

import collections
import json
import math
import re
from pathlib import Path

from repository import ROOT

_SECONDS = Path(__file__).with_name("seconds_of_modules.json")
_PROOFS = ROOT / "benchmarks" / "proofs.md"


def pytest_addoption(parser):
    parser.addoption("--write-seconds", action="store_true", help="write how long each module takes")
    parser.addoption("--leave-out", type=Path, help="a file with the ids of tests that are not run, by line")


def pytest_configure(config):
    if config.option.write_seconds and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Seconds())


def pytest_collection_modifyitems(config, items):
    if file := config.option.leave_out:
        left_out = {*file.read_text().splitlines()}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        marks = config.option.markexpr
        seconds, of_others = _seconds_of_modules(marks), math.inf if marks == "full" else 0
        items.sort(key=lambda item: -seconds.get(_module_of(item.nodeid), of_others))


def _module_of(test):
    return Path(test.partition("::")[0]).stem


def _seconds_of_modules(marks):
    """Return by module how long its tests take that carry the marks."""
    if marks != "full":
        return json.loads(_SECONDS.read_text())
    rows = re.findall(r"^\| (test_\w+) \|.*?\| ([0-9.]+) \|", _PROOFS.read_text(), re.MULTILINE)
    return {module: 60 * float(minutes) for module, minutes in rows}


class _Seconds:
    """Adds up what each module takes, and writes it at the end, beside what the file has of others."""

    def __init__(self):
        self._seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        self._seconds[_module_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self):
        there = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
        seconds = _seconds_of_modules("") | {name: round(own) for name, own in self._seconds.items()}
        listed = {name: own for name, own in seconds.items() if own >= 3 and name in there}
        by_length = dict(sorted(listed.items(), key=lambda each: (-each[1], each[0])))
        _SECONDS.write_text(json.dumps(by_length, indent=1) + "\n")
