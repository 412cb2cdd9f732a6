"""The state of a training, and the step of the optimizer."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._shared.checks import warn_caller
from popsim.ensemble import n_members
from popsim.model import with_trained_inputs
from popsim.parameters import picked_parameters, unselected_by_argument
from popsim.per_member import without_member_axes
from popsim.randomness import as_key
from popsim.store import leaf_names
from popsim.training.steps.optimizers import init_optimizer, init_optimizer_of_members

__all__ = ["select_trainables", "TrainState"]


WhereTrain = Callable[[Any], Any] | Mapping[int, Callable[[Any], Any]]
"""What selects the trained part of a model, for all batches or by the first batch of each phase."""


def select_trainables(
    model: PyTree, where_train: Callable[[Any], Any] | None = None
) -> tuple[PyTree, PyTree]:
    """Partition a model into the trainable arrays and the rest.

    **Arguments:**

    - `model`: a model, or an ensemble.
    - `where_train`: selects the trainable parts of the model, such as `lambda m: m.network`; None for all. Of
        each part the parameters are trained (`popsim.is_parameter`); an array selected directly is always
        trained: `lambda m: m.network` excludes time constants and noise, `lambda m: (m.network,
        m.network.tau)` includes the time constant.

    **Returns:** the trainable arrays and the rest, both of the structure of `model`, with None for the leaves
    of the other; `equinox.combine` joins them.
    """
    return eqx.partition(model, picked_parameters(model, where_train, argument="`where_train`"))


SHARED = ("step", "root_rng")  # by all members of an ensemble
OWN = (
    "params",
    "model_without_params",
    "opt_state",
    "loss_fn_state",
    "hyperparameters",
    "population_update_states",
    "final",
)  # per member


class TrainState(eqx.Module):
    """The state of training before one step. Immutable: a train step returns the next one.

    - `step`: the number of steps done.
    - `root_rng`: the key of the training; the key of a step is `fold_in(root_rng, step)`.
    - `params`: the trainable arrays, in the structure of the model, None elsewhere.
    - `model_without_params`: the rest of the model.
    - `opt_state`: the state of the optimizer.
    - `loss_fn_state`: the state of the loss function.
    - `optimizer_def`: the optimizer.
    - `hyperparameters`: where a population update changes them, the values of each `PerMember` in the task,
        the gradient, the model updates and the post-step functions, see `popsim.per_member.member_values`;
        else None.
    - `population_update_states`: by name, what each population update keeps, with axes (member, ...); None
        without such updates.
    - `final`: the leaves of the model with which members end, where a population update sets them; else None.
    """

    step: Int[Array, ""]
    root_rng: Key[Array, ""]
    params: PyTree
    model_without_params: PyTree
    opt_state: PyTree
    loss_fn_state: PyTree
    optimizer_def: optax.GradientTransformation = eqx.field(static=True)
    hyperparameters: PyTree = None
    population_update_states: PyTree = None
    final: PyTree = None

    @property
    def is_param(self) -> PyTree[bool]:
        """For each leaf of the model, whether it is trained."""
        return jax.tree.map(lambda leaf: leaf is not None, self.params, is_leaf=lambda leaf: leaf is None)

    @property
    def model(self) -> Any:
        """The whole model."""
        return eqx.combine(self.params, self.model_without_params)

    @property
    def final_model(self) -> Any:
        """The whole model with which members end, if the training ended now."""
        return eqx.combine(self.final, self.model)

    def with_model(self, model: Any) -> "TrainState":
        """Return the state with another model, partitioned as before."""
        params, constants = eqx.partition(model, self.is_param)
        return dataclasses.replace(self, params=params, model_without_params=constants)

    def with_trained_inputs(self, sizes: Mapping[str, int]) -> "TrainState":
        """Return the state of a model that is trained with inputs of these sizes, by name."""
        parts = (with_trained_inputs(part, sizes) for part in (self.params, self.model_without_params))
        params, constants = parts
        return dataclasses.replace(self, params=params, model_without_params=constants)

    @classmethod
    def initial_state(
        cls,
        model: PyTree,
        optimizer_def: optax.GradientTransformation,
        root_rng: PRNGKeyArray,
        loss_fn_state: PyTree = None,
        *,
        where_train: Callable[[Any], Any] | None = None,
    ) -> "TrainState":
        """Return the state before the first step.

        **Arguments:**

        - `model`: the model.
        - `optimizer_def`: an optax optimizer.
        - `root_rng`: the key of the training.
        - `loss_fn_state`: the initial state of the loss function.
        - `where_train`: selects the trainable part, see `select_trainables`; None for all parameters.
        """
        params, constants = _split_trainables(model, where_train)
        key, opt_state = as_key(root_rng, "root_rng"), init_optimizer(optimizer_def, params)
        return cls(jnp.asarray(0), key, params, constants, opt_state, loss_fn_state, optimizer_def)

    @classmethod
    def initial_ensemble(
        cls,
        ensemble: PyTree,
        optimizer_def: optax.GradientTransformation,
        root_rng: PRNGKeyArray,
        *,
        where_train: Callable[[Any], Any] | None = None,
    ) -> "TrainState":
        """Return `initial_state` of an ensemble, with an optimizer state per member.

        All members share `step` and `root_rng`.
        """
        params, constants = _split_trainables(ensemble, where_train)
        opt_state = init_optimizer_of_members(optimizer_def, params, n_members(ensemble))
        key = as_key(root_rng, "root_rng")
        return cls(jnp.asarray(0), key, params, constants, opt_state, None, optimizer_def)


def _split_trainables(model: PyTree, where_train: Callable[[Any], Any] | None) -> tuple[PyTree, PyTree]:
    """Return `select_trainables`, with a warning if what is to be learned is left out."""
    is_trained = picked_parameters(model, where_train, argument="`where_train`")
    if unselected := "; ".join(unselected_by_argument(is_trained)):
        warn_caller(
            f"`where_train` leaves out what is to be learned: {unselected}. It keeps its value. Select it, "
            "as in `lambda model: (model.network, model.policy)`, or leave out the argument."
        )
    return eqx.partition(model, is_trained)


LossOfParams = Callable[[PyTree], Float[Array, ""]]


def optimizer_step(
    state: TrainState,
    gradients: PyTree,
    loss: Float[Array, ""],
    loss_of: LossOfParams,
    trained: PyTree[bool] | None = None,
) -> TrainState:
    """Return the state with updated parameters and optimizer state."""
    optimizer = optax.with_extra_args_support(state.optimizer_def)
    offered = {
        "value": loss,
        "grad": gradients,
        "value_fn": _ignore_extra_args(loss_of),
        "grad_fn": lambda params, _: jax.grad(loss_of)(params),
        "obj_fn": loss_of,
    }
    with jax.numpy_dtype_promotion("standard"):  # optax fails under "strict"
        updates, opt_state = optimizer.update(
            gradients, state.opt_state, state.params, **_accepted_arguments(optimizer.update, offered)
        )
    _check_shapes(updates, state.params)
    params = optax.apply_updates(state.params, updates)
    if trained is not None:
        # A gradient of zero is not enough to leave a parameter alone: momentum and weight decay move it.
        params = eqx.combine(eqx.filter(params, trained), state.params)
        opt_state = _keep_where_idle(optimizer, trained, opt_state, state.opt_state)
    return dataclasses.replace(state, params=params, opt_state=opt_state)


def _ignore_extra_args(loss_of: LossOfParams) -> Callable[..., Float[Array, ""]]:
    """Return the loss for a line search, which rejects extra arguments that its function does not name."""

    def value_fn(params, *, grad_fn=None, obj_fn=None):
        return loss_of(params)

    return value_fn


def _accepted_arguments(update: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Return the offered arguments that an optimizer accepts; `optax.contrib.sam` accepts those it names."""
    parameters = inspect.signature(update).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return offered
    return {name: value for name, value in offered.items() if name in parameters}


