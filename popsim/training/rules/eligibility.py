"""Eligibility propagation, and errors that enter a network through random weights."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.checks import as_float_array, check_finite, check_instance, short_repr
from popsim.model import AbstractModel
from popsim.networks import AbstractNetwork, AbstractNetworkWrapper, EncodedStart
from popsim.networks.base import AbstractWeights, Hidden, Inputs, Output
from popsim.per_member import PerMember
from popsim.randomness import key_stream, seed_key
from popsim.training.rules.online import AbstractOnlineGradient, random_arrays
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

    def read_out(self, hidden: Hidden) -> Output:
        """Read the given state: interventions on units, which are in it, would act on it once more."""
        return self.network.read_out(self.hidden)


class EProp(AbstractOnlineGradient):
    """Eligibility propagation: what units send is taken as given (Bellec et al. 2020, Nat Commun 11:3625).

    The trace of a weight is the derivative by it of the hidden state h of its own unit, through that unit
    alone. The gradient is the sum over time steps of the trace times dE_t/dh_t, where E_t is the cost of the
    step; with the total derivative by h in its place this is the exact gradient (their eq. 1). The readout
    has its exact derivative. Without recurrent weights this is back-propagation through time. Tests check it,
    and the sum beside NumPy.

    It serves networks with a projection "recurrent" whose trained weights act on one unit each, and in which
    units act on one another through W @ rates alone.

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
        network = _network_of(model, "recurrent", self)
        if hasattr(model, "plant") and self.body is None and self.signal is None:
            raise ValueError(
                "`body` must be given for a model with a body, as EProp(body=lambda state: state.plant): the "
                "cost of a step hardly depends on the command of that step. Or give a `signal`."
            )
        _check_local(params.network, network)

    def begin(self, start: Callable[[PyTree], PyTree[Array]], params: PyTree) -> PyTree[Array]:
        state, pull = jax.vjp(lambda params: start(params).network.hidden, params)
        of_units = [pull(_ones(state, i))[0].network for i in range(len(jax.tree.leaves(state)))]
        # The start of a body depends on its own parameters, where these are trained.
        return of_units, jax.jacrev(lambda params: self._flat_body(start(params))[0])(params)

    def step(
        self, at: StepRun, params: PyTree, before: PyTree[Array], traces: PyTree[Array]
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree]:
        of_units, of_body = traces
        after = at.advance(params, before)
        of_units = self._next_traces(at, params, before, of_units)
        hidden = after.network.hidden
        if self.signal is not None:
            signals, gradient = self.signal(at, params, before, hidden)
            of_network = _weigh(jax.tree.leaves(signals), of_units)
            return after, (of_units, of_body), _add_to_network(gradient, of_network)
        body, unravel = self._flat_body(before)

        def forward(body: Array, hidden: Hidden, params: PyTree) -> Array:
            """Return the numbers of the body after the step, and the cost, for a given hidden state."""
            model: Any = eqx.combine(params, at.model)
            given = _GivenHidden(model.network, hidden, model.network.n_inputs, model.network.n_outputs)
            step = dataclasses.replace(at, model=eqx.tree_at(lambda model: model.network, model, given))
            moved = before if self.body is None else eqx.tree_at(self.body, before, unravel(body))
            nothing = jax.tree.map(lambda _: None, step.model)
            after = step.advance(nothing, moved)
            after = eqx.tree_at(lambda state: state.network.hidden, after, hidden)
            return jnp.append(self._flat_body(after)[0], step.costs(nothing, after).total)

        by_body, by_hidden, by_params = jax.jacrev(forward, argnums=(0, 1, 2))(body, hidden, params)

        def row(by_body: Array, by_hidden: Hidden, by_params: PyTree) -> PyTree:
            through_body = jax.tree.map(lambda trace: jnp.tensordot(by_body, trace, axes=1), of_body)
            of_network = _weigh(jax.tree.leaves(by_hidden), of_units)
            return _add_to_network(_add(by_params, through_body), of_network)

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
        """Return a trace for each array of the hidden state, in the structure of the trained network."""

        def hidden_after(params: PyTree, hidden: Hidden, step: StepRun) -> Hidden:
            state = eqx.tree_at(lambda state: state.network.hidden, before, hidden)
            return step.advance(params, state).network.hidden

        hidden, n = before.network.hidden, len(traces)
        _, pull = jax.vjp(lambda params: hidden_after(params, hidden, at), params)
        given: Any = eqx.combine(params, at.model)
        given = eqx.tree_at(lambda model: model.network, given, given.network.with_given_rates())
        nothing, given_step = jax.tree.map(lambda _: None, given), dataclasses.replace(at, model=given)
        _, push = jax.linearize(lambda hidden: hidden_after(nothing, hidden, given_step), hidden)
        keep = [jax.tree.leaves(push(_ones(hidden, i))) for i in range(n)]  # [i][j]: of array j by array i
        return [
            _add(pull(_ones(hidden, j))[0].network, _weigh([keep[i][j] for i in range(n)], traces))
            for j in range(n)
        ]


def _network_of(model: Any, projection: str, rule: AbstractGradient) -> AbstractNetwork:
    """Return the network of a model; raise `ValueError` unless it has a projection."""
    network = getattr(model, "network", None)
    if not isinstance(network, AbstractNetwork) or projection not in network.projections():
        raise ValueError(
            f'`model.network` must have a projection "{projection}" for {type(rule).__name__}, got '
            f"{short_repr(network)}."
        )
    return network


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


