"""Flags of JAX that change numbers: a training is continued only under those with which it began."""

import contextlib
import shutil
from pathlib import Path

import jax
import pytest
from kept_runs import stopped_run
from small_experiment import Sum
from swept_runs import Swept

from popsim._shared.named_values import NUMERIC_FLAGS, numeric_flags
from popsim.experiments import resume_run
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


@pytest.mark.parametrize("flag", OTHERS)
def test_each_flag_is_compared(flag):
    assert set(OTHERS) == set(NUMERIC_FLAGS) == set(numeric_flags())
    usual = numeric_flags()
    with refused_naming(flag):
        check_flags({"jax_flags": usual}, Path("run.json"))
    assert check_flags({"jax_flags": usual}, Path("run.json")) == []
    assert check_flags({}, Path("run.json")) == [*usual]


def test_a_run_and_a_cell_are_not_continued_under_other_flags(tmp_path, tmp_path_factory):
    run = shutil.copytree(stopped_run(tmp_path_factory), tmp_path / "run")
    sweep = Sweep(Swept(), {"rate": (1e-2, 1e-3)}, range(2), members_per_cell=2)
    make_sweep(sweep, tmp_path / "sweep")
    for path in (run / "run.json", tmp_path / "sweep" / "sweep.json"):
        assert read_sealed_json(path)["jax_flags"] == numeric_flags()
    with refused_naming(FLAG):
        resume_run(run, quiet=True, build=Sum)
    with refused_naming(FLAG):
        run_cell(tmp_path / "sweep", 1)
    assert not (tmp_path / "sweep" / "cells" / "000001" / "run.json").exists()


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
