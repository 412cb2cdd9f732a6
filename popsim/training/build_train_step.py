"""One step of training, for any loss function."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from popsim.checks import is_traced
from popsim.training.optimizer_step import optimizer_step
from popsim.training.shardings import ShardedStep, StepShardings
from popsim.training.train_state import TrainState


class TrainStep(eqx.Module):
    """The pure train step of a loss function, `(TrainState, **inputs) -> (TrainState, outputs)`.

    Two with equal loss functions are equal, so that a program that contains one is compiled once.
    """

    loss_fn: Callable[..., tuple[Float[Array, ""], PyTree, PyTree]]

    def __call__(self, train_state: TrainState, **inputs: PyTree) -> tuple[TrainState, PyTree]:
        """The next state, and the `outputs` of the loss function."""
        rng = jax.random.fold_in(train_state.root_rng, train_state.step)

        def loss_of(params):
            model = eqx.combine(params, train_state.model_without_params)
            state = train_state.loss_fn_state
            loss, new_loss_fn_state, outputs = self.loss_fn(model=model, state=state, rng=rng, **inputs)
            return loss, (new_loss_fn_state, outputs)

        value_and_gradients = jax.value_and_grad(loss_of, has_aux=True)
        (loss, (loss_fn_state, outputs)), gradients = value_and_gradients(train_state.params)
        stepped = optimizer_step(train_state, gradients, loss, lambda params: loss_of(params)[0])
        next_state = dataclasses.replace(stepped, step=train_state.step + 1, loss_fn_state=loss_fn_state)
        return next_state, outputs


def build_train_step_fn(
    loss_fn: Callable[..., tuple[Float[Array, ""], PyTree, PyTree]],
    jit: bool = True,
    donate_params_and_state: bool = False,
    train_state_shardings: PyTree = None,
    input_kwarg_shardings: PyTree = None,
    aux_output_shardings: PyTree = None,
) -> Callable[..., tuple[TrainState, Any]]:
    """Build a train step for a loss function. It needs no task and no trainer.

    **Arguments:**

    - `loss_fn`: `loss_fn(model, state, rng, **kwargs) -> (loss, new_state, outputs)`: a scalar to be
        lowered, what the loss function carries to the next step, and what the train step returns beside
        the new train state. It is called by keyword: the order of its parameters is free.
    - `jit`: whether to compile the step.
    - `donate_params_and_state`: whether the step may reuse the memory of the parameters and the states of
        optimizer and loss function that it is given: they cannot be used afterwards. What is not
        learnable is not donated.
    - `train_state_shardings`: a `TrainState` of JAX shardings, such as
        `jax.tree.map(lambda leaf: sharding, equinox.filter(state, equinox.is_array))`, or a prefix of it: a
        sharding stands for all arrays below it, None leaves them to JAX. The step returns a state that
        lies so, and first moves there what does not yet: on the first call the state may be on one device.
        Those of `step` and `root_rng` are ignored.
    - `input_kwarg_shardings`: a dict from input keyword to a sharding, or PyTree or prefix of these.
    - `aux_output_shardings`: of `outputs`, likewise.

    Shardings are ignored unless `jit`. To split weights, make the mesh with
    `axis_types=(jax.sharding.AxisType.Auto, ...)`: the compiler then finds how to split each operation. On
    a mesh with explicit axes, the default of `jax.make_mesh`, JAX asks the loss function to say so.

    **Returns:** a function `(train_state, **kwargs) -> (TrainState, outputs)`. The key of a step is
    `fold_in(train_state.root_rng, train_state.step)`.

    **Raises:** `ValueError` if donation is asked for without `jit`, or what is given as sharding is none;
    when the step is called, if shardings do not have the structure of what they are for.
    """
    step = TrainStep(loss_fn)
    if not jit:
        if donate_params_and_state:
            raise ValueError("`donate_params_and_state` needs `jit=True`, got `jit=False`.")
        return step
    shardings = StepShardings(train_state_shardings, input_kwarg_shardings, aux_output_shardings)
    if not jax.tree.leaves(shardings):
        return _donating(step) if donate_params_and_state else eqx.filter_jit(step)
    sharded = ShardedStep(step, shardings)
    compiled = _donating(sharded) if donate_params_and_state else eqx.filter_jit(sharded)

    def train_step(train_state: TrainState, **inputs: PyTree) -> tuple[TrainState, Any]:
        result = compiled(shardings.place_state(train_state), **shardings.place_inputs(inputs))
        if donate_params_and_state:
            _delete((train_state.params, train_state.opt_state, train_state.loss_fn_state))
        return result

    return train_step


def _donating(step: Callable[..., tuple[TrainState, Any]]) -> Callable[..., tuple[TrainState, Any]]:
    """The compiled step, which takes the memory of all that it changes."""

    @eqx.filter_jit(donate="all-except-first")
    def donating(kept, params, opt_state, loss_fn_state):
        rest, inputs = kept
        state = dataclasses.replace(rest, params=params, opt_state=opt_state, loss_fn_state=loss_fn_state)
        return step(state, **inputs)

    def train_step(train_state: TrainState, **inputs: PyTree) -> tuple[TrainState, Any]:
        rest = dataclasses.replace(train_state, params=None, opt_state=None, loss_fn_state=None)
        donated = (train_state.params, train_state.opt_state, train_state.loss_fn_state)
        return donating((rest, inputs), *donated)

    return train_step


def _delete(donated: PyTree) -> None:
    """Free what was moved to other devices before it was donated: the step took the copy."""
    for leaf in jax.tree.leaves(donated):
        if isinstance(leaf, jax.Array) and not is_traced(leaf) and not leaf.is_deleted():
            leaf.delete()
