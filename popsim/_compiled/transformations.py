"""Maps over trials, and elementwise functions, run by the engine or by plain JAX.

The engine is imported when it is first used: a release of JAX that lacks something it needs is then one that
it does not know, and everything runs by plain JAX.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from popsim._compiled._operations import UnknownOperation
from popsim._compiled.choice import fall_back, is_plain_jax
from popsim._compiled.traces import is_tracing

__all__ = ["elementwise", "map_trials"]

TESTED_JAX = ("0.10.", "0.12.")


def map_trials(function: Callable[..., PyTree[Array]], *stacked: PyTree[Array]) -> PyTree[Array]:
    """Return `jax.vmap(function)(*stacked)`, equal to rounding.

    Derivatives of both modes, and `jax.vmap` over members, go through it. An operation that the engine does
    not know makes it `jax.vmap`, with a warning.
    """
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(stacked)}
    if len(sizes) != 1:
        raise ValueError(f"`stacked` must hold as many trials in each array, got {sorted(sizes)}.")
    if not _has_engine():
        return jax.vmap(function)(*stacked)
    from popsim._compiled import _trials_last

    try:
        return _trials_last.map_trials(function, *stacked)
    except UnknownOperation as unknown:
        results = jax.vmap(function)(*stacked)
        fall_back(f"{unknown} of JAX {jax.__version__}", in_part=True)
        return results


def elementwise(function: Callable[..., PyTree[Array]]) -> Callable[..., PyTree[Array]]:
    """Return `function` with a derivative that is cheap in the backward pass.

    At each index the result depends on a few numbers only, so its derivative is a factor for each of them.
    The factors are computed in the forward pass, for the arguments that are differentiated; the backward pass
    only multiplies. Without them XLA repeats, on a CPU, the long chain of its products for each of its users.
    Derivatives of any order and mode are those of `function`, as are results under `jax.vmap`.

    Where a function turns out not to be elementwise, because it sums over muscles or has a loop, it is
    differentiated as usual.
    """

    @functools.wraps(function)
    def elementwise_function(*args: Any) -> PyTree[Array]:
        if not is_tracing() or not _has_engine():
            return function(*args)
        from popsim._compiled import _elementwise

        return _elementwise.apply(function, args)

    return elementwise_function


def _has_engine() -> bool:
    if is_plain_jax():
        return False
    problem = _problem_with_jax()
    if problem:
        fall_back(f"JAX {jax.__version__} ({problem})", in_part=False)
    return not problem


@functools.cache
def _problem_with_jax() -> str:
    """Return why the engine cannot work with this JAX; empty if it can.

    With a JAX that the tests have not seen, the engine first traces a small training step that has what all
    have: a loop with noise, a product and an elementwise function. Nothing is compiled.
    """
    try:
        from popsim._compiled import _elementwise, _trials_last

        if jax.__version__.startswith(TESTED_JAX):
            return ""

        def loss(weights: Array, rows: Array, keys: Array) -> Array:
            def run_trial(rows: Array, key: Array) -> Array:
                def step(state: Array, row: Array) -> tuple[Array, Array]:
                    summed = weights @ state + row + jax.random.normal(key, row.shape, row.dtype)
                    state = _elementwise.apply(lambda x: jnp.tanh(x) * x, (summed,))
                    return state, state

                return jax.lax.scan(step, rows[0], rows)[1]

            return jnp.sum(_trials_last.map_trials(run_trial, rows, keys))

        shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((9, 9), (2, 3, 9))]
        keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0, impl="threefry2x32"), 2))
        jax.make_jaxpr(jax.grad(loss))(*shapes, keys)
    except Exception as error:  # whatever a release of JAX may raise that has other names or parameters
        cause = error.__cause__ or error
        return f"{type(cause).__name__}: {cause}".partition("\n")[0]
    return ""
