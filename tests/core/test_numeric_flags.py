"""Flags of JAX that change numbers: a training is continued only under those with which it began."""

import contextlib
import shutil
import warnings

import equinox as eqx
import jax
import pytest
from short_form import mostly_in_full
from small_experiment import Sum, stopping_after
from small_training import OPTIMIZER, build, train
from swept_runs import Swept

import popsim
from popsim._numeric_flags import NUMERIC_FLAGS, numeric_flags
from popsim.experiments import RunStopped, resume_run, run_experiment
from popsim.store import MismatchError, load_model, save_model
from popsim.store.json_files import read_sealed_json, write_sealed_json
from popsim.sweeps import Sweep, make_sweep, run_cell
from popsim.training import TaskTrainer

OTHERS = {
    "jax_threefry_partitionable": (False, "True then and False now"),
    "jax_enable_x64": (True, "False then and True now"),
    "jax_default_matmul_precision": ("highest", "None then and highest now"),
    "jax_softmax_custom_jvp": (True, "False then and True now"),
    "jax_random_seed_offset": (1, "0 then and 1 now"),
    "jax_high_dynamic_range_gumbel": (True, "False then and True now"),
    "jax_explicit_x64_dtypes": ("error", "WARN then and ERROR now"),
}
flags = pytest.mark.parametrize("flag", mostly_in_full(OTHERS, tuple(OTHERS)[:1]))


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
    """A script's training, a run, and a cell of a sweep, none of them finished; and a model file."""
    folder = tmp_path_factory.mktemp("stopped")
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    save_model(folder / "first.safetensors", ensemble)
    train(3, ensemble=ensemble, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=folder / "script"))
    with pytest.raises(RunStopped):
        run_experiment(Sum(n_members=2, n_batches=4), folder / "run", quiet=True, stop=stopping_after(1))
    make_sweep(Sweep(Swept(), {"rate": (1e-2, 1e-3)}, range(2), members_per_cell=2), folder / "sweep")
    with pytest.raises(RunStopped):
        run_cell(folder / "sweep", 0, stop=lambda: True)
    return folder


@pytest.fixture
def folder(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "copy")


def test_all_flags_are_tried_and_exist():
    assert set(OTHERS) == set(NUMERIC_FLAGS) == set(numeric_flags())


@pytest.mark.full
@flags
def test_a_script_that_loads_its_ensemble_does_not_continue_under_other_flags(flag, folder):
    untrained = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    ensemble = load_model(folder / "first.safetensors", untrained)
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=folder / "script")
    with refused_naming(flag):  # as a script may do, it brings the numbers to the present precision
        ensemble = jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_array(leaf) else leaf, ensemble)
        train(6, ensemble=ensemble, trainer=trainer, restore_checkpoint=True)


@flags
def test_a_run_is_not_resumed_under_other_flags(flag, folder):
    assert read_sealed_json(folder / "run" / "run.json")["jax_flags"] == numeric_flags()
    with refused_naming(flag):
        resume_run(folder / "run", quiet=True, build=Sum)


@flags
@pytest.mark.parametrize("cell", [0, 1], ids=["begun", "not begun"])
def test_a_cell_is_not_trained_under_other_flags_than_its_sweep(flag, cell, folder):
    assert read_sealed_json(folder / "sweep" / "sweep.json")["jax_flags"] == numeric_flags()
    with refused_naming(flag):
        run_cell(folder / "sweep", cell)
    assert cell == 0 or not (folder / "sweep" / "cells" / "000001" / "run.json").exists()


def test_flags_that_a_sweep_does_not_tell_are_unknown_and_told_once(folder):
    file = folder / "sweep" / "sweep.json"
    described = read_sealed_json(file)
    described.pop("jax_flags")
    write_sealed_json(file, described)
    with pytest.warns(
        UserWarning, match=r"sweep\.json does not tell the jax_default_matmul_precision"
    ) as told:
        run_cell(folder / "sweep", 0)
    assert len(told) == 1


def test_flags_are_those_in_force(folder):
    usual = numeric_flags()
    with jax.enable_x64(True), jax.threefry_partitionable(False), jax.default_matmul_precision("high"):
        inside = numeric_flags()
    assert numeric_flags() == usual
    assert {name for name in usual if usual[name] != inside[name]} == {
        "jax_enable_x64",
        "jax_threefry_partitionable",
        "jax_default_matmul_precision",
    }


def test_the_same_flags_continue(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resume_run(folder / "run", quiet=True, build=Sum).is_finished
