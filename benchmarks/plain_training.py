"""Trainings of networks without a body with popsim and with plain JAX, in turns: what benchmarks share."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

import popsim
from popsim import training
from popsim.networks import AbstractNetwork

KEY = jax.random.key(0)
N_TRIALS = 64  # of a batch
SHORT, LONG = 2, 22  # batches; the difference is timed

Training = tuple[Callable[[Any, Array], Any], tuple[Any, Array]]


def time_popsim(task: popsim.AbstractTask, ensemble: popsim.NetworkModel, n_batches: int) -> float:
    """CPU seconds of a training after it has been compiled."""
    began = {}
    training.TaskTrainer(training.adam(1e-3))(
        task,
        ensemble,
        n_batches,
        N_TRIALS,
        lambda model: model.network,
        ensembled=True,
        log_step=10**6,
        disable_tqdm=True,
        on_begin=lambda _: began.update(at=time.process_time()),
        key=KEY,
    )
    return time.process_time() - began["at"]


def plain_training(
    ensemble: popsim.NetworkModel,
    n_batches: int,
    draw: Callable[[Array], Array],
    loss_of_trial: Callable[[AbstractNetwork, Array], Array],
) -> Training:
    """A training with plain JAX: a function, and its arguments for this number of batches.

    **Arguments:**

    - `draw`: from the key of a batch to what its trials are made of, with axes (member, trial).
    - `loss_of_trial`: from a network and what a trial is made of to its loss.
    """
    learned, rest = eqx.partition(ensemble.network, popsim.is_parameter(ensemble.network))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))

    def mean_loss(learned: Any, rest: Any, drawn: Array) -> Array:
        network = eqx.combine(learned, rest)
        return jnp.mean(jax.vmap(lambda of_trial: loss_of_trial(network, of_trial))(drawn))

    def batch(carry: Any, key: Array) -> tuple[Any, None]:
        learned, slots = carry
        gradients = eqx.filter_vmap(eqx.filter_grad(mean_loss))(learned, rest, draw(key))
        updates, slots = eqx.filter_vmap(optimizer.update)(gradients, slots, learned)
        return (eqx.apply_updates(learned, updates), slots), None

    def train(carry: Any, keys: Array) -> Any:
        return jax.lax.scan(batch, carry, keys)[0][0]

    slots = eqx.filter_vmap(optimizer.init)(learned)
    return train, ((learned, slots), jax.random.split(KEY, n_batches))


def time_in_turns(
    of_popsim: Callable[[int], float], plain: Callable[[int], Training], n_turns: int
) -> list[tuple[float, float]]:
    """CPU seconds of a batch with popsim and with plain JAX, of each turn.

    **Arguments:**

    - `of_popsim`: from a number of batches to the seconds of a training.
    - `plain`: from a number of batches to the training with plain JAX.
    - `n_turns`: how often both take turns, after a turn that is not counted.
    """
    loop = eqx.filter_jit(plain(SHORT)[0])

    def time_plain(n_batches: int) -> float:
        _, arguments = plain(n_batches)
        began = time.process_time()
        jax.block_until_ready(eqx.filter(loop(*arguments), eqx.is_array))
        return time.process_time() - began

    for n_batches in (SHORT, LONG):  # compiled for each number of batches
        time_plain(n_batches)
    pairs = []
    for turn in range(n_turns + 1):
        ours, theirs = of_popsim(LONG) - of_popsim(SHORT), time_plain(LONG) - time_plain(SHORT)
        if turn:
            pairs.append((ours / (LONG - SHORT), theirs / (LONG - SHORT)))
    return pairs
