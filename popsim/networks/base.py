"""The base class of networks, and the description of their projections."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._compiled import jit
from popsim._shared import checks
from popsim._shared.argument_shapes import check_fields
from popsim._shared.other_draws import guard_tracing
from popsim.ensemble import n_members
from popsim.network_input import sizes_text
from popsim.randomness import seed_key
from popsim.trial import Trial

__all__ = ["NetworkStep", "Projection", "NetworkState", "AbstractNetwork"]


NetworkType = TypeVar("NetworkType", bound="AbstractNetwork")

# The types of a network, as the methods of its subclasses and of what asks them are annotated.
Inputs = Float[Array, " inputs"]
Units = Float[Array, " unit"]
Output = Float[Array, " output"]
Hidden = PyTree[Array]


class NetworkStep(eqx.Module):
    """One time step of a network: its input, and its hidden state before and after the step.

    `unit_input` is the current added to the input of the units, or None.
    """

    received: Float[Array, "*time inputs"]
    before: PyTree[Array]
    after: PyTree[Array]
    unit_input: Float[Array, "*time units"] | None = None


Reader = Callable[[Any, NetworkStep], Float[Array, " unit"]]
"""What reads the activity of units in a network and a time step of it."""


@dataclasses.dataclass(frozen=True)
class Projection:
    """The synapses from one group of units to another, with weights W[post, pre].

    **Arguments:**

    - `where`: selects the array of weights in the network.
    - `pre`, `post`: functions of the network and a `NetworkStep` without time axis that return the activity
        of the presynaptic and of the postsynaptic units at that step; by default that of the network's units
        before and after the step (`AbstractNetwork.activity`).
    - `rows`: the rows of the array that hold these weights.
    - `where_bias`: selects the bias of the postsynaptic units: adding d to it has the effect of W pre + d.
        None if there is none.
    - `bias_rows`: the rows of the bias that belong to the postsynaptic units.
    """

    where: Callable[[Any], Array]
    pre: Reader = lambda network, step: network.activity(step.before)
    post: Reader = lambda network, step: network.activity(step.after)
    rows: slice = dataclasses.field(default_factory=lambda: slice(None))
    where_bias: Callable[[Any], Array] | None = None
    bias_rows: slice = dataclasses.field(default_factory=lambda: slice(None))


class NetworkState(eqx.Module):
    """The hidden state and the output of a network after a step."""

    hidden: PyTree[Array]
    output: Float[Array, "*axes output"]

    @classmethod
    def initial_state(
        cls, network: "AbstractNetwork", trial: Trial, *, key: Key[Array, ""]
    ) -> "NetworkState":
        """Return the state of a network at the start of a trial, with an output of zeros."""
        hidden = network.init_for(trial, key=key)
        dtype = jax.eval_shape(network.read_out, hidden).dtype
        return cls(hidden, jnp.zeros(network.n_outputs, dtype))

    def with_hidden(self, hidden: PyTree[Array]) -> "NetworkState":
        """Return the state with another hidden state and the same output."""
        return NetworkState(hidden, self.output)


class AbstractWeights(eqx.Module):
    """Base class of what stands in place of an array of weights W, whose product `W @ rates` it defines."""

    weights: Any

    @abc.abstractmethod
    def __matmul__(self, rates: Array) -> Array:
        """Return the product."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the weights."""
        return self.weights.shape

    @property
    def dtype(self) -> np.dtype:
        """That of the weights."""
        return self.weights.dtype


class _GivenRates(AbstractWeights):
    def __matmul__(self, rates: Array) -> Array:
        return self.weights @ jax.lax.stop_gradient(rates)


def one_array(network: Any, method: str, hidden: PyTree[Array]) -> Float[Array, "*axes unit"]:
    """Return the hidden state of a network if it is one array."""
    if not isinstance(hidden, jax.Array | np.ndarray):
        raise ValueError(
            f"`{method}` of {type(network).__name__} must be implemented, because its hidden state is not "
            f"one array: got {jax.tree.structure(hidden)}. See AbstractNetwork.activity."
        )
    return jnp.asarray(hidden)


