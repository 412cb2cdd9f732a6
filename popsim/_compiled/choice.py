"""Whether the engine runs a program or JAX's own transformations alone, and the record of which did."""

import contextlib
import functools
import inspect
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["current_engine", "record_fallbacks", "plain_jax", "warn_outside", "ENGINE", "PLAIN_JAX"]

ENGINE, PLAIN_JAX, IN_PART = "popsim", "plain JAX", "popsim, in part plain JAX"

# What lies between the user and the place where a program is traced.
FRAMES_BETWEEN = ("popsim", "jax", "equinox", "diffrax", "optimistix", "jaxtyping", "contextlib", "functools")

_is_plain: ContextVar[bool] = ContextVar("is_plain", default=False)
_fallbacks: ContextVar[set[str] | None] = ContextVar("fallbacks", default=None)


@contextlib.contextmanager
def plain_jax() -> Iterator[None]:
    """Run everything inside by JAX's own transformations: `jax.vmap`, its random bits, its derivatives.

    Without it, popsim runs the trials of a batch by an engine of its own, which is faster. Both draw the same
    random numbers, and their results are equal to rounding. Use it to compare the two, if results look
    wrong, or if a new release of JAX breaks the engine.

    ```python
    with popsim.engine.plain_jax():
        ensemble, history = trainer(task, ensemble, 100, 64, where_train, ensembled=True, key=key)
    ```

    It holds in this thread, for what popsim compiles. A function that you compile yourself by `jax.jit` keeps
    what it was first traced with. `run.json` of a run says which of the two made it; `resume_run` continues
    a run that was begun with it in the same way.
    """
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


def is_plain_jax() -> bool:
    """Return whether `plain_jax` is in force; a part of the key of every compiled program."""
    return _is_plain.get()


@contextlib.contextmanager
def record_fallbacks() -> Iterator[None]:
    """Record where plain JAX takes over in what is traced inside, for `current_engine`."""
    token = _fallbacks.set(set())
    try:
        yield
    finally:
        _fallbacks.reset(token)


def current_engine() -> str:
    """Return what runs the trials here: `ENGINE`, `PLAIN_JAX` or, for some of the functions, `IN_PART`.

    Fallbacks are those of functions traced since `record_fallbacks`.
    """
    fallbacks = _fallbacks.get() or ()
    if is_plain_jax() or PLAIN_JAX in fallbacks:
        return PLAIN_JAX
    return IN_PART if fallbacks else ENGINE


def fall_back(reason: str, *, in_part: bool) -> None:
    """Note that plain JAX is used in place of the engine, and warn once for each reason."""
    fallbacks = _fallbacks.get()
    if fallbacks is not None:
        fallbacks.add(IN_PART if in_part else PLAIN_JAX)
    _warn_once(
        f"popsim's engine does not know {reason}: "
        f"{'the function that has it runs' if in_part else 'all runs'} by jax.vmap, as within "
        "popsim.engine.plain_jax(). The results are equal to rounding; it may take longer."
    )


@functools.cache
def _warn_once(message: str) -> None:
    warn_outside(message, FRAMES_BETWEEN)


def warn_outside(message: str, packages: tuple[str, ...]) -> None:
    """Warn, at the line outside of some packages from which they were called."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
