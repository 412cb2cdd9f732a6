"""Flags of JAX that change numbers: a training is continued only under those with which it began."""

import contextlib
from pathlib import Path

import jax
import pytest
from small_experiment import Sum, stopping_after
from swept_runs import Swept

from popsim._shared.named_values import NUMERIC_FLAGS, numeric_flags
from popsim.experiments import RunStopped, resume_run, run_experiment
from popsim.experiments.run_options import check_flags
from popsim.store import MismatchError
from popsim.store.json_files import read_sealed_json
from popsim.sweeps import Sweep, make_sweep, run_cell

OTHERS = {
    "jax_threefry_partitionable": (False, "True then and False now"),
    "jax_enable_x64": (True, "False then and True now"),
    "jax_default_matmul_precision": ("highest", "None then and highest now"),
    "jax_softmax_custom_jvp": (True, "False then and True now"),
    "jax_random_seed_offset": (1, "0 then and 1 now"),
    "jax_high_dynamic_range_gumbel": (True, "False then and True now"),
    "jax_explicit_x64_dtypes": ("error", "WARN then and ERROR now"),
}
FLAG = "jax_threefry_partitionable"


@contextlib.contextmanager
def under(flag):
    """Run under another value of a flag than usual."""
    before = jax.config.values[flag]
    jax.config.update(flag, OTHERS[flag][0])
    try:
        yield
    finally:
        jax.config.update(flag, before)


@contextlib.contextmanager
def refused_naming(flag):
    with under(flag), pytest.raises(MismatchError) as refusal:
        yield
    assert f"`{flag}`, {OTHERS[flag][1]}" in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that is not finished, and a sweep that has not begun."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(RunStopped):
        run_experiment(Sum(n_members=2, n_batches=4), folder / "run", quiet=True, stop=stopping_after(1))
    make_sweep(Sweep(Swept(), {"rate": (1e-2, 1e-3)}, range(2), members_per_cell=2), folder / "sweep")
    return folder


@pytest.mark.parametrize("flag", OTHERS)
def test_each_flag_is_compared(flag):
    assert set(OTHERS) == set(NUMERIC_FLAGS) == set(numeric_flags())
    usual = numeric_flags()
    with refused_naming(flag):
        check_flags({"jax_flags": usual}, Path("run.json"))
    assert check_flags({"jax_flags": usual}, Path("run.json")) == []
    assert check_flags({}, Path("run.json")) == [*usual]


def test_a_run_and_a_cell_are_not_continued_under_other_flags(stopped):
    for path in ("run/run.json", "sweep/sweep.json"):
        assert read_sealed_json(stopped / path)["jax_flags"] == numeric_flags()
    with refused_naming(FLAG):
        resume_run(stopped / "run", quiet=True, build=Sum)
    with refused_naming(FLAG):
        run_cell(stopped / "sweep", 1)
    assert not (stopped / "sweep" / "cells" / "000001" / "run.json").exists()


def test_flags_are_those_in_force():
    usual = numeric_flags()
    with jax.enable_x64(True), jax.threefry_partitionable(False), jax.default_matmul_precision("high"):
        inside = numeric_flags()
    assert numeric_flags() == usual
    assert {name for name in usual if usual[name] != inside[name]} == {
        "jax_enable_x64",
        "jax_threefry_partitionable",
        "jax_default_matmul_precision",
    }
