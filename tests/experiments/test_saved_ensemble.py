import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import popsim
from popsim.experiments import EXPERIMENTS, CenterOut
from popsim.experiments.registry import describe_experiment, load_ensemble, rebuild_experiment, save_ensemble
from popsim.store.files import CorruptDataError, MismatchError
from popsim.store.model_file import save_model

SMALL = CenterOut(n_members=2, n_units=4, duration=0.1, vision_delay=0.02, plant="point-mass", seed=3)


@pytest.fixture(scope="module")
def ensemble():
    """As if it had been trained."""
    double = lambda leaf: 2 * leaf if eqx.is_inexact_array(leaf) else leaf  # noqa: E731
    untrained = SMALL.build_ensemble()
    return eqx.tree_at(lambda model: model.network, untrained, jax.tree.map(double, untrained.network))


@pytest.fixture
def path(ensemble, tmp_path):
    save_ensemble(tmp_path / "trained.safetensors", ensemble, SMALL)
    return tmp_path / "trained.safetensors"


@pytest.mark.full  # in short: test_faults finishes runs in another process
def test_a_fresh_process_gets_the_same_ensemble_and_evaluation_bit_for_bit(ensemble, tmp_path):
    """It is saved by a process, too: the functions of popsim that a file describes have checks here."""
    save = f"""
import sys, equinox as eqx, jax
from popsim.experiments.registry import rebuild_experiment, save_ensemble
experiment = rebuild_experiment({json.loads(json.dumps(describe_experiment(SMALL)))!r}, "run.json")
untrained = experiment.build_ensemble()
doubled = jax.tree.map(lambda leaf: 2 * leaf if eqx.is_inexact_array(leaf) else leaf, untrained.network)
save_ensemble(sys.argv[1], eqx.tree_at(lambda model: model.network, untrained, doubled), experiment)
"""
    load = """
import sys, popsim
from popsim.experiments.registry import load_ensemble
experiment, ensemble = load_ensemble(sys.argv[1])
evaluation = popsim.evaluate_ensemble(ensemble, experiment.build_task(), key=experiment.key("evaluation"))
print(evaluation.losses.total.tobytes().hex(), ensemble.network.cell.weight_hh.tobytes().hex())
"""
    root, path = Path(popsim.__file__).parents[1], tmp_path / "trained.safetensors"

    def run(code):
        command = [sys.executable, "-W", "error", "-c", code, str(path)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root).stdout

    run(save)
    here = popsim.evaluate_ensemble(ensemble, SMALL.build_task(), key=SMALL.key("evaluation"))
    arrays = (here.losses.total, ensemble.network.cell.weight_hh)
    assert run(load).split() == [np.asarray(array).tobytes().hex() for array in arrays]


def test_other_programs_find_the_weights_by_name(ensemble, path):
    weights = safetensors.numpy.load_file(path)["network.cell.weight_hh"]
    np.testing.assert_array_equal(weights, ensemble.network.cell.weight_hh)


def test_an_ensemble_of_another_experiment_is_not_saved(ensemble, tmp_path):
    larger = dataclasses.replace(SMALL, n_units=5)
    with pytest.raises(MismatchError, match=r"'network.cell.weight_ih' of `ensemble`"):
        save_ensemble(tmp_path / "m", ensemble, larger)
    assert not list(tmp_path.iterdir())


def test_a_number_that_would_be_lost_is_refused_by_name(tmp_path, as_users_run):
    class Model(eqx.Module):
        weight: jax.Array
        gain: float = 1.0

    class Tiny(CenterOut):
        def build_model(self, *, key):
            return Model(jax.random.normal(key, (2,)))

    tiny = Tiny(n_members=2)
    untrained = tiny.build_ensemble()
    save_ensemble(tmp_path / "m", untrained, tiny)
    assert eqx.tree_equal(load_ensemble(tmp_path / "m", build=Tiny)[1], untrained)
    with pytest.raises(MismatchError, match=r"\.gain of `ensemble`.*1\.0, got 2\.0"):
        save_ensemble(tmp_path / "n", Model(untrained.weight, 2.0), tiny)


def test_only_registered_experiments_or_a_given_one_are_rebuilt(ensemble, tmp_path, monkeypatch):
    class Mine(CenterOut):
        name = "mine"

    mine = Mine(**dataclasses.asdict(SMALL))
    save_ensemble(tmp_path / "m", ensemble, mine)
    with pytest.raises(ValueError, match="must be registered.*'mine'"):
        load_ensemble(tmp_path / "m")
    experiment, loaded = load_ensemble(tmp_path / "m", build=Mine)
    assert experiment == mine and eqx.tree_equal(loaded, ensemble)
    monkeypatch.setitem(EXPERIMENTS, "mine", Mine)
    assert load_ensemble(tmp_path / "m")[0] == mine


@pytest.mark.parametrize(
    ("description", "why"),
    [
        ({}, "must name an experiment"),
        ({"experiment": "os.system", "settings": {}}, "registered"),
        ({"experiment": "center-out", "settings": {"n_wings": 2}}, "n_wings"),
        ({"experiment": "center-out", "settings": {"n_units": -1}}, "n_units"),
    ],
)
def test_a_strange_description_is_refused(description, why, tmp_path):
    save_model(tmp_path / "m", {"x": jnp.ones(1)}, details=description)
    with pytest.raises(ValueError, match=why):
        load_ensemble(tmp_path / "m")


def test_more_members_than_the_file_can_hold_are_not_built(tmp_path):
    crowd = describe_experiment(dataclasses.replace(SMALL, n_members=10**6))
    save_model(tmp_path / "m", {"x": jnp.ones(1)}, details=crowd)
    with pytest.raises(CorruptDataError, match="too short"):
        load_ensemble(tmp_path / "m")


def test_an_experiment_survives_json():
    assert rebuild_experiment(json.loads(json.dumps(describe_experiment(SMALL))), "run.json") == SMALL
