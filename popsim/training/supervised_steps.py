"""Train and evaluation steps for supervised learning on arrays, with metrics.

Under `jax.jit`, a batch that is sharded over devices along its first axis is worked on by all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PyTree

from popsim.training.build_train_step import TrainStep
from popsim.training.train_state import TrainState

Batch = Mapping[str, Array]
Criterion = Callable[[Array, Array], Float[Array, ""]]
MetricsFn = Callable[[Array, Array, Criterion], dict[str, Array]]


class _CriterionLoss(eqx.Module):
    """The loss function of a train step: the criterion on the outputs of the model for a batch."""

    criterion: Criterion

    def __call__(self, model: Any, state: PyTree, rng: Array, *, batch: Batch) -> tuple[Array, PyTree, Array]:
        output = jax.vmap(model)(batch["image"])
        return self.criterion(output, batch["label"]), state, output


def train_step(
    state: TrainState,
    batch: Batch,
    learning_rate_fn: Callable[[Int[Array, ""]], Float[Array, ""] | float],
    criterion: Criterion,
    metrics_fn: MetricsFn,
) -> tuple[TrainState, dict[str, Any]]:
    """One step of supervised training.

    **Arguments:**

    - `state`: the train state; its model maps one input to one output.
    - `batch`: `{"image": inputs, "label": labels}`, arrays that lead with the examples.
    - `learning_rate_fn`: the learning rate by step number, for display alone: the rate that acts is the
        optimizer's.
    - `criterion`: `criterion(output, label) -> scalar`, the loss of a batch of outputs.
    - `metrics_fn`: `metrics_fn(output, label, criterion) -> dict` of diagnostics.

    **Returns:** the next state, and the metrics of the model before the step, with `"learning_rate"`.

    **Raises:** `ValueError` if `batch` lacks an entry, or its entries differ in the number of examples.
    """
    _check_batch(batch)
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
    """A train step, then functions on the parameters, one after the other: clip, normalise, project.

    **Arguments:**

    - `train_step_fn`: makes the step, such as `train_step`.
    - `post_lst`: functions from the parameters (a PyTree, None where the model is not trained) to the
        parameters.

    The rest as for `train_step`.

    **Raises:** `ValueError` as `train_step`.
    """
    state, metrics = train_step_fn(state, batch, learning_rate_fn, criterion, metrics_fn)
    params = state.params
    for post in post_lst:
        params = post(params)
    return eqx.tree_at(lambda s: s.params, state, params), metrics


def eval_step(
    state: TrainState, batch: Batch, criterion: Criterion, metrics_fn: MetricsFn
) -> dict[str, Array]:
    """The metrics of the current model on a batch, without an update; arguments as for `train_step`.

    **Raises:** `ValueError` as `train_step`.
    """
    _check_batch(batch)
    output = jax.vmap(state.model)(batch["image"])
    return metrics_fn(output, batch["label"], criterion)


def _check_batch(batch: Batch) -> None:
    if not {"image", "label"} <= set(batch):
        raise ValueError(f'`batch` must have the entries "image" and "label", got {sorted(batch)}.')
    sizes = {name: batch[name].shape[0] for name in ("image", "label")}
    if sizes["image"] != sizes["label"]:
        raise ValueError(f"`batch` must have a label for every image, got {sizes}.")
