import json
import os
import pickle
import random
import struct
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
from popsim.store import leaf_names
from popsim.store.array_file import content_digest
from popsim.store.files import CorruptDataError, MismatchError, SaveError
from popsim.store.model_file import FORMAT, load_model, read_model_details, save_model

ROOT = Path(popsim.__file__).resolve().parents[1]
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
    leaves = (leaf for leaf in jax.tree.leaves(tree) if eqx.is_array(leaf) or isinstance(leaf, np.ndarray))
    data = [
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for leaf in leaves
    ]
    return [(str(array.dtype), array.shape, np.asarray(array).tobytes()) for array in data]


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
        for name, key in model.keys.items():
            assert jax.random.key_impl(loaded.keys[name]) == jax.random.key_impl(key)
    assert isinstance(load_model(path, model).table, np.ndarray)
    assert read_model_details(path) == DETAILS


def test_the_same_model_gives_the_same_file(model, path, tmp_path):
    save_model(tmp_path / "again", model, details=DETAILS)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_one_array_and_no_array_are_models(tmp_path):
    save_model(tmp_path / "one", np.arange(3.0))
    np.testing.assert_array_equal(load_model(tmp_path / "one", np.zeros(3)), [0, 1, 2])
    save_model(tmp_path / "none", {"gain": 1.0})
    assert load_model(tmp_path / "none", {"gain": 1}) == {"gain": 1}
    assert read_model_details(tmp_path / "none") == {}


def test_other_programs_find_the_arrays_by_their_names(model, path):
    arrays = safetensors.numpy.load_file(path)
    assert set(arrays) == set(leaf_names(model))
    np.testing.assert_array_equal(arrays["net.layers.0.weight"], model.net.layers[0].weight)
    np.testing.assert_array_equal(arrays["keys.rbg"], jax.random.key_data(model.keys["rbg"]))
    np.testing.assert_array_equal(arrays["table"], model.table)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: {**t, "extra": jnp.ones(2)}, r"missing \['extra'\]"),
        (lambda t: {k: v for k, v in t.items() if k != "scale"}, r"unexpected \['scale'\]"),
        (lambda t: {**t, "count": jnp.arange(4)}, "'count'.*\\[4\\].*\\[3\\]"),
        (lambda t: {**t, "count": jnp.arange(3.0)}, "'count'.*float32.*int32"),
        (lambda t: {**t, "scale": jnp.asarray(2.0, jnp.bfloat16)}, "'scale'.*bfloat16.*float32"),
        (lambda t: {**t, "key": jax.random.key(0, impl="rbg")}, "'key'.*rbg.*threefry"),
        (lambda t: {**t, "raw": jax.random.key(0, impl="rbg")}, "'raw'.*rbg"),
        (lambda t: {**t, "key": jnp.zeros(2, jnp.uint32)}, "'key'.*threefry"),
    ],
)
def test_a_template_that_does_not_fit_is_refused_by_the_name_of_the_array(change, named, tmp_path):
    tree = {"count": jnp.arange(3), "scale": jnp.asarray(2.0), "key": jax.random.key(0)}
    tree["raw"] = jnp.zeros(4, jnp.uint32)
    save_model(tmp_path / "m", tree)
    with pytest.raises(MismatchError, match=named):
        load_model(tmp_path / "m", change(tree))


def test_double_precision_is_kept_or_refused(tmp_path):
    with jax.enable_x64(True):
        tree = {"x": jnp.asarray([1 / 3])}
        save_model(tmp_path / "m", tree)
        assert bits(load_model(tmp_path / "m", tree)) == bits(tree)
    with pytest.raises(MismatchError, match="'x'.*enable_x64"):
        load_model(tmp_path / "m", tree)


def test_what_cannot_be_written_is_refused_by_name(tmp_path, as_users_run):
    for tree, named in (
        ({"x": jnp.ones(2, jnp.int4)}, "'x'.*int4"),
        ({"__metadata__": jnp.ones(1)}, "__meta"),
    ):
        with pytest.raises(ValueError, match=named):
            save_model(tmp_path / "m", tree)
    for details in ({"x": jax.nn.relu}, {"x": float("nan")}, 5):
        with pytest.raises(ValueError, match="`details"):
            save_model(tmp_path / "m", {}, details=details)
    assert not list(tmp_path.iterdir())


