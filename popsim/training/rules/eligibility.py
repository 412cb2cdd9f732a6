"""Eligibility propagation, and errors that enter a network through random weights."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.checks import short_repr
from popsim.model import AbstractModel
from popsim.networks import AbstractNetwork, AbstractNetworkWrapper
from popsim.networks.base import AbstractWeights, Hidden, Inputs
from popsim.per_member import PerMember
from popsim.randomness import key_stream, seed_key
from popsim.training.rules.online import AbstractOnlineGradient
from popsim.training.steps.batch_runs import BatchRun, StepRun
from popsim.training.steps.gradients import AbstractGradient
from popsim.training.steps.model_updates import TrainedBatch

__all__ = ["EProp", "FeedbackAlignment", "RFLO"]

Signal = Callable[[StepRun, PyTree, PyTree, PyTree], tuple[PyTree, PyTree]]


class _GivenHidden(AbstractNetworkWrapper):
    """A network whose step returns a given hidden state: what follows in a model's step sees it."""

    network: AbstractNetwork
    hidden: Hidden
    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)

    def step(self, inputs: Inputs, hidden: Hidden, *, key: Key[Array, ""]) -> Hidden:
        return self.hidden


class EProp(AbstractOnlineGradient):
    """Eligibility propagation: what units send is taken as given (Bellec et al. 2020, Nat Commun 11:3625).

    The trace of a weight is the derivative by it of the hidden state h of its own unit, through that unit
    alone. The gradient is the sum over time steps of the trace times dE_t/dh_t, where E_t is the cost of the
    step; with the total derivative by h in its place this is the exact gradient (their eq. 1). Readout and
    policy have their exact derivatives within a step. Without recurrent weights it is back-propagation
    through time. Tests check both, and the sum beside NumPy.

    It serves every network with a projection "recurrent" whose trained weights act on one unit each.

    **The body.** The cost of a step hardly depends on the command of that step, so that the signal of one
    step does not teach to move. With `body`, the derivative of the body by each weight is carried along, too,
    through the equations of the body: exact but for what comes back through senses and recurrence. It takes
    as many traces again as the body has numbers.

    **Arguments:**

    - `body`: from the state of a model to the part of it through which traces run, such as `lambda state:
        state.plant`.
    - `signal`: `(at, params, before, hidden) -> (signals, gradient)`, a learning signal for dE_t/dh_t,
        like the hidden state after the step, and what is added to the gradient, like `params`.
    """

    body: Callable[[Any], PyTree[Array]] | None = eqx.field(static=True, default=None)
    signal: Signal | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.body is not None and self.signal is not None:
            raise ValueError("`body` and `signal` must not both be given.")

    def init(self, params: PyTree, model: AbstractModel, *, key: Key[Array, ""]) -> PyTree[Array]:
        network = getattr(model, "network", None)
        if not isinstance(network, AbstractNetwork) or "recurrent" not in network.projections():
            raise ValueError(
                f'`model.network` must have a projection "recurrent" for {type(self).__name__}, got '
                f"{short_repr(network)}."
            )
        if hasattr(model, "plant") and self.body is None and self.signal is None:
            raise ValueError(
                "`body` must be given for a model with a body, as EProp(body=lambda state: state.plant): the "
                "cost of a step hardly depends on the command of that step. Or give a `signal`."
            )
        _check_local(params.network, network)

    def begin(self, start: Callable[[PyTree], PyTree[Array]], params: PyTree) -> PyTree[Array]:
        state, pull = jax.vjp(lambda params: start(params).network.hidden, params)
        of_units = [pull(_ones(state, i))[0] for i in range(len(jax.tree.leaves(state)))]
        n = self._flat_body(start(params))[0].size
        return of_units, jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape), leaf.dtype), params)

    def step(
        self, at: StepRun, params: PyTree, before: PyTree[Array], traces: PyTree[Array]
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree]:
        of_units, of_body = traces
        after = at.advance(params, before)
        of_units = self._next_traces(at, params, before, of_units)
        hidden = after.network.hidden
        if self.signal is not None:
            signals, gradient = self.signal(at, params, before, hidden)
            return after, (of_units, of_body), _add(gradient, _weigh(jax.tree.leaves(signals), of_units))
        body, unravel = self._flat_body(before)

        def forward(body: Array, hidden: Hidden, params: PyTree) -> Array:
            """Return the numbers of the body after the step, and the cost, for a given hidden state."""
            model: Any = eqx.combine(params, at.model)
            sizes = (model.network.n_inputs, model.network.n_outputs)
            given = _GivenHidden(model.network, hidden, *sizes)
            model = eqx.tree_at(lambda model: model.network, model, given)
            moved = before if self.body is None else eqx.tree_at(self.body, before, unravel(body))
            nothing = jax.tree.map(lambda _: None, model)
            after = at.advance(nothing, moved, model)
            return jnp.append(self._flat_body(after)[0], at.costs(nothing, after, model).total)

        by_body, by_hidden, by_params = jax.jacrev(forward, argnums=(0, 1, 2))(body, hidden, params)

        def row(by_body: Array, by_hidden: Hidden, by_params: PyTree) -> PyTree:
            through_body = jax.tree.map(lambda trace: jnp.tensordot(by_body, trace, axes=1), of_body)
            return _add(by_params, through_body, _weigh(jax.tree.leaves(by_hidden), of_units))

        rows = jax.vmap(row)(by_body, by_hidden, by_params)
        of_body = jax.tree.map(lambda leaf: leaf[:-1], rows)
        return after, (of_units, of_body), jax.tree.map(lambda leaf: leaf[-1], rows)

    def _flat_body(self, state: PyTree) -> tuple[Float[Array, " number"], Callable[[Array], PyTree]]:
        if self.body is None:
            return jnp.zeros(0, jax.tree.leaves(state.network.hidden)[0].dtype), lambda _: ()
        return ravel_pytree(self.body(state))

    def _next_traces(
        self, at: StepRun, params: PyTree, before: PyTree[Array], traces: list[PyTree]
    ) -> list[PyTree]:
        """Return a trace for each array of the hidden state."""

        def hidden_after(params: PyTree, hidden: Hidden, model: AbstractModel) -> Hidden:
            state = eqx.tree_at(lambda state: state.network.hidden, before, hidden)
            return at.advance(params, state, model).network.hidden

        hidden, n = before.network.hidden, len(traces)
        _, pull = jax.vjp(lambda params: hidden_after(params, hidden, at.model), params)
        given: Any = eqx.combine(params, at.model)
        given = eqx.tree_at(lambda model: model.network, given, given.network.with_given_rates())
        nothing = jax.tree.map(lambda _: None, given)
        _, push = jax.linearize(lambda hidden: hidden_after(nothing, hidden, given), hidden)
        keep = [jax.tree.leaves(push(_ones(hidden, i))) for i in range(n)]  # [i][j]: of array j by array i
        return [
            _add(pull(_ones(hidden, j))[0], _weigh([keep[i][j] for i in range(n)], traces)) for j in range(n)
        ]


