import concurrent.futures
import errno
import os
import shutil
import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkpoint_helpers import assert_intact, bits_of, file_name, reseal, save_steps, structs_of
from saving_process import expected_arrays, saved_arrays

from popsim.store import checkpoints as module
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import MismatchError, SaveError


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory):
    path = tmp_path_factory.mktemp("once") / "checkpoints"
    save_steps(Checkpoints(path), 1, 2)
    return path


@pytest.fixture
def saved(saved_once, tmp_path):
    """Checkpoints of steps 1 and 2."""
    return Checkpoints(shutil.copytree(saved_once, tmp_path / "checkpoints"))


ARRAYS = {
    "float32": np.array([[1.5, -0.0], [np.nan, np.inf]], np.float32),
    "float16": np.array([1.5, np.nan, 6e-8], np.float16),
    "float64": np.array([1e-300, np.pi]),
    "bfloat16": jnp.arange(5, dtype=jnp.bfloat16) / jnp.bfloat16(3),
    "int8": np.array([-128, 127], np.int8),
    "uint32": jnp.array([2**32 - 1], jnp.uint32),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "bool": jnp.array([True, False]),
    "complex64": np.array([1 + 2j], np.complex64),
    "scalar": jnp.float32(3.25),
    "scalar integer": np.asarray(-7),
    "none": jnp.zeros((0, 3)),
    "no columns": np.zeros((2, 0, 5), np.int32),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(10.0)[::3],
    "zeros": np.zeros((100, 100), np.float32),
    "a name/with é %2E and dots.": np.ones(1, np.float32),
    "threefry key": jax.random.key(3),
    "rbg keys": jax.random.split(jax.random.key(4, impl="rbg"), 3),
    "no keys": jax.random.split(jax.random.key(5), 3)[:0],
}


def test_every_kind_of_array_comes_back_bit_for_bit(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(0, ARRAYS, {"nested": {"list": [1, None, "é"]}})
    checkpoints.wait()
    restored = checkpoints.restore(lambda details: structs_of(ARRAYS))
    assert (restored.step, restored.details) == (0, {"nested": {"list": [1, None, "é"]}})
    assert bits_of(restored.arrays) == bits_of(ARRAYS)
    assert jax.random.bits(restored.arrays["rbg keys"][1]) == jax.random.bits(ARRAYS["rbg keys"][1])
    assert all(isinstance(x, np.ndarray) for name, x in restored.arrays.items() if "key" not in name)


@pytest.mark.parametrize("arrays", [{}, {"none": np.zeros((0,), np.float32)}])
def test_nothing_to_write(tmp_path, arrays):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, arrays, {})
    assert bits_of(checkpoints.restore(lambda details: structs_of(arrays)).arrays) == bits_of(arrays)


def test_a_subset_is_read(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, ARRAYS, {})
    for names in (["bfloat16", "rbg keys"], ["none"], ["no keys", "scalar"], []):
        part = {name: ARRAYS[name] for name in names}
        restored = checkpoints.restore(lambda details, part=part: structs_of(part), subset=True)
        assert bits_of(restored.arrays) == bits_of(part)


