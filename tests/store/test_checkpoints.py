"""Checkpoints: every bit comes back, what does not fit is refused, and faults lose nothing."""

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
from checkpoint_helpers import (
    assert_intact,
    bits_of,
    expected_arrays,
    file_name,
    reseal,
    save_steps,
    saved_arrays,
    structs_of,
)
from interruptions import closed, copied_at_operations, files_of_at_most, folder_of_others

from popsim.store import RunFolder
from popsim.store import checkpoints as module
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import CorruptDataError, MismatchError, SaveError
from popsim.store.run_parts import RunParts

RUN_ID, OTHER_RUN = "0" * 32, "f" * 32


@pytest.fixture
def saved(tmp_path):
    """Checkpoints of steps 1 and 2."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    save_steps(checkpoints, 1, 2)
    return checkpoints


def names(checkpoints):
    return sorted(path.name for path in checkpoints.path.iterdir())


ARRAYS = {
    "float32": np.array([[1.5, -0.0], [np.nan, np.inf]], np.float32),
    "float64": np.array([1e-300, np.pi]),
    "bfloat16": jnp.arange(5, dtype=jnp.bfloat16) / jnp.bfloat16(3),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "bool": jnp.array([True, False]),
    "complex64": np.array([1 + 2j], np.complex64),
    "scalar": jnp.float32(3.25),
    "none": jnp.zeros((0, 3)),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(10.0)[::3],
    "a name/with é %2E and dots.": np.ones(1, np.float32),
    "threefry key": jax.random.key(3),
    "rbg keys": jax.random.split(jax.random.key(4, impl="rbg"), 3),
    "no keys": jax.random.split(jax.random.key(5), 3)[:0],
}


def test_every_kind_of_array_comes_back_bit_for_bit(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(0, ARRAYS, {"nested": {"list": [1, None, "é"]}})
    restored = checkpoints.restore(lambda details: structs_of(ARRAYS))
    assert (restored.step, restored.details) == (0, {"nested": {"list": [1, None, "é"]}})
    assert bits_of(restored.arrays) == bits_of(ARRAYS)
    assert all(isinstance(x, np.ndarray) for name, x in restored.arrays.items() if "key" not in name)
    for chosen in (["bfloat16", "rbg keys"], ["none"], []):
        part = {name: ARRAYS[name] for name in chosen}
        restored = checkpoints.restore(lambda details, part=part: structs_of(part), subset=True)
        assert bits_of(restored.arrays) == bits_of(part)


def test_the_newest_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", n_kept=2)
    save_steps(checkpoints, 10, 20, 999_999_999, 10**9, 10**9 + 1)
    assert names(checkpoints) == [file_name(10**9), file_name(10**9 + 1)]
    save_steps(checkpoints, 30, 40, 50)
    assert checkpoints.steps() == [40, 50, 10**9, 10**9 + 1]


def test_the_last_that_others_read_stay_besides(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", n_kept=2, shared_steps=range(3, 30, 3))
    for steps, kept in ((range(1, 8), [3, 6, 7]), (range(8, 15), [6, 9, 12, 13, 14])):
        save_steps(checkpoints, *steps)
        assert checkpoints.steps() == checkpoints.kept_steps() == kept
    parts = RunParts(RunFolder(tmp_path), "", checkpoints=tuple(checkpoints.kept_steps()))
    assert parts.missing_checkpoints() == []
    for step in (14, 6):  # although there are as many as are kept of a training that shares none
        checkpoints.file(step).unlink()
    assert parts.missing_checkpoints() == [6, 14]
    save_steps(checkpoints, 15)  # it goes on, and is about to write down what there is
    assert parts.missing_checkpoints() == []


def test_the_caller_may_change_what_it_gave(tmp_path, monkeypatch):
    go, write = threading.Event(), module.write_array_file
    monkeypatch.setattr(module, "write_array_file", lambda *args: (go.wait(20), write(*args)))
    checkpoints = Checkpoints(tmp_path)
    arrays, details = saved_arrays(1), {"list": [1]}
    donated = jnp.arange(1000.0)
    checkpoints.save(1, arrays | {"donated": donated}, details)
    assert checkpoints.steps() == [] and checkpoints.is_writing  # save has returned meanwhile
    arrays["weight"][:] = 0
    details["list"].append(2)
    jax.jit(lambda x: x * 0, donate_argnums=0)(donated).block_until_ready()
    go.set()
    whole = saved_arrays(1) | {"donated": np.arange(1000.0, dtype=np.float32)}
    restored = checkpoints.restore(lambda details: structs_of(whole))
    assert bits_of(restored.arrays) == bits_of(whole) and restored.details == {"list": [1]}


def test_a_wait_that_is_interrupted_loses_no_error(tmp_path, monkeypatch):
    go, checkpoints = threading.Event(), Checkpoints(tmp_path)

    def fail_late(*arguments):
        go.wait(20)
        raise OSError("late")

    monkeypatch.setattr(module, "write_array_file", fail_late)
    checkpoints.save(1, saved_arrays(1), {})
    interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        checkpoints.wait()
    interrupt.join()
    go.set()
    with pytest.raises(SaveError, match=r"step 1 .*late"):
        checkpoints.wait()
    checkpoints.wait()


def test_a_full_disk_leaves_older_checkpoints_as_they_were_and_is_told_by_the_next_call(saved):
    calls = [saved.wait, lambda: save_steps(saved, 4), lambda: saved.restore(expected_arrays), saved.wait]
    for size, next_call in zip((0, 250, 1500, 12_000), calls, strict=True):
        with files_of_at_most(size):
            saved.save(3, saved_arrays(3), {})
            concurrent.futures.wait([saved._pending])
        with pytest.raises(SaveError, match=r"step 3 .*steps \[1, 2\] are as they were.*too large") as raised:
            next_call()
        assert raised.value.__cause__.errno == errno.EFBIG
        assert names(saved) == [file_name(1), file_name(2)]
    save_steps(saved, 3)
    for step in (1, 2, 3):
        assert_intact(saved, step)


def test_leftovers_go_and_nothing_else_does(saved):
    own = [f"{file_name(step)}.0123abcd.partial" for step in (2, 3, 10**9)]
    others = ["3.safetensors", "3.safetensors.0123abcd.partial", "000000003", "000000003.safetensors.old"]
    for name in own + others:
        (saved.path / name).touch()
    assert saved.steps() == [1, 2]
    save_steps(saved, 3)
    assert set(names(saved)) == {*others, *map(file_name, (1, 2, 3))}
    saved.remove()
    assert set(names(saved)) == {*others}


OTHER_KEY = jax.eval_shape(lambda: jax.random.key(0, impl="rbg"))
MISMATCHES = {
    "shape": ({"weight": jax.ShapeDtypeStruct((50, 64), np.float32)}, r"'weight'.*\[50, 64\].*\[64, 50\]"),
    "dtype": ({"weight": jax.ShapeDtypeStruct((64, 50), np.float16)}, "'weight'.*float16 .*float32"),
    "missing": ({"bias": jax.ShapeDtypeStruct((), np.float32)}, r"missing \['bias'\]"),
    "key": ({"key": OTHER_KEY}, "'key'.*rbg keys.*threefry2x32 keys"),
    "key data": ({"key": jax.ShapeDtypeStruct((2,), np.uint32)}, "'key'.*uint32.*threefry2x32 keys"),
}


@pytest.mark.parametrize("changes, message", MISMATCHES.values(), ids=MISMATCHES)
def test_what_does_not_fit_is_refused_by_name(saved, changes, message):
    """No older checkpoint is tried, which would be silent work lost."""
    arrays = saved_arrays(3) | {"key": jax.random.key(3)}
    saved.save(3, arrays, {})
    for subset in (False, True):
        with pytest.raises(MismatchError, match=message):
            saved.restore(lambda details: structs_of(arrays) | changes, subset=subset)
    with pytest.raises(MismatchError, match=r"unexpected \['none', 'weight'\]"):
        saved.restore(lambda details: {"step": jax.ShapeDtypeStruct((), np.int32)}, step=2)


def test_those_of_another_run_or_step_are_refused(tmp_path):
    """Each is intact in itself, and an older one would be of this run."""
    mine = Checkpoints(tmp_path / "mine", run_id=RUN_ID)
    save_steps(mine, 1, 2)
    for run_id, step, message in (
        (OTHER_RUN, 2, f"part of the run {RUN_ID}"),
        (RUN_ID, 3, "of step 2, got step 3"),
    ):
        other = Checkpoints(tmp_path / message, run_id=run_id)
        save_steps(other, step)
        shutil.copy(other.file(step), mine.file(2))
        for read in (mine.restore, lambda _: mine.verify(2), lambda _: mine.verify(2, every_byte=False)):
            with pytest.raises(MismatchError, match=message):
                read(expected_arrays)


def test_another_format_is_refused_and_another_version_is_not(saved):
    reseal(saved.file(2), versions={"popsim": "99.0.0"})
    assert_intact(saved, 2)
    with pytest.raises(MismatchError, match=r"99\.0\.0"):
        saved.restore(lambda details: {}, step=2)
    reseal(saved.file(2), format=2)
    with pytest.raises(MismatchError, match="must have format 1, got 2: use another popsim"):
        saved.restore(expected_arrays)


def test_a_checkpoint_that_is_let_go_of_while_it_is_read_is_not_damaged(tmp_path, monkeypatch):
    """Each of the next three saves takes the checkpoint away that the reader has found."""
    writer, reader = Checkpoints(tmp_path, n_kept=1), Checkpoints(tmp_path)
    save_steps(writer, 1)
    left, open_file = [2, 3, 4], module.ArrayFile.open

    def open_late(*arguments):
        if left:
            save_steps(writer, left.pop(0))
        return open_file(*arguments)

    monkeypatch.setattr(module.ArrayFile, "open", open_late)
    restored = reader.restore(expected_arrays)
    assert restored and restored.step == 4 and bits_of(restored.arrays) == bits_of(saved_arrays(4))


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(saved):
    """The checkpoint before is read; if there is none, an error names all."""
    path = saved.file(2)
    path.write_bytes(b"")
    with pytest.warns(UserWarning, match=f"passed over.*{path.name}"):
        assert saved.restore(expected_arrays).step == 1
    for read in (lambda: saved.restore(expected_arrays, step=2), lambda: saved.verify(2)):
        with pytest.raises(CorruptDataError, match=path.name):
            read()
    saved.file(1).write_bytes(b"")
    message = "(?s)000000002.*000000001"
    with pytest.warns(UserWarning, match="passed over"), pytest.raises(CorruptDataError, match=message):
        saved.restore(expected_arrays)


def test_a_process_killed_at_any_file_operation_loses_nothing(tmp_path):
    """Step 2 is saved twice, so that a checkpoint is replaced; step 1 is deleted."""
    path, done = tmp_path / "checkpoints", []
    with copied_at_operations(path, tmp_path / "left") as left:
        checkpoints = Checkpoints(path, n_kept=2)
        for step in (1, 2, 2, 3):
            save_steps(checkpoints, step)
            done.append((step, len([*(tmp_path / "left").iterdir()])))
    assert len(left) > 8
    for number, copy in enumerate(left):
        checkpoints = Checkpoints(copy)
        steps = checkpoints.steps()
        assert max(steps, default=0) >= max([0, *(step for step, n_copies in done if n_copies <= number)])
        for step in steps:
            assert_intact(checkpoints, step)
        save_steps(checkpoints, 2000)
        assert names(checkpoints) == [file_name(step) for step in [*steps, 2000][-3:]]


def test_a_folder_that_cannot_be_written_or_vanished_is_named(saved, tmp_path):
    """Reading needs no writing."""
    with folder_of_others() as folder:
        checkpoints = Checkpoints(folder / "checkpoints")
        save_steps(checkpoints, 1, 2)
        with closed(checkpoints.path):
            with pytest.raises(SaveError, match=rf"{checkpoints.path}.*steps \[1, 2\].*Permission denied"):
                save_steps(checkpoints, 3)
            assert_intact(checkpoints, 2)
    shutil.rmtree(tmp_path)
    with pytest.raises(SaveError, match="step 3 could not be saved in .*checkpoints"):
        save_steps(saved, 3)
    assert not tmp_path.exists()