def test_no_flipped_bit_is_read_silently(model, path):
    good, draw, found = path.read_bytes(), random.Random(0), 0
    for _ in range(200):
        damaged = bytearray(good)
        damaged[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            loaded = load_model(path, model)
        except (CorruptDataError, MismatchError) as error:
            assert str(path) in str(error)
            found += 1
        else:
            assert bits(loaded) == bits(model) and read_model_details(path) == DETAILS
    assert found > 190


def test_a_torn_or_lost_file_is_refused_by_name(model, path, tmp_path):
    good = path.read_bytes()
    cuts = [0, 1, 7, 8, 9, *np.linspace(10, len(good) - 1, 50).astype(int)]
    for text in [good[:cut] for cut in cuts] + [good + b"\0"]:
        path.write_bytes(text)
        with pytest.raises(CorruptDataError, match=path.name):
            load_model(path, model)
    for lost in (tmp_path / "lost", tmp_path):
        with pytest.raises(CorruptDataError, match="missing"):
            load_model(lost, model)


def test_nothing_but_a_model_file_is_read_and_no_pickle_at_all(model, path, tmp_path, monkeypatch):
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return Path.touch, (ran,)

    (tmp_path / "pickle").write_bytes(pickle.dumps(Attack()))
    np.save(tmp_path / "npy", np.array([Attack()]), allow_pickle=True)
    (tmp_path / "garbage").write_bytes(random.Random(0).randbytes(10**5))
    safetensors.numpy.save_file({"x": np.ones(2)}, tmp_path / "other")
    content = {"format": FORMAT + 1}
    other_format = json.dumps({**content, "sha256": content_digest(content)})
    safetensors.numpy.save_file({"x": np.ones(2)}, tmp_path / "later", metadata={"popsim": other_format})

    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert bits(load_model(path, model)) == bits(model)
    for name in ("pickle", "npy.npy", "garbage"):
        with pytest.raises(CorruptDataError, match=name):
            load_model(tmp_path / name, model)
    for name, why in (("other", "popsim wrote"), ("later", f"format {FORMAT}, got {FORMAT + 1}")):
        with pytest.raises(MismatchError, match=f"{name}.*{why}"):
            load_model(tmp_path / name, model)
    assert not ran.exists()


def forge(path, arrays, metadata, data=b"", length=None):
    header = json.dumps({"__metadata__": {"popsim": metadata}, **arrays}).encode()
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)


def test_absurd_sizes_are_refused_before_anything_is_allocated(tmp_path):
    """Ten files that claim to hold up to 10^15 numbers where one is expected."""
    folder, huge = tmp_path / "forged", 10**15
    folder.mkdir()
    path = tmp_path / "m"
    save_model(path, {"x": np.ones(1, np.float32)})
    whole = safetensors.safe_open(path, "numpy").metadata()["popsim"]
    for index, (shape, n_bytes) in enumerate(
        [([huge], 4 * huge), ([huge], 4), ([2**62, 8], 0), ([huge, 0], 0)]
    ):
        x = {"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, n_bytes]}}
        forge(folder / f"shape-{index}", x, whole, data=b"1234"[:n_bytes])
    for index, length in enumerate((huge, 2**63, 2**64 - 1)):
        forge(folder / f"length-{index}", {}, whole, length=length)
    forge(folder / "nested", {}, '{"format": 1, "sha256": ' + "[" * 10**5)
    sparse = {"x": {"dtype": "F32", "shape": [2**36], "data_offsets": [0, 2**38]}}
    forge(folder / "sparse", sparse, whole)
    os.truncate(folder / "sparse", (folder / "sparse").stat().st_size + 2**38)
    with (folder / "spaces").open("wb") as file:
        file.write(struct.pack("<Q", 9 * 10**7))
        file.truncate(9 * 10**7 + 8)
    code = """
import pathlib, resource, sys
import numpy as np
from popsim.store.model_file import load_model
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
template = {"x": np.ones(1, np.float32)}
assert load_model(sys.argv[2], template) == template
before = peak()
for path in pathlib.Path(sys.argv[1]).iterdir():
    try: load_model(path, template)
    except ValueError as error: refused = type(error).__name__
    print(path.name, refused, peak() - before)
"""
    lines = child(code, folder, path).splitlines()
    assert len(lines) == 10
    for line in lines:
        name, refused, megabytes = line.split()
        assert refused in ("CorruptDataError", "MismatchError"), name
        assert float(megabytes) < 200, line


def child(code, *arguments) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path):
    before = path.read_bytes()
    code = """
import resource, sys
import numpy as np
from popsim.store.files import SaveError
from popsim.store.model_file import save_model
for limit in np.linspace(0, 1e6, 50).astype(int):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    try: save_model(sys.argv[1], {"x": np.ones(130000)}, overwrite=True)
    except SaveError as error: refused = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(refused)
"""
    refusals = child(code, path).splitlines()
    assert len(refusals) == 50 and all(str(path) in line and "too large" in line for line in refusals)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    sealed = tmp_path / "sealed"
    sealed.mkdir(mode=0o500)
    folders = [tmp_path / "gone", tmp_path / "file"]
    for folder in folders if os.geteuid() == 0 else [*folders, sealed]:
        with pytest.raises(SaveError, match=str(folder / "m")):
            save_model(folder / "m", {"x": jnp.ones(1)})


def test_only_a_model_file_is_replaced_and_only_when_told_to(model, path, tmp_path):
    with pytest.raises(ValueError, match="overwrite"):
        save_model(path, {"x": jnp.ones(1)})
    assert bits(load_model(path, model)) == bits(model)
    save_model(path, {"x": jnp.ones(1)}, overwrite=True)
    assert load_model(path, {"x": jnp.zeros(1)}) == {"x": jnp.ones(1)}
    (tmp_path / "thesis").write_text("all of it")
    with pytest.raises(ValueError, match="thesis"):
        save_model(tmp_path / "thesis", model, overwrite=True)
    assert (tmp_path / "thesis").read_text() == "all of it"
