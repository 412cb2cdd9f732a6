"""The paper figures: their short forms run and pass, and their gates reject what they must."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
from repository import ROOT

import gates
import run_all
import yang2019_networks


def run_script(name, folder, *options):
    """Run a figure's script, which has to pass its gates and leave both files; what it printed."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "MPLBACKEND": "agg"}
    del environment["XLA_FLAGS"]  # it trains for minutes: programs as fast as users have them
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *options, "--out", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for suffix in ("png", "pdf"):
        assert (folder / f"{name}.{suffix}").stat().st_size > 10_000
    return run.stdout


@pytest.mark.slow
@pytest.mark.full  # in short: the scripts are imported, their references and gates have tests of their own
@pytest.mark.parametrize(
    ("name", "options", "n_gates", "n_controls"),
    [
        ("lqr_reaching", ["--quick"], 5, 0),
        ("deep_linear_learning", [], 26, 16),
        ("perturbation_learning", [], 38, 5),
        ("eligibility", ["--quick"], 11, 11),
        ("force_learning", ["--quick"], 5, 9),
        ("oja", [], 52, 20),
        ("hopfield", [], 14, 2),
        ("inertial_anisotropy", [], 24, 2),
        ("flexible_feedback", ["--quick"], 17, 12),
        ("oblique_noise", ["--quick"], 32, 12),
        ("limb_dynamics", ["--quick"], 12, 14),
        ("expected_perturbation", ["--quick"], 4, 18),
        ("muscle_directions", ["--quick"], 10, 3),
        ("feedback_rotations", ["--quick"], 22, 20),
        ("savings", ["--quick"], 12, 6),
        ("fast_weights", [], 5, 16),
        ("policy_gradient_lqr", [], 12, 7),
        ("chaos", ["--quick"], 14, 5),
        ("chaotic_dynamics", ["--quick"], 4, 3),
        ("held_out_neurons", ["--quick"], 10, 9),
        ("low_rank_dynamics", ["--quick"], 22, 21),
        ("interval_timing", ["--quick"], 3, 5),
        ("two_step", ["--quick"], 8, 6),
        ("tiny_networks", ["--quick"], 7, 10),
        ("flip_flop", ["--quick"], 12, 12),
        ("force_field", ["--quick"], 37, 26),
        ("balanced_spectrum", [], 14, 9),
        ("yang2019", [], 11, 13),
        ("context_integration", ["--quick"], 12, 24),
        ("short_term_plasticity", ["--quick"], 3, 4),
        ("path_integration", ["--quick"], 6, 8),
        ("bandit_regret", ["--quick"], 6, 6),
        ("optimal_stopping", ["--quick"], 10, 5),
        ("reversal", ["--quick"], 6, 5),
        ("speed_profiles", ["--quick"], 24, 20),
        ("weight_change", ["--quick"], 13, 10),
    ],
)
def test_a_figure_passes_its_gates_and_its_controls_fail_theirs(name, options, n_gates, n_controls, tmp_path):
    printed = run_script(name, tmp_path, *options)
    assert printed.count(" pass\n") == n_gates
    assert n_controls == 0 or printed.count(" fail, as it must\n") == n_controls
    if name == "flip_flop":
        printed = run_script("flip_flop_fixed_points", tmp_path, *options)  # of these networks
        assert (printed.count(" pass\n"), printed.count(" fail, as it must\n")) == (26, 10)


@pytest.mark.parametrize("name", run_all.SCRIPTS)
def test_every_script_finds_what_it_imports(name):
    assert callable(importlib.import_module(name).main)


def test_all_scripts_of_figures_are_run():
    """That is, all that exit with what their gates say."""
    figures = {
        path.stem for path in (ROOT / "examples").glob("*.py") if "return exit_code(" in path.read_text()
    }
    assert figures == set(run_all.SCRIPTS)


def at_optimum(ratio, error=0.0, *, must_fail=False):
    return gates.Row("clean", "0", ratio * 5e-4, 5e-4, error, gates.optimum_gate(1.02, error), must_fail)


def mean(*numbers):
    return gates.standard_error_row("a", "0", *numbers)


def within(*numbers):
    return gates.tolerance_row("a", "0", *numbers)


def below(*numbers):
    return gates.upper_bound_row("a", "0", *numbers)


PASS = [at_optimum(1.001), at_optimum(1 - 9e-6), at_optimum(0.998, 0.001), mean(2.06, 2.0, 0.02)]
PASS += [mean(-2.06, -2.0, 0.02), within(2.01, 2.0, 0.01), below(0.9, 1.0)]
FAIL = [at_optimum(1 - 2e-5), at_optimum(1.021), at_optimum(25.0), at_optimum(np.nan)]
FAIL += [at_optimum(0.996, 0.001), at_optimum(1.021, 0.001), mean(1.92, 2.0, 0.02), mean(2.0, 2.0, np.nan)]
FAIL += [within(1.9, 2.0, 0.01), below(1.1, 1.0), below(np.nan, 1.0)]


def test_gates_have_two_sides_and_nan_passes_none():
    assert [gates.exit_code([row]) for row in PASS] == [0] * len(PASS)
    assert [gates.exit_code([row]) for row in FAIL] == [1] * len(FAIL)
    assert all(np.isfinite(row.ratio) for row in PASS)


def test_a_figure_fails_where_a_control_passes_or_nothing_was_checked():
    good, ungated = at_optimum(1.001), gates.Row("noisy", "0", 5e-4, 5e-4)
    assert gates.exit_code([good, ungated, at_optimum(25.0, must_fail=True)]) == 0
    for rows in (
        [good, at_optimum(1.001, must_fail=True)],
        [good, at_optimum(1.1)],
        [ungated],
        [at_optimum(25.0, must_fail=True)],
        [],
    ):
        assert gates.exit_code(rows) == 1


@pytest.mark.parametrize("kind", ["softplus", "tanh"])
def test_stored_networks_of_yang_can_be_read_and_are_of_their_recipe(kind):
    network = yang2019_networks.load_trained(kind, 0).network
    assert network.recurrent_weights.shape == (1, 256, 256)