def test_no_checkpoint_at_all(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        checkpoints = Checkpoints(path)
        assert checkpoints.restore(expected_arrays) is None and checkpoints.steps() == []
        with pytest.raises(ValueError, match="`step` must be one of"):
            checkpoints.restore(expected_arrays, step=1)
        with pytest.raises(ValueError, match="`step` must be one of"):
            checkpoints.verify(1)
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_cannot_be_saved(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for array in (np.array(["a"]), np.array([None])):
        with pytest.raises(ValueError, match=r"array 'a\.b' must have"):
            checkpoints.save(1, {"a.b": array}, {})
    for details in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises(ValueError, match="`details"):
            checkpoints.save(1, {}, details)
    checkpoints.wait()
    assert checkpoints.steps() == []


def test_the_newest_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", n_kept=2)
    save_steps(checkpoints, 10, 20, 999_999_999, 10**9, 10**9 + 1)
    assert checkpoints.steps() == [10**9, 10**9 + 1]
    assert sorted(path.name for path in checkpoints.path.iterdir()) == [
        file_name(10**9),
        file_name(10**9 + 1),
    ]
    assert checkpoints.verify(10**9) == {"step": 10**9}
    save_steps(checkpoints, 30, 40, 50)
    assert checkpoints.steps() == [40, 50, 10**9, 10**9 + 1]


def test_the_caller_may_change_what_it_gave(tmp_path, monkeypatch):
    go = _slowed(monkeypatch)
    checkpoints = Checkpoints(tmp_path)
    arrays, details = saved_arrays(1), {"list": [1]}
    donated = jnp.arange(1000.0)
    checkpoints.save(1, arrays | {"donated": donated}, details)
    assert checkpoints.steps() == []  # save has returned while the files are held up
    arrays["weight"][:] = 0
    details["list"].append(2)
    jax.jit(lambda x: x * 0, donate_argnums=0)(donated).block_until_ready()
    go.set()
    checkpoints.wait()
    whole = saved_arrays(1) | {"donated": np.arange(1000.0, dtype=np.float32)}
    restored = checkpoints.restore(lambda details: structs_of(whole))
    assert bits_of(restored.arrays) == bits_of(whole) and restored.details == {"list": [1]}


def test_saving_does_not_block_and_a_wait_that_is_interrupted_loses_nothing(tmp_path, monkeypatch):
    go, checkpoints = threading.Event(), Checkpoints(tmp_path)

    def fail_late(*arguments):
        go.wait(20)
        raise OSError("late")

    monkeypatch.setattr(module, "write_array_file", fail_late)
    checkpoints.save(1, saved_arrays(1), {})
    assert checkpoints.is_writing
    interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        checkpoints.wait()
    interrupt.join()
    go.set()
    with pytest.raises(SaveError, match=r"step 1 .*late"):
        checkpoints.wait()
    checkpoints.wait()


def _slowed(monkeypatch):
    """Writing waits for the event that is returned."""
    go, write = threading.Event(), module.write_array_file
    monkeypatch.setattr(module, "write_array_file", lambda *args: (go.wait(20), write(*args)))
    return go


def test_an_error_in_the_background_surfaces(saved, monkeypatch):
    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    for surfacing in (saved.wait, lambda: save_steps(saved, 4), lambda: saved.restore(expected_arrays)):
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_array_file", fail)
            saved.save(3, saved_arrays(3), {})
            concurrent.futures.wait([saved._pending])
        with pytest.raises(SaveError, match=r"step 3 .*steps \[1, 2\] are as they were.*No space") as raised:
            surfacing()
        assert raised.value.__cause__.errno == errno.ENOSPC
        assert sorted(path.name for path in saved.path.iterdir()) == [file_name(1), file_name(2)]
    save_steps(saved, 3)
    assert_intact(saved, 3)


def test_a_checkpoint_is_replaced(saved, monkeypatch):
    """The old one stands until the new one does, even if the process dies between the two renames."""
    saved.save(2, {"x": np.ones(3)}, {"new": True})
    saved.wait()
    assert saved.steps() == [1, 2] and saved.verify(2) == {"new": True}
    save_steps(saved, 2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError("dies here")))
        saved.save(2, {"x": np.ones(3)}, {})
        with pytest.raises(SaveError, match="dies here"):
            saved.wait()
    assert_intact(saved, 2)
    save_steps(saved, 3)
    assert sorted(path.name for path in saved.path.iterdir()) == [file_name(step) for step in (1, 2, 3)]
    assert_intact(saved, 2)


def test_leftovers_go_and_nothing_else_does(saved):
    own = [f"{file_name(step)}.0123abcd.partial" for step in (2, 3, 10**9)]
    others = [
        *("3.safetensors", "3.safetensors.0123abcd.partial", "x.safetensors.0123abcd.partial", "000000003"),
        *("000000003.safetensors.partial", "000000003.safetensors.old", "x", "0000000003.safetensors"),
    ]
    for name in own + others:
        (saved.path / name).touch()
    folder = saved.path / f"{file_name(7)}.0123abcd.partial"
    folder.mkdir()
    assert saved.steps() == [1, 2]
    save_steps(saved, 3)
    left = {path.name for path in saved.path.iterdir()}
    assert left == {folder.name, *others, *map(file_name, (1, 2, 3))}
    (saved.path / file_name(8)).mkdir()
    with pytest.raises(SaveError, match="step 8"):
        save_steps(saved, 8)


MISMATCHES = {
    "shape": ({"weight": jax.ShapeDtypeStruct((50, 64), np.float32)}, r"'weight'.*\[50, 64\].*\[64, 50\]"),
    "dtype": ({"weight": jax.ShapeDtypeStruct((64, 50), np.float16)}, "'weight'.*float16 .*float32"),
    "integers": ({"step": jax.ShapeDtypeStruct((), np.uint32)}, "'step'.*uint32.* int32"),
    "width": ({"weight": jax.ShapeDtypeStruct((2, 64, 50), np.float32)}, r"'weight'.*\[2, 64, 50\]"),
    "empty": ({"none": jax.ShapeDtypeStruct((3, 0), np.float32)}, "'none'"),
    "missing": ({"bias": jax.ShapeDtypeStruct((), np.float32)}, r"missing \['bias'\]"),
    "key": (
        {"key": jax.eval_shape(lambda: jax.random.key(0, impl="rbg"))},
        "'key'.*rbg keys.*threefry2x32 keys",
    ),
    "key data": ({"key": jax.ShapeDtypeStruct((2,), np.uint32)}, "'key'.*uint32.*threefry2x32 keys"),
    "no key": ({"step": jax.eval_shape(lambda: jax.random.key(0))}, "'step'.*threefry2x32 keys.*int32"),
}


@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize("changes, message", MISMATCHES.values(), ids=MISMATCHES)
def test_what_does_not_fit_is_refused_by_name(saved, changes, message, subset):
    """No older checkpoint is tried, which would be silent work lost."""
    arrays = saved_arrays(3) | {"key": jax.random.key(3)}
    saved.save(3, arrays, {})
    with pytest.raises(MismatchError, match=message):
        saved.restore(lambda details: structs_of(arrays) | changes, subset=subset)


def test_an_array_too_many_and_another_configuration_are_refused(saved):
    def expect_less(details):
        return {"step": jax.ShapeDtypeStruct((), np.int32)}

    def refuse(details):
        raise MismatchError(f"not the run of {details}")

    with pytest.raises(MismatchError, match=r"unexpected \['none', 'weight'\]"):
        saved.restore(expect_less)
    assert saved.restore(expect_less, subset=True).arrays["step"] == 2
    with pytest.raises(MismatchError, match="not the run of {'step': 2}"):
        saved.restore(refuse)


def test_another_format_is_refused_and_another_version_is_not(saved):
    folder = saved.path / file_name(2)
    reseal(folder, versions={"popsim": "99.0.0"})
    assert_intact(saved, 2)
    with pytest.raises(MismatchError, match=r"99\.0\.0"):
        saved.restore(lambda details: {}, step=2)
    reseal(folder, format=2)
    with pytest.raises(MismatchError, match="must have format 1, got 2: use another popsim"):
        saved.restore(expected_arrays)


def test_a_checkpoint_that_is_let_go_of_while_it_is_read_is_not_damaged(tmp_path, monkeypatch):
    """Each of the next three saves takes the checkpoint away that the reader has found."""
    writer, reader = Checkpoints(tmp_path, n_kept=1), Checkpoints(tmp_path)
    save_steps(writer, 1)
    left = [2, 3, 4]

    def read_late(*arguments):
        if left:
            save_steps(writer, left.pop(0))
        return open_array_file(*arguments)

    open_array_file = module.open_array_file
    monkeypatch.setattr(module, "open_array_file", read_late)
    restored = reader.restore(expected_arrays)
    assert restored and restored.step == 4 and bits_of(restored.arrays) == bits_of(saved_arrays(4))
