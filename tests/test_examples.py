"""The paper figures: their short forms run and pass, and their gates reject what they must."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

gates = pytest.importorskip("gates", reason="examples/ is not beside the tests")

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_lqr_reaching_runs_in_its_short_form(tmp_path):
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "lqr_reaching.py"), "--quick", "--out", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(" pass\n") == 5
    assert "Not checked (--quick): noisy, delayed" in run.stdout
    for suffix in ("png", "pdf"):
        assert (tmp_path / f"lqr_reaching.{suffix}").stat().st_size > 10_000


def _row(ratio, error=0.0, *, must_fail=False):
    return gates.Row("clean", "0", ratio * 5e-4, 5e-4, error, gates.optimum_gate(1.02, error), must_fail)


@pytest.mark.parametrize(
    ("ratio", "error", "passes"),
    [
        (1.001, 0.0, True),
        (1 - 9e-6, 0.0, True),
        (1 - 2e-5, 0.0, False),
        (1.021, 0.0, False),
        (25.0, 0.0, False),
        (float("nan"), 0.0, False),
        (0.998, 0.001, True),
        (0.996, 0.001, False),
        (1.021, 0.001, False),
    ],
)
def test_a_gate_at_an_optimum_has_two_sides(ratio, error, passes):
    assert _row(ratio, error).passed is passes
    assert gates.exit_code([_row(ratio, error)]) == (0 if passes else 1)


def test_a_figure_fails_where_a_control_passes_or_nothing_was_checked():
    good, ungated = _row(1.001), gates.Row("noisy", "0", 5e-4, 5e-4)
    assert gates.exit_code([good, ungated, _row(25.0, must_fail=True)]) == 0
    assert gates.exit_code([good, _row(1.001, must_fail=True)]) == 1
    assert gates.exit_code([good, _row(1.1)]) == 1
    assert gates.exit_code([ungated]) == 1
    assert gates.exit_code([_row(25.0, must_fail=True)]) == 1
    assert gates.exit_code([]) == 1
