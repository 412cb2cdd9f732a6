"""One step of training, for any loss function."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float, PyTree

from popsim.training.train_state import TrainState


class TrainStep(eqx.Module):
    """The pure train step of a loss function, `(TrainState, **inputs) -> (TrainState, outputs)`.

    Two with equal loss functions are equal, so that a program that contains one is compiled once.
    """

    loss_fn: Callable[..., tuple[Float[Array, ""], PyTree, PyTree]]

    def __call__(self, state: TrainState, **inputs: PyTree) -> tuple[TrainState, PyTree]:
        """The next state, and the `outputs` of the loss function."""
        rng = jax.random.fold_in(state.root_rng, state.step)

        def loss_of(params):
            model = eqx.combine(params, state.model_without_params)
            loss, new_loss_fn_state, outputs = self.loss_fn(model, state.loss_fn_state, rng, **inputs)
            return loss, (new_loss_fn_state, outputs)

        value_and_gradients = jax.value_and_grad(loss_of, has_aux=True)
        (loss, (loss_fn_state, outputs)), gradients = value_and_gradients(state.params)
        optimizer = optax.with_extra_args_support(state.optimizer_def)
        with jax.numpy_dtype_promotion("standard"):  # optax needs it, also where the user has set "strict"
            updates, opt_state = optimizer.update(gradients, state.opt_state, state.params, value=loss)
        next_state = dataclasses.replace(
            state,
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
            loss_fn_state=loss_fn_state,
        )
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
        the new train state.
    - `jit`: whether to compile the step.
    - `donate_params_and_state`: whether the step may reuse the memory of the parameters and the states of
        optimizer and loss function that it is given: they cannot be used afterwards. What is not
        learnable is not donated.
    - `train_state_shardings`, `input_kwarg_shardings`, `aux_output_shardings`: not yet.

    **Returns:** a function `(TrainState, **kwargs) -> (TrainState, outputs)`. The key of a step is
    `fold_in(state.root_rng, state.step)`.

    **Raises:** `NotImplementedError` if shardings are given; `ValueError` if donation is asked for
    without `jit`.
    """
    shardings = {
        "train_state_shardings": train_state_shardings,
        "input_kwarg_shardings": input_kwarg_shardings,
        "aux_output_shardings": aux_output_shardings,
    }
    for name, sharding in shardings.items():
        if sharding is not None:
            raise NotImplementedError(f"`{name}` is not supported yet.")
    step = TrainStep(loss_fn)
    if not jit:
        if donate_params_and_state:
            raise ValueError("`donate_params_and_state` needs `jit=True`, got `jit=False`.")
        return step
    if not donate_params_and_state:
        return eqx.filter_jit(step)

    @eqx.filter_jit(donate="all-except-first")
    def donating(kept, params, opt_state, loss_fn_state):
        rest, inputs = kept
        state = dataclasses.replace(rest, params=params, opt_state=opt_state, loss_fn_state=loss_fn_state)
        return step(state, **inputs)

    def train_step(state: TrainState, **inputs: PyTree) -> tuple[TrainState, Any]:
        rest = dataclasses.replace(state, params=None, opt_state=None, loss_fn_state=None)
        return donating((rest, inputs), state.params, state.opt_state, state.loss_fn_state)

    return train_step
