"""All proofs that take long: `pytest -m full`.

    python benchmarks/full.py [NAME ...]

Names are those of modules, or of folders of `tests`; all without any. Each module that ends is put into
benchmarks/proofs.md, with the commit that it is of. What has passed on this commit is not run again, test by
test, so that a run that was interrupted continues; `--again` runs it all. After a small mend `--mended` runs
what has not passed on the commit before, and keeps the rest as it was there. Ends with 1 if a test fails.
"""

import argparse
import collections
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import jax
import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "proofs.md"
RECORD = ROOT / "benchmarks" / "proofs.jsonl"  # not kept by git
MODULES = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
LONG_TRAININGS = {"test_cognitive_tasks_train", "test_motor_tasks_train"}
AS_USERS = "--xla_backend_optimization_level=3"  # in place of the flags of the tests, see tests/conftest.py
HEAD = ("module", "what came out", "minutes", "commit", "day", "Python, jax")
TITLE = "# The long proofs"
INTRODUCTION = (
    "`python benchmarks/full.py` makes this page: what is too long to run with each change, when it ran "
    "last, and on which commit. With names of modules, or of folders of tests, it replaces their rows. "
    "Minutes are those of the tests, one after the other. Below a module stands what its tests counted."
)

Outcome = dict[str, Any]
"""Of a test: what came out, on which commit, its seconds, and by name what it counted."""


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask git about this checkout."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def is_as_now(commit: str) -> bool:
    """Whether all files are those of a commit, but for the page."""
    changed = git("diff", "--quiet", commit, "--", ".", f":!{PAGE.relative_to(ROOT)}").returncode != 0
    return not changed and not git("ls-files", "--others", "--exclude-standard").stdout


class Record:
    """What came out of each test on this commit, kept in a file of lines, the commit first."""

    def __init__(self, *, again: bool, mended: bool):
        lines = RECORD.read_text().splitlines() if RECORD.exists() and not again else []
        if not lines or not is_as_now(lines[0]):
            commit = git("rev-parse", "--short", "HEAD").stdout.strip()
            lines = [commit if is_as_now(commit) else f"{commit} and changes", *(lines[1:] if mended else [])]
        self.commit = lines[0]
        self.outcomes: dict[str, Outcome] = {}
        for line in lines[1:]:
            self.outcomes |= json.loads(line)
        if mended:  # what failed may be a test that is no more
            self.outcomes = {test: self.outcomes[test] for test in self.passed()}
        kept = (json.dumps({test: outcome}) for test, outcome in self.outcomes.items())
        RECORD.write_text("".join(f"{line}\n" for line in (self.commit, *kept)))

    def add(self, test: str, outcome: Outcome) -> None:
        """Keep what came out of a test."""
        outcome = {**outcome, "commit": self.commit}
        self.outcomes[test] = outcome
        with RECORD.open("a") as file:
            file.write(json.dumps({test: outcome}) + "\n")

    def passed(self) -> list[str]:
        """The tests that need not be run again."""
        return [test for test, outcome in self.outcomes.items() if outcome["came out"] == "passed"]


class Watch:
    """Of pytest: notes what comes out of each test, and puts each module that has ended into the page."""

    def __init__(self, record: Record):
        self._record = record
        self._begun: dict[str, Outcome] = {}
        self._waiting: dict[str, set[str]] = {}

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """The same tests in each process."""
        for test in ids:
            self._waiting.setdefault(module_of(test), set()).add(test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has three reports; one of a process that crashed has one."""
        outcome = self._begun.setdefault(report.nodeid, {"came out": "passed", "seconds": 0.0})
        outcome["seconds"] += report.duration
        if report.outcome != "passed" and outcome["came out"] != "failed":
            outcome["came out"] = report.outcome
        if report.when in ("setup", "call"):
            return
        counts = {name: str(counted) for name, counted in report.user_properties}
        self._record.add(report.nodeid, outcome | {"counts": counts})
        waiting = self._waiting[module := module_of(report.nodeid)]
        waiting.discard(report.nodeid)
        if not waiting:
            replace_rows({module}, [*rows_of(module, self._record)])


def module_of(test: str) -> str:
    """The name of the module of a test."""
    return Path(test.partition("::")[0]).stem


def rows_of(module: str, record: Record) -> Iterator[Sequence[str]]:
    """The row of a module, and below it those of what its tests counted."""
    own = [outcome for test, outcome in record.outcomes.items() if module_of(test) == module]
    text = ", ".join(f"{n} {came}" for came, n in collections.Counter(o["came out"] for o in own).items())
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    versions = f"{platform.python_version()}, {jax.__version__}"
    commits = ", ".join(dict.fromkeys(outcome["commit"] for outcome in own))
    yield module, text, minutes(own), commits, day, versions
    for outcome in own:
        for name, counted in outcome["counts"].items():
            yield f"{module}: {name}", counted, minutes([outcome]), outcome["commit"], day, versions


def minutes(outcomes: Sequence[Outcome]) -> str:
    """How long tests took."""
    return f"{sum(outcome['seconds'] for outcome in outcomes) / 60:.1f}"


def replace_rows(modules: Set[str], rows: Sequence[Sequence[str]]) -> None:
    """Put rows into benchmarks/proofs.md, in place of those of some modules."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    kept = [tuple(line.strip("| ").split(" | ")) for line in lines if line.startswith("| test_")]
    kept = [row for row in kept if row[0].partition(":")[0] in MODULES.keys() - modules]
    table = [HEAD, ("---",) * len(HEAD), *sorted([*kept, *rows], key=lambda row: row[0].partition(":")[0])]
    text = "".join(f"| {' | '.join(row)} |\n" for row in table)
    PAGE.write_text(f"{TITLE}\n\n{INTRODUCTION}\n\n{text}")


def modules_of(names: Sequence[str], parser: argparse.ArgumentParser) -> set[str]:
    """The modules that are named, themselves or by their folder; all without names."""
    folders = {path.parent.name for path in MODULES.values()}
    if unknown := sorted({*names} - MODULES.keys() - folders):
        parser.error(f"no module or folder of tests: {', '.join(unknown)}")
    return {own for own, path in MODULES.items() if not names or {own, path.parent.name} & {*names}}


def run(modules: set[str], record: Record) -> int:
    """Run what has not passed yet; 0 if all passed, else 1."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as passed:
        passed.write("\n".join(record.passed()))
        passed.flush()
        files = [str(MODULES[module]) for module in sorted(modules)]
        code = pytest.main(["-m", "full", "--leave-out", passed.name, *files], plugins=[Watch(record)])
    return int(code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED))


def main() -> int:
    """Run the long trainings, in a process that compiles as users do, and then all else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="modules of tests, or folders of them; all without any")
    parser.add_argument("--again", action="store_true", help="run what has passed on this commit, too")
    parser.add_argument("--mended", action="store_true", help="keep what has passed on the commit before")
    arguments = parser.parse_args()
    modules, code = modules_of(arguments.names, parser), 0
    record = Record(again=arguments.again, mended=arguments.mended)
    if AS_USERS not in os.environ.get("XLA_FLAGS", "") and (trainings := modules & LONG_TRAININGS):
        environment = os.environ | {"XLA_FLAGS": AS_USERS}
        code = subprocess.run([sys.executable, __file__, *trainings], env=environment).returncode
        modules, record = modules - trainings, Record(again=False, mended=False)
    code = (run(modules, record) if modules else 0) or code
    if not arguments.names:
        replace_rows(MODULES.keys() - {module_of(test) for test in record.outcomes}, [])
    return code


if __name__ == "__main__":
    sys.exit(main())
