"""All proofs that take long: `pytest -m full`, and the scripts of `benchmarks/reliability`.

Ends with 1 if one fails. With names, such as `test_optimizers kills`, only these. What comes out is put into
benchmarks/proofs.md, with the commit that it is of; rows of other modules and scripts stay there as they are.
"""

import argparse
import collections
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path

import jax

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "proofs.md"
RELIABILITY = ROOT / "benchmarks" / "reliability"
SCRIPTS = sorted(path.stem for path in RELIABILITY.glob("*.py") if path.stem != "fault_table")
TEST_MODULES = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
HEADS = {"tests": ("module", "what came out"), "faults": ("script", "fault", "what came out")}
STAMP = ("minutes", "commit", "day", "Python, jax")

Row = tuple[str, ...]
"""The cells of a row, of which the first is the module or the script."""


def origin() -> Row:
    """The last cells of a row that is begun now: of which commit it is, when, and with what."""
    changed = run_git("status", "--porcelain", "--", ".", ":!benchmarks/proofs.md")
    commit = run_git("rev-parse", "--short", "HEAD") + (" and changes" if changed else "")
    versions = f"{platform.python_version()}, {jax.__version__}"
    return commit, datetime.datetime.now(datetime.UTC).date().isoformat(), versions


def run_git(*arguments: str) -> str:
    """What git says of this checkout."""
    process = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return process.stdout.strip()


def prove_tests(modules: Iterable[str]) -> tuple[list[Row], bool]:
    """Run what is marked `full` in these modules, or in all; rows, and whether all passed."""
    begun = origin()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        files = [str(TEST_MODULES[module]) for module in modules]
        pytest = [sys.executable, "-m", "pytest", "-m", "full", f"--junitxml={results}", *files]
        passed = subprocess.run(pytest, cwd=ROOT).returncode == 0
        return [*rows_of_tests(results, begun)] if results.exists() else [], passed


def rows_of_tests(results: Path, begun: Row) -> Iterator[Row]:
    """A row for each module in the results of pytest; minutes are those of its tests, one after the other."""
    outcomes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    seconds: dict[str, float] = collections.defaultdict(float)
    for case in ElementTree.parse(results).iter("testcase"):
        if "." not in (name := case.attrib.get("classname", "")):
            continue  # a crashed worker or an interruption; pytest's exit status tells of it
        module = name.split(".")[2]
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcomes[module]["skipped" if kinds == {"skipped"} else "failed" if kinds else "passed"] += 1
        seconds[module] += float(case.attrib["time"])
    for module, counts in sorted(outcomes.items()):
        text = ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
        yield module, text, f"{seconds[module] / 60:.1f}", *begun


def prove_faults(script: str) -> tuple[list[Row], bool]:
    """Run a script of `benchmarks/reliability`; its rows, and whether all promises were kept."""
    begun, start = origin(), time.perf_counter()
    command = [sys.executable, str(RELIABILITY / f"{script}.py")]
    lines: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    stamp = f"{(time.perf_counter() - start) / 60:.1f}", *begun
    counted = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    rows = [
        (script, damage, ", ".join(f"{column} {value}" for column, value in counts.items()), *stamp)
        for damage, counts in counted.items()
    ]
    return rows or [(script, "", f"ended with {process.returncode}", *stamp)], process.returncode == 0


def read_page() -> dict[str, list[Row]]:
    """The rows of benchmarks/proofs.md, those of tests and those of scripts."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    rows = [tuple(line.strip("| ").split(" | ")) for line in lines if line.startswith("| ")]
    lengths = {kind: len(head + STAMP) for kind, head in HEADS.items()}
    return {
        kind: [row for row in rows if len(row) == lengths[kind] and row[0] not in ("module", "script", "---")]
        for kind in HEADS
    }


def write_page(rows: dict[str, list[Row]]) -> None:
    """Write benchmarks/proofs.md."""
    introductions = {
        "tests": "What `pytest -m full` came to, by module of `tests/`. Minutes are those of the tests.",
        "faults": "What the scripts of `benchmarks/reliability` counted, line by line; see [benchmarks]"
        "(README.md#faults).",
    }
    text = (
        "# The long proofs\n\n`python benchmarks/full.py` makes this page: what is too long to run with each "
        "change, when it ran last, and on which commit. It ends with 1 if anything fails. With names of "
        "modules and scripts it runs these and replaces their rows.\n"
    )
    for kind, head in HEADS.items():
        table = [head + STAMP, ("---",) * len(head + STAMP), *sorted(rows[kind], key=lambda row: row[0])]
        text += f"\n{introductions[kind]}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in table)
    PAGE.write_text(text)


def replace_rows(kind: str, rows: list[Row]) -> None:
    """Put rows into the page, in place of those of the same modules or scripts."""
    page = read_page()
    new = {row[0] for row in rows}
    write_page(page | {kind: [row for row in page[kind] if row[0] not in new] + rows})


def main() -> None:
    """Run, print, and write the page after each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="modules of tests and scripts; all without any")
    names = parser.parse_args().names
    modules = [name for name in names if name in TEST_MODULES]
    if unknown := sorted({*names} - {*modules, *SCRIPTS}):
        parser.error(f"no test module or script of faults: {', '.join(unknown)}")
    if not names:
        write_page({kind: [] for kind in HEADS})
    all_passed = True
    if modules or not names:
        rows, passed = prove_tests(modules)
        replace_rows("tests", rows)
        all_passed &= passed
    for script in SCRIPTS:
        if script in names or not names:
            print(f"\n{script}", flush=True)
            rows, passed = prove_faults(script)
            replace_rows("faults", rows)
            all_passed &= passed
    sys.exit(not all_passed)


if __name__ == "__main__":
    main()