def _ones(hidden: Hidden, i: int) -> Hidden:
    """Return ones in place of the array number i of a hidden state, and zeros in place of the others."""
    leaves, structure = jax.tree.flatten(hidden)
    return jax.tree.unflatten(structure, [jnp.full_like(leaf, j == i) for j, leaf in enumerate(leaves)])


def _weigh(of_units: list[Float[Array, " unit"]], traces: list[PyTree]) -> PyTree:
    """Return the sum, over the arrays of a hidden state, of traces times a number for each unit.

    The first axis of a trained array is units, or gates x units. Others have traces of zero.
    """

    def spread(numbers: Float[Array, " unit"], trace: Array) -> Array:
        if trace.ndim == 0 or trace.shape[0] % numbers.size:
            return jnp.zeros_like(trace)
        rows = jnp.tile(numbers, trace.shape[0] // numbers.size)
        return rows.reshape(rows.shape + (1,) * (trace.ndim - 1)) * trace

    pairs = zip(of_units, traces, strict=True)
    return _add(*(jax.tree.map(lambda leaf, own=own: spread(own, leaf), trace) for own, trace in pairs))


def _add(first: PyTree, *others: PyTree) -> PyTree:
    return jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), first, *others)


def _check_local(params: PyTree, network: AbstractNetwork) -> None:
    """Raise `ValueError` unless trained weights act on a unit each, and units on others through W alone.

    Derivatives at random numbers show it, as nothing else tells of a network of the user's.
    """
    keys = map(functools.partial(jax.random.fold_in, seed_key(0)), itertools.count())

    def draw(leaf: Any) -> Any:
        is_number = eqx.is_inexact_array(leaf)
        return jax.random.uniform(next(keys), leaf.shape, leaf.dtype, 0.5, 1.5) if is_number else leaf

    with jax.ensure_compile_time_eval():
        trained, network = jax.tree.map(draw, (params, network))
        key = next(keys)
        hidden = jax.tree.map(draw, network.init(key=key))
        shapes = {leaf.shape for leaf in jax.tree.leaves(hidden)}
        if len(shapes) != 1 or len(*shapes) != 1 or getattr(network, "plasticity", None) is not None:
            raise ValueError(
                f"`model.network` must have a hidden state of numbers of its units alone for EProp, got a "
                f"{type(network).__name__} with arrays of shapes {sorted(shapes)}: plastic synapses have no "
                "such traces."
            )
        received = draw(jnp.zeros(network.n_inputs))
        weights = [draw(leaf) for leaf in jax.tree.leaves(hidden)]

        def only(i: int) -> Hidden:
            return jax.tree.map(jnp.multiply, _ones(hidden, i), jax.tree.unflatten(structure, weights))

        structure = jax.tree.structure(hidden)
        _, pull = jax.vjp(lambda p: eqx.combine(p, network).step(received, hidden, key=key), trained)
        given = eqx.combine(trained, network).with_given_rates()
        _, push = jax.linearize(lambda hidden: given.step(received, hidden, key=key), hidden)
        for i, own in enumerate(weights):
            (found,), (each,) = pull(only(i)), pull(_ones(hidden, i))
            expected = _weigh([own], [each])
            for (path, leaf), like in zip(
                jax.tree.leaves_with_path(found), jax.tree.leaves(expected), strict=True
            ):
                if not np.allclose(leaf, like, rtol=1e-3, atol=1e-5):
                    raise ValueError(
                        "`where_train` must select weights that act on one unit each for EProp, got "
                        f"network{jax.tree_util.keystr(path)}."
                    )
            pairs = zip(
                *(jax.tree.leaves(push(each(i))) for each in (only, lambda i: _ones(hidden, i))), strict=True
            )
            if not all(np.allclose(leaf, own * like, rtol=1e-3, atol=1e-5) for leaf, like in pairs):
                raise ValueError(
                    f'units of `model.network` must act on one another through the projection "recurrent" '
                    f"alone for EProp, got a {type(network).__name__}; see `with_given_rates`."
                )


