"""Write and read the arrays of checkpoints with Orbax."""

import contextlib
import errno
import logging
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from popsim.store.files import CorruptDataError, MismatchError, lacks_handles


class BackgroundWrite:
    """A queue of writes that run one after the other, each in its own thread.

    Signals and interrupts reach only the main thread, so a write that has started runs to its end. A failure
    that nobody waited for is printed when the process ends.
    """

    def __init__(self) -> None:
        self._ended = threading.Event()  # an interrupted `Thread.join` treats the thread as ended
        self._ended.set()
        self._errors: list[BaseException] = []
        self._one_at_a_time = threading.Lock()
        weakref.finalize(self, _raise_first, self._errors)

    def start(self, write: Callable[[], None]) -> None:
        """Start `write` when the previous write has ended.

        **Raises:** the error of the previous write; `write` is then not started.
        """
        self.wait()
        thread = threading.Thread(target=self._run, args=(write,), name="popsim background write")
        self._ended.clear()
        try:
            thread.start()
        except BaseException:
            if thread.ident is None:
                self._ended.set()
            raise

    @property
    def is_running(self) -> bool:
        """Whether a write is in progress."""
        return not self._ended.is_set()

    def wait(self) -> None:
        """Wait for the current write.

        **Raises:** the error of that write, once.
        """
        self._ended.wait()
        _raise_first(self._errors)

    def _run(self, write: Callable[[], None]) -> None:
        with self._one_at_a_time:
            try:
                write()
            except BaseException as error:
                self._errors.append(error)
            finally:
                self._ended.set()


def _raise_first(errors: list[BaseException]) -> None:
    if errors:
        raise errors.pop(0)


AnyArray: TypeAlias = Shaped[Array | np.ndarray, "..."]
Entry: TypeAlias = dict[str, Any]
"""Shape and dtype of an array: `{"shape": [2, 3], "dtype": "float32"}`; `"key<rbg>"` for typed keys."""

SLACK = 16 * 2**20
"""In bytes. Arrays are stored uncompressed, but orbax packs the smallest ones together."""


def describe(array: AnyArray | jax.ShapeDtypeStruct) -> Entry:
    """Return the shape and dtype of an array as JSON.

    **Raises:** `ValueError` if the dtype is neither numeric nor that of typed keys.
    """
    dtype = array.dtype
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return {"shape": list(array.shape), "dtype": f"key<{_implementation(dtype)}>"}
    if not _is_number(dtype):
        raise ValueError(f"must be an array of numbers, booleans or typed keys, got dtype {dtype}.")
    return {"shape": list(array.shape), "dtype": jnp.dtype(dtype).name}


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, np.number) or dtype == np.bool_


def _implementation(key_dtype: Any) -> str:
    """Return the name of a key implementation; `jax.random.key_impl` needs an array, so pass it a tracer."""
    found = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), jax.ShapeDtypeStruct((), key_dtype))
    return str(found[0])


def copy_to_host(arrays: Mapping[str, AnyArray]) -> dict[str, np.ndarray]:
    """Copy arrays, or the data of typed keys, to the host, so that the originals may be donated."""
    for array in arrays.values():
        if isinstance(array, jax.Array):
            array.copy_to_host_async()
    return {name: _copy(array) for name, array in arrays.items()}


def _copy(array: AnyArray) -> np.ndarray:
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(jnp.asarray(array))
    return np.array(array, order="C")


def write_checkpoint_arrays(folder: Path, copies: Mapping[str, np.ndarray]) -> None:
    """Write arrays into a new folder. Orbax cannot store empty arrays, which need only their entries."""
    stored = {name: copy for name, copy in copies.items() if copy.size}
    if not stored:
        return
    import orbax.checkpoint as ocp

    with (
        _silent_orbax(),
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_compression=False)) as checkpointer,
    ):
        checkpointer.save(folder.absolute(), args=ocp.args.PyTreeSave(stored))


@contextlib.contextmanager
def _silent_orbax() -> Iterator[None]:
    """Suppress the tracebacks that orbax logs from its threads before it raises the same errors."""
    logger = logging.getLogger("absl")
    logger.addFilter(_is_not_of_orbax)
    try:
        yield
    finally:
        logger.removeFilter(_is_not_of_orbax)


def _is_not_of_orbax(record: logging.LogRecord) -> bool:
    return "orbax" not in Path(record.pathname).parts


def check_entries(entries: Any, n_bytes: int, place: Path) -> None:
    """Check that entries are valid and declare no more data than the disk holds.

    **Raises:** `CorruptDataError` naming the array.
    """
    if not isinstance(entries, dict):
        raise CorruptDataError(f"{place} must describe its arrays; it is damaged.")
    declared = 0
    for name, entry in entries.items():
        shape, dtype = _as_stored(name, entry, place)
        declared += math.prod(shape) * dtype.itemsize
        if declared > n_bytes + SLACK:
            raise CorruptDataError(
                f"array {name!r} of {place} must fit into the {n_bytes} bytes that are there, "
                f"got {dtype} of shape {shape}."
            )


