"""The paper figures: their short forms run and pass, and their gates reject what they must."""

import argparse
import importlib
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from repository import ROOT

import popsim

gates = pytest.importorskip("gates", reason="examples/ is not beside the tests")
run_all = pytest.importorskip("run_all", reason="examples/ is not beside the tests")


def run_script(name, folder, *options):
    """Run a figure's script, which has to pass its gates and leave both files; what it printed."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *options, "--out", str(folder)],
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for suffix in ("png", "pdf"):
        assert (folder / f"{name}.{suffix}").stat().st_size > 10_000
    return run.stdout


@pytest.mark.slow
@pytest.mark.full
def test_lqr_reaching_runs_in_its_short_form(tmp_path):
    printed = run_script("lqr_reaching", tmp_path, "--quick")
    assert printed.count(" pass\n") == 5
    assert "Not checked (--quick): noisy, delayed" in printed


@pytest.mark.slow
@pytest.mark.full  # in short: the scripts are imported, their references have tests of their own
@pytest.mark.parametrize(
    ("name", "n_gates", "n_controls"),
    [
        ("deep_linear_learning", 26, 16),
        ("perturbation_learning", 38, 5),
        ("oja", 52, 20),
        ("hopfield", 14, 2),
        ("inertial_anisotropy", 24, 2),
        ("balanced_spectrum", 14, 9),
        ("fast_weights", 5, 16),
        ("policy_gradient_lqr", 12, 7),
        ("yang2019", 11, 13),
    ],
)
def test_a_figure_passes_its_gates_and_its_controls_fail_theirs(name, n_gates, n_controls, tmp_path):
    printed = run_script(name, tmp_path)
    assert printed.count(" pass\n") == n_gates
    assert printed.count(" fail, as it must\n") == n_controls


@pytest.mark.slow
@pytest.mark.full  # in short: test_hardly_trained_networks_fail_the_gates_of_a_figure
@pytest.mark.parametrize(
    ("name", "n_gates", "n_controls"),
    [
        ("chaos", 14, 5),
        ("low_rank_dynamics", 22, 21),
        ("context_integration", 12, 24),
        ("short_term_plasticity", 3, 4),
        ("path_integration", 6, 8),
        ("interval_timing", 3, 5),
        ("bandit_regret", 6, 6),
        ("optimal_stopping", 10, 5),
        ("reversal", 6, 5),
        ("two_step", 8, 6),
        ("flip_flop", 12, 12),
        ("force_field", 37, 26),
        ("speed_profiles", 24, 20),
        ("weight_change", 13, 10),
    ],
)
def test_networks_pass_in_the_short_form_of_a_figure(name, n_gates, n_controls, tmp_path):
    run_short_form(name, n_gates, n_controls, tmp_path)
    if name == "flip_flop":
        run_short_form("flip_flop_fixed_points", 26, 10, tmp_path)  # of these networks


def run_short_form(name, n_gates, n_controls, folder):
    printed = run_script(name, folder, "--quick")
    assert printed.count(" pass\n") == n_gates
    assert printed.count(" fail, as it must\n") == n_controls


@pytest.fixture
def tiny_flip_flop(tmp_path, monkeypatch):
    """The script, forty small batches of it: its options, and what it calls a short form."""
    flip_flop = importlib.import_module("flip_flop")
    size = flip_flop.Size(n_members=2, n_batches=40, largest_error=0.1)
    sizes = {"N_STEPS": 20, "BATCH_SIZE": 4, "N_TESTED": 8, "N_HELD": 5, "N_SETTLING": 20, "N_SOON": 5}
    for name, value in (sizes | {"NETWORK_KINDS": {"GRU": flip_flop.NETWORK_KINDS["GRU"]}}).items():
        monkeypatch.setattr(flip_flop, name, value)
    with jax.numpy_dtype_promotion("standard"):  # as users have it
        yield flip_flop, argparse.Namespace(out=tmp_path, seed=0), size


@pytest.mark.full
def test_hardly_trained_networks_fail_the_gates_of_a_figure(tiny_flip_flop, capsys):
    flip_flop, options, size = tiny_flip_flop
    flip_flop.train(options.out, "GRU", size, seed=0)
    assert flip_flop.analyse(options, size) == 1
    printed = capsys.readouterr().out
    assert printed.count("GRU, MSE") == 2 and "FAIL\n" in printed
    assert (options.out / "flip_flop.png").stat().st_size > 10_000

    ensemble = flip_flop.trained_networks(options.out, "GRU", size, seed=0)  # as other scripts have them
    assert popsim.n_members(ensemble) == 2
    saved = popsim.training.open_history(options.out / "GRU")
    last = saved["trainables.network.readout.bias"].values[-1]
    np.testing.assert_array_equal(last, ensemble.network.readout.bias)
    with pytest.raises(ValueError, match="`folder` must hold networks of .*'seed': 1"):
        flip_flop.trained_networks(options.out, "GRU", size, seed=1)


@pytest.mark.parametrize("name", run_all.SCRIPTS)
def test_every_script_finds_what_it_imports(name):
    assert callable(importlib.import_module(name).main)


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


def test_gates_of_means_tolerances_and_errors():
    def passes(row):
        return row.passed and np.isfinite(row.ratio)

    assert passes(gates.standard_error_row("a", "0", 2.06, 2.0, error=0.02))
    assert not passes(gates.standard_error_row("a", "0", 1.92, 2.0, error=0.02))
    assert passes(gates.standard_error_row("a", "0", -2.06, -2.0, error=0.02))
    assert not passes(gates.standard_error_row("a", "0", 2.0, 2.0, error=float("nan")))
    assert passes(gates.tolerance_row("a", "0", 2.01, 2.0, 0.01)) and not passes(
        gates.tolerance_row("a", "0", 1.9, 2.0, 0.01)
    )
    assert passes(gates.upper_bound_row("a", "0", 0.9, 1.0)) and not passes(
        gates.upper_bound_row("a", "0", 1.1, 1.0)
    )
    assert not passes(gates.upper_bound_row("a", "0", float("nan"), 1.0))
