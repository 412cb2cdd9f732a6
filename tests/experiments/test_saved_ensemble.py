import dataclasses

import equinox as eqx
import jax
import pytest

from popsim.experiments import EXPERIMENTS, CenterOut
from popsim.experiments.registry import load_ensemble, save_ensemble
from popsim.store.files import MismatchError

SMALL = CenterOut(n_members=2, n_units=4, duration=0.1, vision_delay=0.02, plant="point-mass", seed=3)


@pytest.fixture(scope="module")
def ensemble():
    """As if it had been trained."""
    return eqx.tree_at(
        lambda model: model.network.readout.weight, SMALL.build_ensemble(), replace_fn=lambda w: 2 * w
    )


def test_an_ensemble_of_another_experiment_is_not_saved(ensemble, tmp_path):
    with pytest.raises(MismatchError, match=r"'network.cell.weight_ih' of `ensemble`"):
        save_ensemble(tmp_path / "m", ensemble, dataclasses.replace(SMALL, n_units=5))
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
