"""What a model file says of a model beside its arrays, compared when it is loaded."""

import functools
import json
import subprocess
import sys
import warnings

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
import safetensors.numpy

import popsim
from popsim import _comparison, senses
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.plants import PointMass
from popsim.store import CorruptDataError, MismatchError, load_model, save_model
from popsim.store.model_file import FORMAT

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
        r"`model\.network\.nonlinearity`, tanh \w+ then and relu",
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
    "closure": (lambda k=1: gated(scaled(k)), {"k": 2}, r"`model\.network\.output_fn`, scaled"),
    "partial": (
        lambda most=1.0: gated(functools.partial(limited, most=most)),
        {"most": 2.0},
        r"`model\.network\.output_fn`, partial \w+ then and partial",
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


def with_lambda(number):
    return (gated(lambda x: x), gated(lambda x: 2 * x))[number]


def test_a_lambda_of_other_code_is_named_in_a_warning(tmp_path):
    """Also where both are in one statement, whose source is the same."""
    save_model(tmp_path / "m", with_lambda(0))
    with pytest.warns(UserWarning, match=r"is not known of `model\.network\.output_fn`") as told:
        load_model(tmp_path / "m", with_lambda(1))
    assert len(told) == 1
    load_model(tmp_path / "m", with_lambda(0))


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
    assert "`model.0.network.nonlinearity`" in run("load", OF_MODULE)  # the same, but of a module
    assert "`model.1`" in run("load", returned="2")
    assert "`model.1.rule`" in run("load", number=2)


def test_between_versions_only_known_differences_are_refused(tmp_path, monkeypatch):
    save_model(tmp_path / "m", reaching())
    real = _comparison.describe_parts

    def of_a_later_version(*arguments):
        described = real(*arguments)
        described["parts"]["model.plant.limb"] = "None"  # a field of a later version
        path = "model.channels.vision.sense"
        described["parts"][path] = described["parts"][path][:-8] + "0" * 8
        return described | {"versions": described["versions"] | {"popsim": "9.0"}}

    monkeypatch.setattr("popsim.store.model_file.describe_parts", of_a_later_version)
    with pytest.warns(UserWarning, match=r"not known of `model.channels.vision.sense`, `model.plant.limb`"):
        load_model(tmp_path / "m", reaching())
    with pytest.raises(MismatchError, match=r"`model\.dt`, 0\.01 then and 0\.02 now"):
        load_model(tmp_path / "m", reaching(dt=0.02))


def edited(path, change):
    """Write a file anew with other metadata, whose digest fits."""
    from popsim.store.array_file import content_digest

    with safetensors.safe_open(path, "numpy") as file:
        content = json.loads(file.metadata()["popsim"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    content.pop("sha256")
    change(content)
    content["sha256"] = content_digest(content)
    safetensors.numpy.save_file(arrays, path, {"popsim": json.dumps(content)})


def test_a_file_that_does_not_describe_its_model_gives_one_warning(tmp_path):
    save_model(tmp_path / "m", rates())
    edited(tmp_path / "m", lambda content: content.pop("static"))
    with pytest.warns(UserWarning, match="describes only the arrays of the model") as told:
        load_model(tmp_path / "m", rates())
    assert len(told) == 1 and FORMAT == 1


@pytest.mark.parametrize(
    "forged",
    [3, [], {}, {"parts": []}, {"parts": {"model": 3}, "code": {}}, {"parts": {}, "code": {"model": 1}}],
)
def test_forged_descriptions_are_damage(forged, tmp_path, as_users_run):
    save_model(tmp_path / "m", rates())
    edited(tmp_path / "m", lambda content: content.update(static=forged))
    with pytest.raises(CorruptDataError, match="must describe a model as popsim writes it"):
        load_model(tmp_path / "m", rates())


def test_forged_texts_are_printable_and_short(tmp_path):
    save_model(tmp_path / "m", rates())
    edited(
        tmp_path / "m", lambda content: content["static"]["parts"].update({"model.dt": "\x1b[2J\n" * 10**4})
    )
    with pytest.raises(MismatchError, match=r"`model\.dt`, \?\[2J\?") as refusal:
        load_model(tmp_path / "m", rates())
    assert str(refusal.value).isprintable() and len(str(refusal.value)) < 1000
