"""What a model file says of a model beside its arrays, compared when it is loaded."""

import functools
import warnings

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from popsim import senses
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.networks import GRUNetwork
from popsim.plants import PointMass
from popsim.store import MismatchError, load_model, model_file, save_model

KEY = jax.random.key(0)


def reaching(*, delay=0.02, sense=senses.vision, dt=0.01, solver=None, n_substeps=1, name="vision"):
    plant = PointMass(solver=diffrax.Heun() if solver is None else solver, n_substeps=n_substeps)
    channels = {name: senses.SensoryChannel(sense, delay=delay)}
    network = GRUNetwork(4, 3, 2, key=KEY)
    return SensorimotorLoop(network, plant, channels, dt=dt)


def scaled(factor):
    return lambda x: factor * x


def limited(x, most=1.0):
    return jnp.clip(x, -most, most)


class Layer(eqx.Module):
    """An array, and a field that is a leaf."""

    weight: jax.Array
    gain: object


def layer(gain=1.0):
    return Layer(jnp.ones(2), gain)


DIFFERENT = {
    "delay": (reaching, {"delay": 0.03}, r"`model\.channels\.vision\.delay`, 0\.02 then and 0\.03 now"),
    "sense": (reaching, {"sense": senses.proprioception}, r"`model\.channels\.vision\.sense`, vision"),
    "solver": (reaching, {"solver": diffrax.Euler()}, r"`model\.plant\.solver`, Heun then and Euler now"),
    "name": (reaching, {"name": "sight"}, r"`model\.channels\.\w+`, .*`model\.channels\.\w+`"),
    "closure": (lambda k=1: layer(scaled(k)), {"k": 2}, r"`model\.gain\.factor`, 1 then and 2"),
    "partial": (
        lambda most=1.0: layer(functools.partial(limited, most=most)),
        {"most": 2.0},
        r"`model\.gain\.most`, 1\.0 then and 2\.0 now",
    ),
    "number": (layer, {"gain": 2.0}, r"`model\.gain`, 1\.0 then and 2\.0 now"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_model_is_refused_by_name(name, tmp_path):
    make, other, named = DIFFERENT[name]
    save_model(tmp_path / "m", make())
    for template in (make(**other), eqx.filter_eval_shape(make, **other)):
        with pytest.raises(MismatchError, match=named) as refusal:
            load_model(tmp_path / "m", template)
        assert str(tmp_path / "m") in str(refusal.value) and "\n" not in str(refusal.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(tmp_path / "m", eqx.filter_eval_shape(make))


def test_equal_numbers_of_other_types_are_the_same(tmp_path):
    save_model(tmp_path / "m", reaching(delay=0.0))
    assert load_model(tmp_path / "m", reaching(delay=0)).channels["vision"].delay == 0


def test_between_versions_only_known_differences_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "__version__", "0.0")
    save_model(tmp_path / "m", reaching())
    monkeypatch.undo()
    real = model_file._static_parts

    def with_a_new_field(model):
        described = real(model)
        return described | {"settings": described["settings"] | {"model.plant.limb": "None"}}

    monkeypatch.setattr(model_file, "_static_parts", with_a_new_field)
    with pytest.warns(UserWarning, match=r"not known of `model.plant.limb`"):
        load_model(tmp_path / "m", reaching())
    with pytest.raises(MismatchError, match=r"`model\.dt`, 0\.01 then and 0\.02 now"):
        load_model(tmp_path / "m", reaching(dt=0.02))