def _add_to_network(params: Any, of_network: PyTree) -> Any:
    return eqx.tree_at(lambda params: params.network, params, _add(params.network, of_network))


def _check_local(params: PyTree, network: AbstractNetwork) -> None:
    """Raise `ValueError` unless trained weights act on a unit each, and units on others through W alone.

    Derivatives at random numbers show it, as nothing else tells of a network of the user's.
    """
    _check_start(params, network)
    with jax.ensure_compile_time_eval():
        trained, network = random_arrays((params, network), low=0.5)
        hidden, received = random_arrays(
            (network.init(key=seed_key(0)), jnp.zeros(network.n_inputs)), low=-0.5
        )
        leaves, structure = jax.tree.flatten(hidden)
        shapes = {leaf.shape for leaf in leaves}
        if len(shapes) != 1 or len(*shapes) != 1:
            raise ValueError(
                f"`model.network` must have a hidden state of numbers of its units alone for EProp, got a "
                f"{type(network).__name__} with arrays of shapes {sorted(shapes)}."
            )
        weights = random_arrays(leaves, low=0.5)

        def only(i: int) -> Hidden:
            return jax.tree.map(jnp.multiply, _ones(hidden, i), jax.tree.unflatten(structure, weights))

        def step_of(network: AbstractNetwork, hidden: Hidden) -> Hidden:
            return network.step(received, hidden, key=seed_key(0))

        _, pull = jax.vjp(lambda params: step_of(eqx.combine(params, network), hidden), trained)
        for i, own in enumerate(weights):
            (found,), (each,) = pull(only(i)), pull(_ones(hidden, i))
            pairs = zip(jax.tree.leaves_with_path(found), jax.tree.leaves(_weigh([own], [each])), strict=True)
            for (path, leaf), like in pairs:
                if not np.allclose(leaf, like, rtol=1e-3, atol=1e-5):
                    raise ValueError(
                        "`where_train` must select weights that act on one unit each for EProp, got "
                        f"network{jax.tree_util.keystr(path)}."
                    )
        try:
            given = eqx.combine(trained, network).with_given_rates()
            _, push = jax.linearize(lambda hidden: step_of(given, hidden), hidden)
            pairs = [
                (leaf, own * like)
                for i, own in enumerate(weights)
                for leaf, like in zip(
                    *map(jax.tree.leaves, map(push, (only(i), _ones(hidden, i)))), strict=True
                )
            ]
        except TypeError:  # W is used in other ways than W @ rates
            pairs = [(1.0, 0.0)]
        if not all(np.allclose(leaf, like, rtol=1e-3, atol=1e-5) for leaf, like in pairs):
            raise ValueError(
                f"units of `model.network` must act on one another through `W @ rates` of the projection "
                f'"recurrent" alone for EProp, got a {type(network).__name__}; see `with_given_rates`.'
            )


def _check_start(params: Any, network: AbstractNetwork) -> None:
    """Raise `ValueError` if the weights of an encoder are trained, which act on all units of the start."""
    while isinstance(network, AbstractNetworkWrapper):
        if isinstance(network, EncodedStart) and jax.tree.leaves(params.encoder):
            raise ValueError(
                "`where_train` must select weights that act on one unit each for EProp, got the encoder of "
                "an EncodedStart."
            )
        params, network = params.network, network.network


class _AlignedWeights(AbstractWeights):
    """The weights of a readout whose errors go back through other weights."""

    constants: ClassVar[tuple[str, ...]] = ("feedback",)
    feedback: Any

    def __matmul__(self, rates: Float[Array, " unit"]) -> Float[Array, " output"]:
        back = self.feedback @ rates
        return self.weights @ jax.lax.stop_gradient(rates) + back - jax.lax.stop_gradient(back)


class FeedbackAlignment(AbstractGradient):
    """Any gradient, with errors that enter the network through fixed random weights (Lillicrap et al. 2016).

    The readout y = W r + b has dE/dr = B' dE/dy, with a fixed B in place of W (Nat Commun 7:13276; compared
    with the abstract). What is behind the readout, such as a body, keeps its derivatives. A term of the loss
    may read the weights of the readout by `W @ rates` and as leaves of the model, not as an array.

    **Arguments:**

    - `gradient`: the gradient of which it is a variant, such as `EProp()` or `BackpropThroughTime()`.
    - `feedback`: B, of the shape of the weights of the readout; may be a `PerMember`. None for a draw of each
        member from a normal distribution of variance 1 / (number of units).
    """

    gradient: AbstractGradient
    feedback: Float[Array, "output unit"] | PerMember | None = eqx.field(
        converter=lambda feedback: None if feedback is None else as_float_array(feedback), default=None
    )

    def __check_init__(self):
        check_instance("gradient", self.gradient, AbstractGradient, "a gradient such as EProp()")
        if self.gradient.returns_change:
            raise ValueError(
                "`gradient` must not return the change of weights itself, got a "
                f"{type(self.gradient).__name__}."
            )
        if self.feedback is not None:
            check_finite("feedback", self.feedback)

    def init(self, params: PyTree, model: AbstractModel, *, key: Key[Array, ""]) -> PyTree[Array]:
        network = _network_of(model, "readout", self)
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

    - `feedback`: as of `FeedbackAlignment`.
    - `gradient`: an `EProp`, with a `body` where there is one.
    """

    def __init__(self, feedback: Any = None, *, gradient: EProp | None = None):
        self.feedback, self.gradient = feedback, EProp() if gradient is None else gradient

    def __check_init__(self):
        check_instance("gradient", self.gradient, EProp, "an EProp()")