class _AlignedWeights(AbstractWeights):
    """The weights of a readout whose errors go back through other weights."""

    feedback: Any

    def __matmul__(self, rates: Float[Array, " unit"]) -> Float[Array, " output"]:
        back = self.feedback @ rates
        return self.weights @ jax.lax.stop_gradient(rates) + back - jax.lax.stop_gradient(back)


class FeedbackAlignment(AbstractGradient):
    """Any gradient, with errors that enter the network through fixed random weights (Lillicrap et al. 2016).

    The readout y = W r + b has dE/dr = B' dE/dy, with a fixed B in place of W (Nat Commun 7:13276; compared
    with the abstract). What is behind the readout, such as a body, keeps its derivatives.

    **Arguments:**

    - `gradient`: the gradient of which it is a variant, such as `EProp()` or `BackpropThroughTime()`.
    - `feedback`: B, of the shape of the weights of the readout; may be a `PerMember`. None for a draw of each
        member from a normal distribution of variance 1 / (number of units).
    """

    gradient: AbstractGradient
    feedback: Float[Array, "output unit"] | PerMember | None = None

    def init(self, params: PyTree, model: AbstractModel, *, key: Key[Array, ""]) -> PyTree[Array]:
        network = getattr(model, "network", None)
        if not isinstance(network, AbstractNetwork) or "readout" not in network.projections():
            raise ValueError(
                f'`model.network` must have a projection "readout" for {type(self).__name__}, got '
                f"{short_repr(network)}."
            )
        weights = network.projections()["readout"].where(network)
        feedback: Any = self.feedback
        if feedback is None:
            draws = jax.random.normal(key_stream(key, "feedback"), weights.shape, weights.dtype)
            feedback = draws / jnp.sqrt(weights.shape[-1])
        if jnp.shape(feedback) != weights.shape:
            raise ValueError(
                f"`feedback` must have the shape of the weights of the readout, {weights.shape}, "
                f"got {jnp.shape(feedback)}."
            )
        aligned = _align(params, None, model), _align(model, feedback, model)
        return feedback, self.gradient.init(*aligned, key=key)

    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        feedback, inner = carry
        aligned = dataclasses.replace(run, model=_align(run.model, feedback, run.model))
        gradients, batch, inner = self.gradient(aligned, _align(params, None, run.model), inner, key=key)
        where = _readout_of(run.model)
        gradients = eqx.tree_at(where, gradients, where(gradients).weights, is_leaf=_is_aligned_or_none)
        batch = dataclasses.replace(batch, model=eqx.combine(params, run.model))
        return gradients, batch, (feedback, inner)


def _is_aligned_or_none(node: Any) -> bool:
    return node is None or isinstance(node, _AlignedWeights)


def _readout_of(model: Any) -> Callable[[Any], Any]:
    where = model.network.projections()["readout"].where
    return lambda model: where(model.network)


def _align(tree: PyTree, feedback: Any, model: AbstractModel) -> PyTree:
    """Return a model, or parameters in its structure, with weights of the readout beside their feedback."""
    where = _readout_of(model)
    return eqx.tree_at(where, tree, _AlignedWeights(where(tree), feedback), is_leaf=_is_aligned_or_none)


class RFLO(FeedbackAlignment):
    """Random feedback local online learning: `EProp` with errors through random weights (Murray 2019).

    eLife 8:e43299. Tests compare it with the equations of that paper's own code in NumPy, in which the leak
    is outside the nonlinearity, and with those of a `LeakyRNN`, in which it is inside.

    **Arguments:**

    - `gradient`: an `EProp`.
    - `feedback`: as of `FeedbackAlignment`.
    """

    gradient: AbstractGradient = EProp()
