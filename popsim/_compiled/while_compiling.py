"""Values that another thread makes while XLA compiles, which does not hold Python's lock."""

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Generic, TypeVar

import jax

__all__ = ["MadeWhileCompiling", "start_while_compiling"]

Value = TypeVar("Value")

# Flags of JAX that hold in one thread: another thread must set them itself.
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


class MadeWhileCompiling(Generic[Value]):
    """A value that another thread makes while XLA compiles, or whoever needs it before.

    The flags of JAX and what else is in force where this object is made are in force for `make`.
    """

    def __init__(self, make: Callable[[], Value]):
        flags = {name: getattr(jax.config, name) for name in FLAGS_OF_THREADS if hasattr(jax.config, name)}

        def make_under_flags() -> Value:
            with contextlib.ExitStack() as stack:
                for name, flag in flags.items():
                    stack.enter_context(getattr(jax, name.removeprefix("jax_"))(flag))
                return make()

        self._make = functools.partial(contextvars.copy_context().run, make_under_flags)
        self._begin = threading.Lock()  # held from when somebody makes the value
        self._future: Future[Value] = Future()

    def start(self) -> None:
        """Let another thread make the value, unless it is made already."""
        if not self._begin.acquire(blocking=False):
            return
        with _STACK_SIZE:
            before = threading.stack_size(STACK_BYTES)
            try:
                threading.Thread(target=self._fill, daemon=True).start()
            finally:
                threading.stack_size(before)

    def result(self) -> Value:
        """Return the value, made now if nobody began to; raises what `make` raised."""
        if self._begin.acquire(blocking=False):
            self._fill()
        return self._future.result()

    def _fill(self) -> None:
        try:
            self._future.set_result(self._make())
        except BaseException as error:
            self._future.set_exception(error)


_waiting: contextvars.ContextVar[tuple[MadeWhileCompiling, ...]] = contextvars.ContextVar(
    "_waiting", default=()
)


@contextlib.contextmanager
def start_while_compiling(*values: MadeWhileCompiling) -> Iterator[None]:
    """Start to make values when a program is compiled within the context, after it was traced."""
    token = _waiting.set(values)
    try:
        yield
    finally:
        _waiting.reset(token)


def start_waiting() -> None:
    """Start what is to be made while a program is compiled; called just before that."""
    for value in _waiting.get():
        value.start()