def _check_shapes(updates: PyTree[Array], params: PyTree[Array]) -> None:
    for update, param in zip(jax.tree.leaves(updates), jax.tree.leaves(params), strict=True):
        if update.shape != param.shape:
            raise ValueError(
                f"an update of shape {update.shape} was returned for a parameter of shape {param.shape}. "
                "(optax.contrib.dpsgd, which needs the gradients of single trials, cannot be used.)"
            )


def _keep_where_idle(
    optimizer: optax.GradientTransformation, trained: PyTree[bool], new: PyTree, old: PyTree
) -> PyTree:
    """Return the new optimizer state, with the old state of parameters that are not trained."""
    with jax.numpy_dtype_promotion("standard"):
        # Counts and other states that belong to no parameter advance in every phase.
        is_new = optax.tree_utils.tree_map_params(
            lambda params: without_member_axes(optimizer.init(params)),
            lambda _, is_trained: is_trained,
            new,
            trained,
            transform_non_params=lambda _: True,
        )
    return jax.tree.map(
        lambda is_new_leaf, updated, old_leaf: updated if is_new_leaf else old_leaf, is_new, new, old
    )


def state_parts(state: TrainState, names: tuple[str, ...]) -> dict[str, PyTree]:
    """Return the named parts of a state."""
    return {name: getattr(state, name) for name in names}


def copy_arrays(tree: Any) -> Any:
    """Return a PyTree with copies of its arrays: the compiled loop donates those of its state."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, may_alias=False), static)


def named_arrays(trees: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of PyTrees by name and path, such as "model.network.readout.weight"."""
    leaves = jax.tree.leaves(trees)
    return {path: leaves[index] for path, index in leaf_names(trees).items()}


def with_named_arrays(trees: dict[str, Any], read: Callable[[str], Any]) -> dict[str, Any]:
    """Return PyTrees with each of the arrays of `named_arrays` replaced by what is read for its name."""
    leaves, structure = jax.tree.flatten(trees)
    for path, index in leaf_names(trees).items():
        leaves[index] = read(path)
    return jax.tree.unflatten(structure, leaves)


def _stored_parts(state: TrainState) -> dict[str, Any]:
    names = (*OWN[2:], *SHARED)
    return {"model": state.model, **state_parts(state, names)}


def named_state(state: TrainState) -> dict[str, Array]:
    """Return all arrays of a train state by name."""
    return named_arrays(_stored_parts(state))


def with_named_state(state: TrainState, arrays: Mapping[str, Any]) -> TrainState:
    """Return the state with all its arrays replaced; other leaves stay."""
    parts = with_named_arrays(_stored_parts(state), lambda name: jax.device_put(arrays[name]))
    return dataclasses.replace(state.with_model(parts.pop("model")), **parts)
