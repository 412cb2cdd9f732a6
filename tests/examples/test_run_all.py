"""One table of all scripts of figures, here of small ones that only print."""

from pathlib import Path

import pytest

run_all = pytest.importorskip("run_all", reason="examples/ is not beside the tests")

SCRIPT = """
import argparse, sys
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--out")
{quick}
options = parser.parse_args()
print("loss   0   1.0   1.0   1.0   0.0  [0.9, 1.1]  pass")
print("control 0   1.0   1.0   1.0   0.0  [0.9, 1.1]  fail, as it must")
if options.seed == 1 and {fails}:
    print("loss   0   1.0   1.0   1.0   0.0  [0.9, 1.1]  FAIL")
    print("control 0   1.0   1.0   1.0   0.0  [0.9, 1.1]  pass, but must FAIL")
    sys.exit(1)
print(sys.argv)
"""


@pytest.fixture
def scripts(tmp_path):
    quick = 'parser.add_argument("--quick", action="store_true")'
    (tmp_path / "short.py").write_text(SCRIPT.format(quick=quick, fails=False))
    (tmp_path / "long.py").write_text(SCRIPT.format(quick="", fails=True))
    (tmp_path / "broken.py").write_text("raise SystemExit('no such module')")
    return tmp_path


def test_every_script_has_a_line_for_each_seed(scripts, capsys):
    out = scripts / "out"
    both = [scripts / "short.py", scripts / "long.py"]
    assert run_all.run_all(both, [0], out, quick=True) == 0
    assert run_all.run_all(both, [1, 2], out, quick=False) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["script", "seed", "passed", "failed", "seconds", "exit"]
    shown = [(name, seed, passed, failed, code) for name, seed, passed, failed, _, code in lines]
    fine = ("2", "0", "0")
    assert shown[1:3] == [("short", "0", *fine), ("long", "0", *fine)]
    assert shown[4:] == [
        ("short", "1", *fine),
        ("long", "1", "2", "2", "1"),
        ("short", "2", *fine),
        ("long", "2", *fine),
    ]
    assert "--quick" in (out / "short-0.txt").read_text()
    assert "--quick" not in (out / "long-0.txt").read_text() + (out / "short-1.txt").read_text()


def test_a_script_that_breaks_is_not_taken_for_one_that_passes(scripts, capsys):
    assert run_all.run_all([scripts / "broken.py"], [0], scripts / "out", quick=True) == 1
    assert "no such module" in (scripts / "out" / "broken-0.txt").read_text()


def test_all_scripts_of_figures_are_run():
    """That is, all that exit with what their gates say."""
    folder = Path(run_all.__file__).parent
    figures = {path.stem for path in folder.glob("*.py") if "return exit_code(" in path.read_text()}
    assert figures == set(run_all.SCRIPTS)
