"""What a model file says of a model beside its arrays, compared when it is loaded."""

import functools
import subprocess
import sys
import warnings

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import popsim
from popsim import senses
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.plants import PointMass
from popsim.store import MismatchError, load_model, model_file, save_model

KEY = jax.random.key(0)


def rates(*, dt=0.01, **settings):
    return popsim.NetworkModel(LeakyRNN(2, 3, 1, dt=dt, key=KEY, **settings), dt=dt)


def gated(output_fn=None, dt=0.01):
    return popsim.NetworkModel(GRUNetwork(2, 3, 1, output_fn=output_fn, key=KEY), dt=dt)


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


def layer(gain):
    return Layer(jnp.ones(2), gain)


DIFFERENT = {
    "nonlinearity": (
        rates,
        {"nonlinearity": jax.nn.relu},
        r"`model\.network\.nonlinearity`, tanh then and relu",
    ),
    "dt of a network": (
        rates,
        {"dt": 0.02},
        r"`model\.network\.dt`, 0\.01 then and 0\.02 now",
    ),
    "dt": (gated, {"dt": 0.02}, r"`model\.dt`, 0\.01 then and 0\.02 now"),
    "what is trained": (rates, {"train_tau": True}, r"`model\.network\.train_tau`, False then and True now"),
    "output_fn": (
        gated,
        {"output_fn": jax.nn.sigmoid},
        r"`model\.network\.output_fn`, None then and sigmoid",
    ),
    "delay": (reaching, {"delay": 0.03}, r"`model\.channels\.vision\.delay`, 0\.02 then and 0\.03 now"),
    "sense": (reaching, {"sense": senses.proprioception}, r"`model\.channels\.vision\.sense`, vision"),
    "dt of a loop": (reaching, {"dt": 0.005}, r"`model\.dt`, 0\.01 then and 0\.005 now"),
    "solver": (reaching, {"solver": diffrax.Euler()}, r"`model\.plant\.solver`, Heun then and Euler now"),
    "substeps": (reaching, {"n_substeps": 2}, r"`model\.plant\.n_substeps`, 1 then and 2 now"),
    "name": (reaching, {"name": "sight"}, r"`model\.channels\.\w+`, .*`model\.channels\.\w+`"),
    "closure": (
        lambda k=1: gated(scaled(k)),
        {"k": 2},
        r"`model\.network\.output_fn\.factor`, 1 then and 2 now",
    ),
    "partial": (
        lambda most=1.0: gated(functools.partial(limited, most=most)),
        {"most": 2.0},
        r"`model\.network\.output_fn\.most`, 1\.0 then and 2\.0 now",
    ),
    "number": (lambda gain=1.0: layer(gain), {"gain": 2.0}, r"`model\.gain`, 1\.0 then and 2\.0 now"),
    "long text": (lambda end="a": layer("x" * 200 + end), {"end": "b"}, r"`model\.gain`, x+ \w+ then"),
    "kind": (lambda gain=1: layer(gain), {"gain": "one"}, r"`model\.gain`, 1 then and one now"),
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


SCRIPT = """
import sys, warnings
import equinox as eqx, jax, popsim
from popsim.store import load_model, save_model
{import_of_rule}
class Net(eqx.Module):
    weight: jax.Array
    rule: object
    def read(self): return {returned}
def build():
    network = popsim.networks.LeakyRNN(1, 2, 1, nonlinearity=rule, key=jax.random.key(0))
    return popsim.NetworkModel(network, dt=0.01)
warnings.simplefilter("error")
if sys.argv[1] == "save":
    save_model(sys.argv[2], (build(), Net(jax.numpy.ones(1), lambda x: x + {number})))
else:
    try: load_model(sys.argv[2], (build(), Net(jax.numpy.ones(1), lambda x: x + {number})))
    except UserWarning as warning: print(warning)
"""
OF_MODULE = "from rules import rule"
OF_SCRIPT = "def rule(x): return jax.numpy.tanh(x)"


@pytest.mark.slow
@pytest.mark.full
def test_code_of_scripts_is_compared_across_processes(tmp_path):
    (tmp_path / "rules.py").write_text(f"import jax\n{OF_SCRIPT}\n")

    def run(verb, rule=OF_SCRIPT, returned="1", number=1):
        text = SCRIPT.format(import_of_rule=rule, returned=returned, number=number)
        (tmp_path / "script.py").write_text(text)
        command = [sys.executable, str(tmp_path / "script.py"), verb, str(tmp_path / "m")]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    assert run("save") == ""
    assert run("load") == ""
    assert run("load", OF_MODULE) == ""  # the same, but of a module
    assert "`Net.read`" in run("load", returned="2")
    assert "not known of `" in run("load", number=2)


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
