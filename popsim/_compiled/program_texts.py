"""The text of a program, which tells what it computes, the same in every process."""

import contextlib
import contextvars
import functools
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np

__all__ = ["MadeWhileCompiling", "ProgramText", "program_text", "signed_sums", "start_while_compiling"]

Value = TypeVar("Value")

PLATFORM = "cpu"  # whatever the program is to run on
N_SIGNS = 3
# Of JAX, they are in force in a thread, so that another one must enter them anew.
FLAGS_OF_THREADS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_softmax_custom_jvp",
    "jax_threefry_partitionable",
)
STACK_BYTES = 2**26  # of a thread that traces; some systems give it a sixteenth of what the main thread has


_STACK_SIZE = threading.Lock()  # which all threads of a process share


class ProgramText(NamedTuple):
    """What a program computes.

    - `digest`: the SHA-256 of its operations, without names and without `numbers`; empty if no text can be
        made on this machine.
    - `numbers`: for each floating-point constant its numbers or, of a large one, the norm and sums with fixed
        random signs. Those that were computed may differ between machines in the last digits.
    - `calls_python`: whether it calls back into Python functions, of which a text knows nothing.
    """

    digest: str
    numbers: list[list[float]]
    calls_python: bool


def program_text(function: Callable[..., Any], *arguments: Any) -> ProgramText:
    """Return the text of a function as XLA gets it, lowered for one platform on every machine.

    It depends on all that the function reads but the numbers in its array arguments: closures, globals,
    attributes of classes, packages. Names of variables and comments have no part in it.

    **Arguments:**

    - `function`: the function.
    - `arguments`: what it is traced with; `jax.ShapeDtypeStruct` may stand for arrays.
    """
    arrays, static = eqx.partition(arguments, _is_array)
    shapes = jax.tree.map(_shape, arrays)

    def leaves_of_result(arrays: Any) -> list[Any]:
        result = function(*eqx.combine(arrays, static))
        return jax.tree.leaves(eqx.filter(result, eqx.is_array))

    traced = jax.jit(leaves_of_result, keep_unused=True).trace(shapes)
    try:
        lowered = traced.lower(lowering_platforms=(PLATFORM,))
    except Exception:  # a kernel for GPUs alone, of Pallas or a library
        with contextlib.suppress(Exception):
            return _read_text(traced.lower().as_text())
        return ProgramText("", [], calls_python=False)
    return _read_text(lowered.as_text())


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=bool(getattr(leaf, "weak_type", False)))


def _read_text(text: str) -> ProgramText:
    """Return the digest and the numbers of a program."""
    names: dict[str, str] = {}
    for name in re.findall(r"func\.func \w+ (@[\w.$]+|@\"[^\"]*\")", text):
        names.setdefault(name, f"@{len(names)}")  # of JAX's or a user's functions, which may be renamed
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    text = re.sub(rf"(?:{pattern})(?![\w.$])", lambda match: names[match[0]], text)
    numbers: list[list[float]] = []

    def take(match: re.Match[str]) -> str:
        constant = _numbers_of(match[1], match[3])
        if constant is None:
            return match[0]
        numbers.append(constant)
        return f"dense<numbers> : tensor<{match[2]}f{match[3]}>"

    without_numbers = re.sub(r"dense<([^>]*)> : tensor<((?:\d+x)*)f(32|64)>", take, text)
    return ProgramText(hashlib.sha256(without_numbers.encode()).hexdigest(), numbers, "callback" in text)


def _numbers_of(content: str, bits: str) -> list[float] | None:
    """Return the numbers of a constant, or sums of many; None for what is written in another way, as NaN."""
    if content.startswith('"0x'):
        values = np.frombuffer(bytes.fromhex(content[3:-1]), f"<f{int(bits) // 8}")
        return signed_sums(values.astype(np.float64)) if np.isfinite(values).all() else None
    try:
        return [float(number) for number in re.sub(r"[\[\]\s]", "", content).split(",")]
    except ValueError:
        return None


def signed_sums(numbers: np.ndarray) -> list[float]:
    """Return the norm of numbers, and three sums with fixed random signs, by which arrays are compared."""
    signs = np.random.RandomState(0).randint(0, 2, (N_SIGNS, numbers.size), np.int8) * np.int8(2) - 1
    with np.errstate(all="ignore"):
        return [float(np.linalg.norm(numbers)), *(float(np.real(np.sum(row * numbers))) for row in signs)]


class MadeWhileCompiling(Generic[Value]):
    """A value that another thread makes while XLA compiles, or whoever needs it before.

    The flags of JAX and what else is in force where this object is made are in force for `make`.

    **Arguments:**

    - `make`: returns the value; called once.
    """

    def __init__(self, make: Callable[[], Value]):
        flags = {name: getattr(jax.config, name) for name in FLAGS_OF_THREADS if hasattr(jax.config, name)}

        def make_under_flags() -> Value:
            with contextlib.ExitStack() as stack:
                for name, flag in flags.items():
                    stack.enter_context(getattr(jax, name.removeprefix("jax_"))(flag))
                return make()

        self._make = functools.partial(contextvars.copy_context().run, make_under_flags)
        self._lock = threading.Lock()
        self._future: Future[Value] | None = None

    def start(self) -> None:
        """Let another thread make the value, unless it is made already."""
        with self._lock:
            if self._future is not None:
                return
            self._future = future = Future()
        with _STACK_SIZE:
            before = threading.stack_size(STACK_BYTES)
            try:
                threading.Thread(target=self._fill, args=(future,), daemon=True).start()
            finally:
                threading.stack_size(before)

    def result(self) -> Value:
        """Return the value, made now if nobody began to; raises what `make` raised."""
        with self._lock:
            is_begun = self._future is not None
            self._future = future = self._future or Future()
        if not is_begun:
            self._fill(future)
        return future.result()

    def _fill(self, future: Future[Value]) -> None:
        try:
            future.set_result(self._make())
        except BaseException as error:
            future.set_exception(error)


_waiting: contextvars.ContextVar[tuple[MadeWhileCompiling, ...]] = contextvars.ContextVar(
    "_waiting", default=()
)


@contextlib.contextmanager
def start_while_compiling(*values: MadeWhileCompiling) -> Iterator[None]:
    """Start to make values when a program is compiled within the context, after it was traced.

    Both tracing and lowering hold Python's lock; XLA does not while it compiles.
    """
    before = _waiting.set(values)
    try:
        yield
    finally:
        _waiting.reset(before)


def start_waiting() -> None:
    """Start what is to be made while a program is compiled; called just before that."""
    for value in _waiting.get():
        value.start()