class AbstractNetwork(eqx.Module):
    """Base class of recurrent networks with a readout.

    Subclasses implement the sizes, `init`, `step` and `read_out`. The readout is separate from the step so
    that interventions on the units between the two affect the output. The hidden state is an array, or any
    PyTree of arrays, such as the pair (h, c) of an LSTM. A network whose hidden state is not one array also
    implements `activity` and `with_activity`, which losses, interventions, analyses and figures ask.

    `parameter_axes` names the axes of parameters for exports, by their names in the network:
    `{"readout.weight": ("output", "unit")}`.

    All floating-point arrays are learned except noise and the fields named in `constants`, such as
    `constants = ("tau", "mask", "initial_hidden")`; see `popsim.is_parameter`.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp, popsim
        >>> class Linear(popsim.networks.AbstractNetwork):
        ...     n_inputs: int = eqx.field(static=True)
        ...     n_outputs: int = eqx.field(static=True)
        ...     weights: jax.Array
        ...     def init(self, *, key):
        ...         return jnp.zeros(self.n_inputs)
        ...     def step(self, inputs, hidden, *, key):
        ...         return 0.5 * hidden + inputs
        ...     def read_out(self, hidden):
        ...         return self.weights @ hidden
        >>> network = Linear(3, 2, jnp.ones((2, 3)))
        >>> key = jax.random.key(0)
        >>> network.read_out(network.step(jnp.ones(3), network.init(key=key), key=key)).tolist()
        [3.0, 3.0]

        ```
    """

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    n_inputs: eqx.AbstractVar[int]
    n_outputs: eqx.AbstractVar[int]

    def __check_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def init(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return the hidden state at the start of a trial."""

    def init_for(self, trial: Trial, *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return the hidden state at the start of this trial; by default that of `init`, the same for all."""
        return self.init(key=key)

    @abc.abstractmethod
    def step(
        self, inputs: Float[Array, " inputs"], hidden: PyTree[Array], *, key: Key[Array, ""]
    ) -> PyTree[Array]:
        """Return the hidden state one time step later, of the same structure.

        **Arguments:**

        - `inputs`: the input vector at this step.
        - `hidden`: the hidden state before the step.
        - `key`: for noise of the units.
        """

    @abc.abstractmethod
    def read_out(self, hidden: PyTree[Array]) -> Float[Array, " output"]:
        """Return the output of the network for the given hidden state."""

    def activity(self, hidden: PyTree[Array]) -> Float[Array, " unit"]:
        """Return the activity of the units at one time step; by default the hidden state, one array."""
        return one_array(self, "activity", hidden)

    def with_activity(self, hidden: PyTree[Array], rates: Float[Array, " unit"]) -> PyTree[Array]:
        """Return the hidden state with another activity of the units, and the rest as it is.

        `activity` of what it returns is `rates`. Interventions on units use it.
        """
        one_array(self, "with_activity", hidden)
        return rates

    def unit_groups(self) -> dict[str, Int[np.ndarray, " unit"]]:
        """Return the numbers of the units of each group, such as an area, by name; by default no groups.

        Losses, interventions and analyses take such a name as `units`. The result may depend on static fields
        only, not on arrays.
        """
        return {}

    def projections(self) -> dict[str, Projection]:
        """Return the projections that learning rules may act on, by name; by default none.

        The rules use "recurrent", "input" and "readout". The result may depend on static fields only, not on
        arrays.
        """
        return {}

    def with_given_rates(self) -> "AbstractNetwork":
        """Return the network in which what units send one another is given: it passes on no derivative.

        By default the weights W of the projection "recurrent" become ones whose product `W @ rates` has no
        derivative by the rates. A network that applies W in another way overrides it.
        """
        where = self.projections()["recurrent"].where
        return eqx.tree_at(where, self, _GivenRates(where(self)))

    def with_unit_input(self, current: Float[Array, " units"] | None) -> "AbstractNetwork":
        """Return the network with a current added to the input of its units, before their nonlinearity.

        The current is added to the bias of the projection "input", so custom networks support it through
        their `projections`.

        **Arguments:**

        - `current`: for each unit, in the unit of its input; None returns the network unchanged.
        """
        if current is None:
            return self
        received = self.projections().get("input")
        where_bias = None if received is None else received.where_bias
        if received is None or where_bias is None:
            raise ValueError(
                f"`projections` of {type(self).__name__} must hold 'input' with `where_bias`, "
                "for its units to receive a current."
            )
        return eqx.tree_at(where_bias, self, where_bias(self).at[received.bias_rows].add(current))

    def with_dt(self: NetworkType, dt: float) -> NetworkType:
        """Return the network for another time step (s); by default refused.

        A network whose equation contains its time step, such as `LeakyRNN`, extends this. One without, such
        as `GRUNetwork`, has learned a map from step to step, and is trained again.
        """
        raise ValueError(
            f"`network` must have a time step in its equation to be moved to dt = {dt} s, got "
            f"{checks.kind_of(self)}: what it learned holds for the dt at which it was trained. "
            "Train it again."
        )

    def check_dt(self, dt: float) -> None:  # noqa: B027
        """Check a time step, in seconds; by default every one is accepted."""


def check_network(network: Any) -> None:
    """Raise `ValueError` unless `network` is a network."""
    checks.check_instance("network", network, AbstractNetwork, "a network such as GRUNetwork")


def advice_for_dt(dt: float) -> str:
    """Return what to do with a model whose trials have another time step, in s."""
    return (
        f"A model of a network with a time step in its equation, such as LeakyRNN, is moved by "
        f"model.with_dt({dt}); one without, such as GRUNetwork, is trained again."
    )


def check_takes_trials(network: AbstractNetwork, trials: Trial, sizes: Mapping[str, int]) -> None:
    """Raise `ValueError` unless inputs are finite, as many as a network takes, and its methods fit together.

    The methods are traced once each, and not compiled.
    """
    for path, leaf in jax.tree.leaves_with_path(trials.inputs):
        checks.check_finite(f"inputs{jax.tree_util.keystr(path)}", leaf)
    n_inputs = sum(sizes.values())
    if n_inputs != network.n_inputs:
        raise ValueError(
            f"`network` must take the {n_inputs} inputs, {sizes_text(sizes)}, got a network of "
            f"{network.n_inputs} inputs. See `n_network_inputs`."
        )
    vector = jax.ShapeDtypeStruct((n_inputs,), jnp.result_type(float, *jax.tree.leaves(trials.inputs)))
    key = jax.eval_shape(lambda: seed_key(0))
    try:
        # Of one trial, so that methods are traced once for training and validation trials.
        first = jax.eval_shape(lambda trials: jax.tree.map(lambda leaf: leaf[0], trials), trials)
        jax.eval_shape(functools.partial(_call_methods, network), first, vector, key)
    except ValueError as error:
        if not _may_be_ensemble(network):
            raise
        raise ValueError(
            f"{error} (If `model` is an ensemble, use `ensembled=True` of a trainer, or evaluate_ensemble.)"
        ) from error


def _may_be_ensemble(network: AbstractNetwork) -> bool:
    try:
        return n_members(network) > 0
    except ValueError:
        return False


@jit
def _call_methods(network: AbstractNetwork, trial: Trial, inputs: Inputs, key: Key[Array, ""]) -> None:
    init, step, read_out = (
        f"`{method}` of {type(network).__name__}" for method in ("init", "step", "read_out")
    )
    with guard_tracing(init, "(*, key)", network):
        hidden = network.init(key=key)
    start = network.init_for(trial, key=key)
    checks.check_like(f"`init_for` of {type(network).__name__}", "the hidden state", hidden, start)
    with guard_tracing(step, "(inputs, hidden, *, key)", network):
        stepped = network.step(inputs, hidden, key=key)
    checks.check_like(step, "the hidden state", hidden, stepped)
    with guard_tracing(read_out, "(hidden)", network):
        output = network.read_out(hidden)
    if jnp.shape(output) != (network.n_outputs,):
        raise ValueError(
            f"{read_out} must return an array of shape ({network.n_outputs},), its `n_outputs`, "
            f"got {checks.kind_of(output)}."
        )
    if type(network).activity is not AbstractNetwork.activity:
        rates = network.activity(hidden)
        if jnp.ndim(rates) != 1:
            raise ValueError(
                f"`activity` of {type(network).__name__} must return one array of shape (unit,), "
                f"got {checks.kind_of(rates)}."
            )
        changed = network.with_activity(hidden, rates)
        checks.check_like(f"`with_activity` of {type(network).__name__}", "the hidden state", hidden, changed)