def _as_stored(name: str, entry: Any, place: Path) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and dtype as orbax stores them; for typed keys, those of the key data."""
    try:
        shape, dtype = tuple(entry["shape"]), str(entry["dtype"])
        if any(type(length) is not int or length < 0 for length in shape):
            raise ValueError(f"got shape {shape}")
        if dtype.startswith("key<"):
            implementation = dtype[len("key<") : -1]
            data = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=implementation)))
            shape, dtype = (*shape, *data.shape), data.dtype
        if not _is_number(jnp.dtype(dtype)):
            raise ValueError(f"got dtype {dtype}")
        array = np.broadcast_to(np.zeros((), jnp.dtype(dtype)), shape)  # takes no memory
        return array.shape, array.dtype
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDataError(f"array {name!r} of {place} must have a shape and a dtype: {error}.") from None


def check_expected(
    entries: Mapping[str, Entry], expected: Mapping[str, jax.ShapeDtypeStruct], *, subset: bool, place: str
) -> None:
    """Check that a checkpoint holds the expected arrays.

    **Arguments:**

    - `entries`: the arrays in the checkpoint.
    - `expected`: the arrays to read.
    - `subset`: whether the checkpoint may hold further arrays.
    - `place`: the checkpoint, for the error message.

    **Raises:** `MismatchError` naming the arrays, with the found and the expected dtype and shape.
    """
    missing, unexpected = sorted(set(expected) - set(entries)), sorted(set(entries) - set(expected))
    if missing or (unexpected and not subset):
        raise MismatchError(
            f"{place} must hold the arrays that are to be read: missing {missing}, unexpected {unexpected}."
        )
    for name, wanted in expected.items():
        found, entry = entries[name], describe(wanted)
        if found != entry:
            raise MismatchError(
                f"array {name!r} of {place} must be {entry['dtype']} of shape {tuple(entry['shape'])}, "
                f"got {found['dtype']} of shape {tuple(found['shape'])}."
            )


def read_checkpoint_arrays(
    folder: Path, entries: Mapping[str, Entry], wanted: Mapping[str, jax.ShapeDtypeStruct]
) -> dict[str, AnyArray]:
    """Read arrays that `write_checkpoint_arrays` wrote.

    **Arguments:**

    - `folder`: the folder of the arrays, whose files have been verified.
    - `entries`: all arrays in the folder; the metadata of orbax must agree with them before any is read.
    - `wanted`: the arrays to read, which agree with the entries.

    **Raises:** `CorruptDataError` if the folder does not hold them; `OSError` if no more files may be opened.
    """
    stored = {name: _as_stored(name, entry, folder) for name, entry in entries.items()}
    full = {name for name, (shape, _) in stored.items() if math.prod(shape)}
    data = {name: np.zeros(*stored[name]) for name in set(wanted) - full}
    if full:
        data |= _read_by_orbax(folder, {name: stored[name] for name in full}, sorted(full & set(wanted)))
    return {name: _as_wanted(data[name], entries[name]) for name in wanted}


def _as_wanted(data: np.ndarray, entry: Entry) -> AnyArray:
    if entry["dtype"].startswith("key<"):
        return jax.random.wrap_key_data(jnp.asarray(data), impl=entry["dtype"][len("key<") : -1])
    return data


def _read_by_orbax(
    folder: Path, stored: Mapping[str, tuple[tuple[int, ...], np.dtype]], names: list[str]
) -> dict[str, np.ndarray]:
    import orbax.checkpoint as ocp

    try:
        with _silent_orbax(), ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            _check_stored(checkpointer.metadata(folder.absolute()).item_metadata.tree, stored, folder)
            if not names:
                return {}
            data = checkpointer.restore(
                folder.absolute(),
                args=ocp.args.PyTreeRestore(
                    item=dict.fromkeys(names, 0),
                    restore_args={name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names},
                    partial_restore=True,
                ),
            )
    except (CorruptDataError, MemoryError):
        raise
    except Exception as error:
        if lacks_handles(error):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(folder)) from error
        raise CorruptDataError(
            f"{folder} must hold arrays that orbax can read; it is damaged: {error}"
        ) from error
    _check_stored(data, {name: stored[name] for name in names}, folder)
    return data


def _check_stored(found: Any, stored: Mapping[str, tuple[tuple[int, ...], np.dtype]], folder: Path) -> None:
    """Compare arrays, or their metadata in orbax, with the entries."""
    if not isinstance(found, dict) or set(found) != set(stored):
        raise CorruptDataError(f"{folder} must hold the arrays {sorted(stored)}; it is damaged.")
    for name, (shape, dtype) in stored.items():
        array = found[name]
        given = getattr(array, "shape", None), getattr(array, "dtype", None)
        chunk = getattr(getattr(array, "storage", None), "chunk_shape", None) or shape
        if given != (shape, dtype) or any(c > length for c, length in zip(chunk, shape, strict=True)):
            raise CorruptDataError(
                f"array {name!r} of {folder} must be {dtype} of shape {shape}, "
                f"got {given[1]} of shape {given[0]}, chunks of shape {chunk}."
            )
