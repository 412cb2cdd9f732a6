"""Supervised training of models on arrays, without a task trainer.

Under `jax.jit`, a batch sharded over devices along its first axis is processed by all of them.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from popsim._compiled import jit
from popsim._shared.checks import check_non_negative_int, check_positive_int
from popsim.network_input import network_input
from popsim.per_member import check_of_one_member
from popsim.randomness import as_key
from popsim.task import AbstractTask
from popsim.training.steps.member_step import trials_of_batch
from popsim.training.steps.train_state import TrainState
from popsim.training.train_steps import TrainStep
from popsim.trial import OutputTarget, Trial

__all__ = ["supervised_batches", "train_step", "train_step_post", "eval_step"]

TimeMajorBatch = tuple[
    Float[np.ndarray, "time batch features"],
    Float[np.ndarray, "time batch outputs"],
    Float[np.ndarray, "time batch"] | Float[np.ndarray, "time batch outputs"],
]


def supervised_batches(
    task: AbstractTask, batch_size: int, *, start_batch: int = 0, key: PRNGKeyArray
) -> Iterator[TimeMajorBatch]:
    """Return an endless iterator of `(inputs, targets, mask)`, time first as in PyTorch's recurrent layers.

    - `inputs`: (time, batch, features), the inputs by name in alphabetical order, as a `NetworkModel`
      receives them;
    - `targets`: (time, batch, outputs), the values of an `OutputTarget`; for a reach position (m), then
      velocity (m/s) of the hand; else all targets in the order of their names;
    - `mask`: (time, batch) or (time, batch, output), the counts of an `OutputTarget`, else ones.

    All are writable numpy arrays of the default floating-point type. The trials are those that `TaskTrainer`
    draws for one model with this `key` and `batch_size`. With PyTorch:

    ```python
    for inputs, targets, mask in itertools.islice(supervised_batches(task, 64, key=jax.random.key(0)), 1000):
        outputs, _ = network(torch.from_numpy(inputs))
        error = (outputs - torch.from_numpy(targets)).square().mean(-1)
        loss = (torch.from_numpy(mask) * error).sum() / mask.sum()
    ```

    **Arguments:**

    - `task`: the task of one member.
    - `batch_size`: the number of trials.
    - `start_batch`: the number of the first batch, for tasks that change during training.
    - `key`: the key for drawing trials.
    """
    check_of_one_member("task", task)
    check_positive_int("batch_size", batch_size)
    check_non_negative_int("start_batch", start_batch)
    options: dict[str, Any] = {"member_ids": jnp.asarray(0), "shared_trials": False, "key": as_key(key)}

    def draw(batch: int) -> TimeMajorBatch:
        inputs, targets, mask = _as_arrays(trials_of_batch(task, batch_size, jnp.asarray(batch), **options))
        return np.array(inputs), np.array(targets), np.array(mask)

    return map(draw, itertools.count(start_batch))


@jit
def _as_arrays(trials: Trial) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    if trials.environment is not None or trials.session is not None:
        raise ValueError(
            "`task` must have trials whose inputs are known in advance, got trials with "
            f"{'an environment' if trials.session is None else 'a session'}: see popsim.gymnasium."
        )

    def of_trial(trial):
        received = jax.vmap(lambda inputs: network_input(inputs, {}, {}))(trial.inputs)
        if isinstance(trial.targets, OutputTarget):
            return received, trial.targets.values, trial.targets.counts
        n_steps = trial.timeline.n_steps
        leaves = [jnp.zeros((n_steps, 0)), *jax.tree.leaves(trial.targets)]
        targets = jnp.concatenate([leaf.reshape(n_steps, -1) for leaf in leaves], axis=1)
        return received, targets, jnp.ones(n_steps, received.dtype)

    return jax.vmap(of_trial, out_axes=1)(trials)


Batch = Mapping[str, Array]
Criterion = Callable[[Array, Array], Float[Array, ""]]
MetricsFn = Callable[[Array, Array, Criterion], dict[str, Array]]


class _CriterionLoss(eqx.Module):
    criterion: Criterion

    def __call__(self, model: Any, state: PyTree, rng: Array, *, batch: Batch) -> tuple[Array, PyTree, Array]:
        output = _outputs(model, batch)
        return self.criterion(output, batch["label"]), state, output


def _outputs(model: Any, batch: Batch) -> Array:
    sizes = {name: batch[name].shape[0] for name in ("image", "label")}
    if sizes["image"] != sizes["label"]:  # a single label would broadcast
        raise ValueError(f"`batch` must have a label for each image, got {sizes}.")
    return jax.vmap(model)(batch["image"])


def train_step(
    state: TrainState,
    batch: Batch,
    learning_rate_fn: Callable[[Int[Array, ""]], Float[Array, ""] | float],
    criterion: Criterion,
    metrics_fn: MetricsFn,
) -> tuple[TrainState, dict[str, Any]]:
    """Make one step of supervised training.

    **Arguments:**

    - `state`: the train state; its model maps one input to one output.
    - `batch`: `{"image": inputs, "label": labels}`, arrays whose first axis is the example.
    - `learning_rate_fn`: the learning rate by step number, for display only: the optimizer applies its own.
    - `criterion`: `criterion(output, label) -> scalar`, the loss of a batch of outputs.
    - `metrics_fn`: `metrics_fn(output, label, criterion) -> dict`, the diagnostics.

    **Returns:** the next state, and the metrics of the model before the step, with `"learning_rate"`.
    """
    next_state, output = TrainStep(_CriterionLoss(criterion))(state, batch=batch)
    metrics = metrics_fn(output, batch["label"], criterion)
    return next_state, metrics | {"learning_rate": learning_rate_fn(state.step)}


def train_step_post(
    state: TrainState,
    batch: Batch,
    learning_rate_fn: Callable[[Int[Array, ""]], Float[Array, ""] | float],
    criterion: Criterion,
    train_step_fn: Callable[..., tuple[TrainState, dict[str, Any]]],
    metrics_fn: MetricsFn,
    post_lst: Sequence[Callable[[PyTree], PyTree]],
) -> tuple[TrainState, dict[str, Any]]:
    """Make a `train_step`, here `train_step_fn`, then apply functions of the parameters in order.

    Each of `post_lst`, such as a clip, takes parameters, a PyTree with None where the model is not trained,
    and returns such.
    """
    state, metrics = train_step_fn(state, batch, learning_rate_fn, criterion, metrics_fn)
    params = state.params
    for post in post_lst:
        params = post(params)
    return eqx.tree_at(lambda s: s.params, state, params), metrics


def eval_step(
    state: TrainState, batch: Batch, criterion: Criterion, metrics_fn: MetricsFn
) -> dict[str, Array]:
    """Return the metrics of the model on a batch, without an update; arguments as for `train_step`."""
    return metrics_fn(_outputs(state.model, batch), batch["label"], criterion)
