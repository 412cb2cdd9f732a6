"""Train steps of any loss function: accumulated gradients, donated memory, arrays divided over devices."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec, Sharding
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from popsim._compiled import jit
from popsim._shared.checks import is_traced
from popsim.randomness import as_key
from popsim.training.steps.batch_runs import split_batch, sum_over_parts
from popsim.training.steps.train_state import OWN, SHARED, TrainState, optimizer_step, state_parts

__all__ = [
    "accumulate_gradients_loop",
    "accumulate_gradients_scan",
    "accumulate_gradients",
    "build_train_step_fn",
]

DONATED = ("params", "opt_state", "loss_fn_state")  # the parts of a state that a step may donate

Tree = TypeVar("Tree", bound=PyTree)
LossFn = Callable[[PyTree, PyTree, Key[Array, ""]], tuple[Float[Array, ""], tuple[PyTree, PyTree]]]


def accumulate_gradients_loop(
    state: TrainState, batch: PyTree[Array], rng: PRNGKeyArray, num_minibatches: int, loss_fn: LossFn
) -> tuple[PyTree, PyTree, Sequence[Any]]:
    """Split a batch and accumulate gradients over its parts, unrolled in the compiled program.

    **Arguments:**

    - `state`: the train state; the gradient is with respect to its `params`.
    - `batch`, `num_minibatches`: arrays with a leading axis of examples, and the number of equal parts.
    - `rng`: a key, split between the parts.
    - `loss_fn`: `loss_fn(params, minibatch, rng) -> (loss, (metrics, mutables))`. The loss is a mean over the
        examples of the minibatch; metrics are summed over minibatches; mutables are returned.

    **Returns:** the mean of the gradients, the sum of the metrics, and a list of the mutables of each part.
    For a loss that does not use `rng` the gradient is that of the whole batch.
    """
    differentiate, parts = _parts_to_differentiate(state, batch, rng, num_minibatches, loss_fn)
    sums, mutables = zip(
        *(differentiate(jax.tree.map(lambda leaf, i=i: leaf[i], parts)) for i in range(num_minibatches)),
        strict=True,
    )
    gradients, metrics = jax.tree.map(lambda *leaves: sum(leaves), *sums)
    return jax.tree.map(lambda leaf: leaf / num_minibatches, gradients), metrics, list(mutables)


def accumulate_gradients_scan(
    state: TrainState, batch: PyTree[Array], rng: PRNGKeyArray, num_minibatches: int, loss_fn: LossFn
) -> tuple[PyTree, PyTree, PyTree[Array]]:
    """Return `accumulate_gradients_loop` computed by a scan, compiled once for any `num_minibatches`.

    The mutables are stacked on a leading axis; arguments and errors are the same.
    """
    differentiate, parts = _parts_to_differentiate(state, batch, rng, num_minibatches, loss_fn)
    (gradients, metrics), mutables = sum_over_parts(differentiate, parts)
    return jax.tree.map(lambda leaf: leaf / num_minibatches, gradients), metrics, mutables


def accumulate_gradients(
    state: TrainState,
    batch: PyTree[Array],
    rng: PRNGKeyArray,
    num_minibatches: int,
    loss_fn: LossFn,
    use_scan: bool = False,
) -> tuple[PyTree, PyTree, Any]:
    """Call `accumulate_gradients_scan` if `use_scan`, else `accumulate_gradients_loop`."""
    accumulate = accumulate_gradients_scan if use_scan else accumulate_gradients_loop
    return accumulate(state, batch, rng, num_minibatches, loss_fn)


def _parts_to_differentiate(
    state: TrainState, batch: PyTree[Array], rng: PRNGKeyArray, num_minibatches: int, loss_fn: LossFn
) -> tuple[Callable[[PyTree], tuple[tuple[PyTree, PyTree], PyTree]], PyTree]:
    """Return what gives `((gradients, metrics), mutables)` of a part with its key, and all of these."""

    def differentiate(part_and_key: Any) -> tuple[tuple[PyTree, PyTree], PyTree]:
        gradients, (metrics, mutables) = jax.grad(loss_fn, has_aux=True)(state.params, *part_and_key)
        return (gradients, metrics), mutables

    keys = jax.random.split(as_key(rng, "rng"), num_minibatches)
    return differentiate, (split_batch(batch, num_minibatches), keys)


class StepShardings(eqx.Module):
    """The shardings of the arguments and results of a train step, as `build_train_step_fn` takes them."""

    parts: dict[str, PyTree]
    inputs: dict[str, PyTree]
    outputs: PyTree

    def __init__(self, train_state: PyTree, inputs: PyTree, outputs: PyTree):
        is_whole = not isinstance(train_state, TrainState)
        self.parts = {part: train_state if is_whole else getattr(train_state, part) for part in OWN}
        self.inputs = dict(inputs or {})
        self.outputs = outputs
        self.parts |= dict.fromkeys(SHARED, _replicated_sharding(self.parts))

    def place_inputs(self, inputs: dict[str, PyTree]) -> dict[str, PyTree]:
        """Return the inputs moved to their devices; arrays already there are not copied."""
        if not set(self.inputs) <= set(inputs):
            raise ValueError(
                f"`input_kwarg_shardings` must be for inputs of the step, {sorted(inputs)}, "
                f"got {sorted(self.inputs)}."
            )
        shardings = dict.fromkeys(inputs) | self.inputs
        return _map_sharded(_place, "input_kwarg_shardings", shardings, inputs)

    def constrain(self, state: TrainState, outputs: PyTree) -> tuple[TrainState, PyTree]:
        """Return the results of a step with sharding constraints, to be called in the compiled step."""
        state = self.map_state(_constrain, state)
        return state, _map_sharded(_constrain, "aux_output_shardings", self.outputs, outputs)

    def map_state(self, function: Callable[[Any, Sharding], Any], state: TrainState) -> TrainState:
        """Return a state with `function(array, sharding)` of its arrays."""
        parts = {
            part: _map_sharded(function, f"train_state_shardings.{part}", shardings, getattr(state, part))
            for part, shardings in self.parts.items()
        }
        return dataclasses.replace(state, **parts)


class TrainStep(eqx.Module):
    """The pure train step of a loss function, `(TrainState, **inputs) -> (TrainState, outputs)`.

    Steps with equal loss functions are equal, so a program that contains one is compiled once.
    """

    loss_fn: Callable[..., tuple[Float[Array, ""], PyTree, PyTree]]
    shardings: StepShardings | None = None

    def __call__(self, train_state: TrainState, **inputs: PyTree) -> tuple[TrainState, PyTree]:
        """Return the next state, and the `outputs` of the loss function."""
        rng = jax.random.fold_in(as_key(train_state.root_rng, "root_rng"), train_state.step)

        def loss_of(params):
            model = eqx.combine(params, train_state.model_without_params)
            state = train_state.loss_fn_state
            loss, new_loss_fn_state, outputs = self.loss_fn(model=model, state=state, rng=rng, **inputs)
            return loss, (new_loss_fn_state, outputs)

        value_and_gradients = jax.value_and_grad(loss_of, has_aux=True)
        (loss, (loss_fn_state, outputs)), gradients = value_and_gradients(train_state.params)
        stepped = optimizer_step(train_state, gradients, loss, lambda params: loss_of(params)[0])
        result = dataclasses.replace(stepped, step=train_state.step + 1, loss_fn_state=loss_fn_state), outputs
        return result if self.shardings is None else self.shardings.constrain(*result)


def _replicated_sharding(shardings: PyTree) -> Sharding | None:
    """Return the sharding that copies to each device of the mesh of the shardings, if there is one."""
    meshes = [sharding.mesh for sharding in jax.tree.leaves(shardings) if isinstance(sharding, NamedSharding)]
    return NamedSharding(meshes[0], PartitionSpec()) if meshes else None


def _map_sharded(function: Callable[[Any, Sharding], Any], name: str, shardings: PyTree, tree: Tree) -> Tree:
    """Apply `function(array, sharding)` to the arrays of `tree` that have a sharding."""

    def of_part(sharding: Sharding | None, part: PyTree) -> PyTree:
        if sharding is None:
            return part
        return jax.tree.map(lambda leaf: function(leaf, sharding) if eqx.is_array(leaf) else leaf, part)

    if shardings is None:
        return tree
    try:
        return jax.tree.map(of_part, shardings, tree, is_leaf=lambda node: node is None)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must have the structure of what it is for, or a prefix of it, got: {error}"
        ) from error


def _place(leaf: Any, sharding: Sharding) -> jax.Array:
    return _constrain(leaf, sharding) if is_traced(leaf) else jax.device_put(leaf, sharding)


def _constrain(leaf: Any, sharding: Sharding) -> jax.Array:
    explicit = isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types
    return (jax.sharding.reshard if explicit else jax.lax.with_sharding_constraint)(leaf, sharding)


def build_train_step_fn(
    loss_fn: Callable[..., tuple[Float[Array, ""], PyTree, PyTree]],
    jit: bool = True,
    donate_params_and_state: bool = False,
    train_state_shardings: PyTree = None,
    input_kwarg_shardings: PyTree = None,
    aux_output_shardings: PyTree = None,
) -> Callable[..., tuple[TrainState, Any]]:
    """Build a train step for a loss function, without a task or trainer.

    **Arguments:**

    - `loss_fn`: `loss_fn(model, state, rng, **kwargs) -> (loss, new_state, outputs)`: a scalar to minimise,
        the next state of the loss function, and further outputs of the train step. It is called by keyword,
        so the order of its parameters is free.
    - `jit`: whether to compile the step.
    - `donate_params_and_state`: whether the step may reuse the memory of the given parameters and the states
        of optimizer and loss function, which cannot be used afterwards.
    - `train_state_shardings`: a `TrainState` of JAX shardings, such as
        `jax.tree.map(lambda leaf: sharding, equinox.filter(state, equinox.is_array))`, or a prefix of it: a
        sharding stands for all arrays below it, None leaves them to JAX. The step returns a state with these
        shardings, and first moves the given state to them if needed: on the first call it may be on one
        device. Those of `step` and `root_rng` are ignored.
    - `input_kwarg_shardings`: a dict from input keyword to a sharding, or a PyTree or prefix of these.
    - `aux_output_shardings`: the shardings of `outputs`, likewise.

    Donation and shardings are ignored unless `jit`. To split weights, make the mesh with
    `axis_types=(jax.sharding.AxisType.Auto, ...)`: with explicit axes, the default of `jax.make_mesh`, the
    loss function must say how each operation is split.

    **Returns:** a function `(train_state, **kwargs) -> (TrainState, outputs)`. The key of a step is
    `fold_in(train_state.root_rng, train_state.step)`.
    """
    step = TrainStep(loss_fn)
    if not jit:
        return step
    shardings = StepShardings(train_state_shardings, input_kwarg_shardings, aux_output_shardings)
    if not jax.tree.leaves(shardings):
        return _compile(step, donate_params_and_state)
    compiled = _compile(TrainStep(loss_fn, shardings), donate_params_and_state)

    def train_step(train_state: TrainState, **inputs: PyTree) -> tuple[TrainState, Any]:
        placed = shardings.map_state(_place, train_state)
        result = compiled(placed, **shardings.place_inputs(inputs))
        if donate_params_and_state:
            _delete(state_parts(train_state, DONATED))
        return result

    return train_step


def _compile(step: Callable[..., tuple[TrainState, Any]], donates: bool) -> Callable[..., Any]:
    """Return the compiled step, which reuses the memory of all that it changes if `donates`."""
    run = _run_in_place if donates else _run

    def train_step(train_state: TrainState, **inputs: PyTree) -> tuple[TrainState, Any]:
        retained_state = dataclasses.replace(train_state, **dict.fromkeys(DONATED))
        return run((step, retained_state, inputs), state_parts(train_state, DONATED))

    return train_step


def _run_step(retained: tuple[Any, ...], donated: dict[str, PyTree]) -> Any:
    step, retained_state, inputs = retained
    return step(dataclasses.replace(retained_state, **donated), **inputs)


_run, _run_in_place = jit(_run_step), jit(_run_step, donate="all-except-first")


def _delete(donated: PyTree) -> None:
    """Free the originals of arrays that were moved to other devices: only the copies were donated."""
    for leaf in jax.tree.leaves(donated):
        if isinstance(leaf, jax.Array) and not is_traced(leaf) and not leaf.is_deleted():
            leaf.delete()
