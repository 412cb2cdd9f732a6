"""Models in files: every bit comes back, and nothing else is read for one."""

import json
import pickle
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from checkpoint_helpers import bits_of

from popsim.store import leaf_names
from popsim.store.files import FORMAT, CorruptDataError, MismatchError
from popsim.store.model_file import load_model, read_model_details, save_model

DETAILS = {"settings": {"noise": [0.1, None], "2": "ü", "10": True}, "seed": 2**40}


class Model(eqx.Module):
    """All that a model may hold."""

    net: eqx.nn.MLP
    arrays: dict[str, jax.Array]
    keys: dict[str, jax.Array]
    table: np.ndarray
    gain: float
    label: str = eqx.field(static=True)


def build(key, gain=1.5):
    arrays = {
        "half": jnp.linspace(0, 1, 5, dtype=jnp.float16),
        "brain": jnp.asarray([1.0, jnp.nan, -jnp.inf], jnp.bfloat16),
        "count": jnp.arange(3),
        "small": jnp.asarray(-7, jnp.int8),
        "mask": jnp.asarray([True, False]),
        "scalar": jnp.asarray(2.0),
        "nothing": jnp.zeros((0, 3)),
        "a/b.c": jnp.ones(1, jnp.complex64),
    }
    keys = {"threefry": jax.random.split(key, 3), "rbg": jax.random.key(4, impl="rbg")}
    net = eqx.nn.MLP(2, 1, 3, 1, key=key)
    return Model(net, arrays, keys, np.arange(6, dtype=np.float32).reshape(3, 2).T, gain, "here")


def bits(tree):
    leaves = jax.tree.leaves(tree)
    return bits_of({name: leaves[index] for name, index in leaf_names(tree).items()})


@pytest.fixture
def model(getkey):
    return build(getkey())


@pytest.fixture
def path(model, tmp_path):
    save_model(tmp_path / "m.safetensors", model, details=DETAILS)
    return tmp_path / "m.safetensors"


def test_a_model_comes_back_bit_for_bit(model, path, getkey):
    for template in (build(getkey()), eqx.filter_eval_shape(build, getkey())):
        loaded = load_model(path, template)
        assert bits(loaded) == bits(model) and loaded.gain == 1.5 and loaded.label == "here"
        assert jax.tree.structure(loaded) == jax.tree.structure(model)
    assert isinstance(load_model(path, model).table, np.ndarray)
    assert read_model_details(path) == DETAILS


def test_other_programs_find_the_arrays_by_their_paths(model, path, getkey):
    arrays = safetensors.numpy.load_file(path)
    assert set(arrays) == set(leaf_names(model)) == set(leaf_names(eqx.filter_eval_shape(build, getkey())))
    tree = {"a.b": jnp.zeros(1), "a": {"b": jnp.ones(1)}, "left/vision": jnp.full(1, 2.0)}
    assert len(leaf_names(tree)) == 3 and not any("/" in name for name in leaf_names(tree))
    np.testing.assert_array_equal(arrays["net.layers.0.weight"], model.net.layers[0].weight)
    np.testing.assert_array_equal(arrays["keys.rbg"], jax.random.key_data(model.keys["rbg"]))
    np.testing.assert_array_equal(arrays["table"], model.table)


def test_a_template_that_does_not_fit_is_refused_by_the_name_of_the_array(tmp_path):
    """In other ways, too: see those of checkpoints."""
    save_model(tmp_path / "m", {"count": jnp.arange(3)})
    with pytest.raises(MismatchError, match=r"'count'.*\[4\].*\[3\]"):
        load_model(tmp_path / "m", {"count": jnp.arange(4)})


def test_double_precision_is_kept_or_refused(tmp_path):
    with jax.enable_x64(True):
        tree = {"x": jnp.asarray([1 / 3])}
        save_model(tmp_path / "m", tree)
        assert bits(load_model(tmp_path / "m", tree)) == bits(tree)
    with pytest.raises(MismatchError, match="'x'.*enable_x64"):
        load_model(tmp_path / "m", tree)


def test_details_that_cannot_be_written_are_refused_by_name(tmp_path, as_users_run):
    for details in ({"x": jax.nn.relu}, {"x": float("nan")}):
        with pytest.raises(ValueError, match="`details"):
            save_model(tmp_path / "m", {}, details=details)
    assert not list(tmp_path.iterdir())


def test_nothing_but_a_model_file_is_read_and_no_pickle_at_all(model, path, tmp_path):
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return Path.touch, (ran,)

    (tmp_path / "pickle").write_bytes(pickle.dumps(Attack()))
    np.save(tmp_path / "npy", np.array([Attack()]), allow_pickle=True)
    safetensors.numpy.save_file({"x": np.ones(2)}, tmp_path / "other")
    other_format = json.dumps({"format": FORMAT + 1})
    safetensors.numpy.save_file({"x": np.ones(2)}, tmp_path / "later", metadata={"popsim": other_format})
    for name, why in (("pickle", "damaged"), ("npy.npy", "damaged"), ("lost", "missing"), ("", "missing")):
        with pytest.raises(CorruptDataError, match=f"{name}.*{why}"):
            load_model(tmp_path / name, model)
    for name, why in (("other", "popsim wrote"), ("later", f"format {FORMAT}, got {FORMAT + 1}")):
        with pytest.raises(MismatchError, match=f"{name}.*{why}"):
            load_model(tmp_path / name, model)
    assert not ran.exists()
