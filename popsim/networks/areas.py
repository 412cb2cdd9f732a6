"""Areas of a network: which units belong to each, how they are connected, and what they receive."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, ScalarLike

from popsim._shared import checks
from popsim._shared.argument_shapes import check_one_or_each
from popsim._shared.text_checks import suggestion
from popsim.networks.initial_weights import FEWEST_BALANCED, balance, scale_to_radius, smallest_of_row
from popsim.randomness import key_stream

__all__ = ["Areas", "Sparse"]

Pair = tuple[str, str]
"""The names of the area that sends and of the one that receives."""


@dataclasses.dataclass(frozen=True)
class Sparse:
    """Connections from a fraction of the units of an area, drawn for each receiving unit.

    Each receiving unit has the same number of connections, `density` times the number of units that may
    send, rounded up.

    **Arguments:**

    - `density`: the fraction, from 0 to 1. It may differ between the members of an ensemble, see
        `popsim.build_members`.
    - `from_excitatory`: whether only excitatory units send, as between areas of cortex.
    """

    density: ScalarLike = 1.0
    from_excitatory: bool = False

    def __post_init__(self) -> None:
        check_one_or_each("density", self.density)
        checks.check_fraction("density", self.density)


class Areas:
    """A plan of areas and their connections, for an `AreaRNN`.

    ```python
    areas = Areas(
        {"PMd": 100, "M1": 100},
        connections={("PMd", "M1"): Sparse(0.1), ("M1", "PMd"): Sparse(0.05)},
        delays={("PMd", "M1"): 0.02},
        excitatory=0.8,
        inputs={"PMd": ["target"], "M1": ["proprioception"]},
        outputs="M1",
    )
    ```

    Units of an area are connected to all units of it, also to themselves, unless `connections` says
    otherwise, and areas that `connections` does not name are not connected. The units are numbered area by
    area in the order of `sizes`; in each, the excitatory ones come first.

    **Arguments:**

    - `sizes`: the number of units of each area, by name.
    - `connections`: by (from, to), a `Sparse`, or a mask [to, from] of booleans.
    - `delays`: by (from, to), the delay of connections between two areas in seconds, a whole number of time
        steps; by default none.
    - `excitatory`: the fraction of excitatory units of each area; one number, or one by area. None for units
        that may have weights of both signs.
    - `inputs`: by area, the names of the inputs that it receives; `popsim.senses.network_input_names` lists
        them. None for all inputs to all areas. Areas that are not named receive none.
    - `outputs`: the area or areas that are read out; None for all.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        connections: Mapping[Pair, "Sparse | Bool[Array | np.ndarray, 'to from']"] | None = None,
        delays: Mapping[Pair, float] | None = None,
        excitatory: float | Mapping[str, float] | None = None,
        inputs: Mapping[str, Sequence[str]] | None = None,
        outputs: str | Sequence[str] | None = None,
    ):
        for area, size in sizes.items():
            checks.check_positive_int(f"sizes[{area!r}]", size)
        self.sizes = {area: int(size) for area, size in sizes.items()}
        self.connections, self.delays = dict(connections or {}), dict(delays or {})
        for argument, by_pair in (("connections", self.connections), ("delays", self.delays)):
            for pair in by_pair:
                self._check_names(argument, pair)
        for pair, delay in self.delays.items():
            checks.check_non_negative(f"delays[{pair}]", delay)
            checks.warn_of_unit(f"delays[{pair}]", delay, "delay")
            if pair[0] != pair[1] and pair not in self.connections:
                raise ValueError(f"`delays` must be of areas that `connections` connects, got {pair}.")
        self.n_excitatory = None if excitatory is None else self._n_excitatory(excitatory)
        for pair, connection in self.connections.items():
            self._check_connection(pair, connection)
        self.inputs = None
        if inputs is not None:
            self._check_names("inputs", inputs)
            self.inputs = {
                area: checks.as_parts(f"inputs[{area!r}]", names, str, "names of inputs")
                for area, names in inputs.items()
            }
        outputs = tuple(self.sizes) if outputs is None else outputs
        self.outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        if not self.outputs:
            raise ValueError("`outputs` must name at least one area, got none.")
        self._check_names("outputs", self.outputs)

    @property
    def n_units(self) -> int:
        """The number of units of all areas."""
        return sum(self.sizes.values())

    @property
    def signs(self) -> Float[np.ndarray, " unit"] | None:
        """+1 for each excitatory and -1 for each inhibitory unit; None if units may have both signs."""
        if self.n_excitatory is None:
            return None
        pairs = [(self.n_excitatory[area], size) for area, size in self.sizes.items()]
        return np.concatenate([np.where(np.arange(size) < count, 1.0, -1.0) for count, size in pairs])

    def units_of(self, area: str) -> slice:
        """Return the units of an area."""
        names = list(self.sizes)
        start = sum(self.sizes[name] for name in names[: names.index(area)])
        return slice(start, start + self.sizes[area])

    def draw_present(self, *, key: Key[Array, ""]) -> Bool[Array, "post pre"]:
        """Draw which connections there are, and warn of areas that get nothing where they should."""
        present = jnp.zeros((self.n_units, self.n_units), bool)
        connections = {(area, area): Sparse() for area in self.sizes} | self.connections
        for (source, target), connection in connections.items():
            stream = key_stream(key, f"{source} to {target}")
            mask = self._draw_mask((source, target), connection, stream)
            if not checks.is_traced(mask) and not np.all(np.any(mask, axis=1)):
                checks.warn_caller(
                    f"`connections` leaves units of {target!r} without any input from {source!r}."
                )
            present = present.at[self.units_of(target), self.units_of(source)].set(mask)
        return present

    def _draw_mask(self, pair: Pair, connection: Any, key: Key[Array, ""]) -> Bool[Array, "to from"]:
        n_from, n_to = (self.sizes[area] for area in pair)
        if not isinstance(connection, Sparse):
            return jnp.asarray(connection)
        may_send = np.ones(n_from, bool)
        if connection.from_excitatory and self.n_excitatory is not None:
            may_send = np.arange(n_from) < self.n_excitatory[pair[0]]
        order = jax.random.uniform(key, (n_to, n_from))
        # Less a millionth, so that .3 of 10 units, which rounding makes 3.0000001, are three.
        n_senders = jnp.ceil(connection.density * int(may_send.sum()) - 1e-6).astype(int)
        # Units that may not send come last.
        return smallest_of_row(jnp.where(may_send, order, jnp.inf), n_senders)

    def draw_weights(
        self, present: Bool[Array, "post pre"], gain: ScalarLike, *, key: Key[Array, ""]
    ) -> Float[Array, "post pre"]:
        """Draw initial recurrent weights where there are connections.

        Without `excitatory` they are Gaussian, and the variance of those onto a unit is `gain`² over their
        number. With it they are drawn as by `dale_weights`: each row with connections of both signs is
        balanced, so that it sums to zero, and the spectral radius is `gain`. Where no connections form a loop
        the spectral radius is zero, and the magnitudes onto a unit have a mean square of `gain`² over their
        number instead, before rows are balanced.
        """
        weights = jnp.where(present, jax.random.normal(key, present.shape), 0)
        signs = self.signs
        n_inputs = jnp.maximum(1, jnp.sum(present, axis=1, keepdims=True))
        scaled = jnp.asarray(gain * weights / jnp.sqrt(n_inputs))
        if signs is None:
            return scaled
        balanced, unlooped = (
            balance(jnp.where(signs > 0, sizes, 0), jnp.where(signs < 0, sizes, 0))
            for sizes in (jnp.abs(weights), jnp.abs(scaled))
        )
        # Without a loop the computed spectral radius is rounding error.
        has_loop = _has_loop(present)
        with_loop = scale_to_radius(jnp.where(has_loop, balanced, jnp.eye(len(present))), gain)
        return jnp.where(has_loop, with_loop, unlooped)

    def receives(self, input_sizes: Mapping[str, int]) -> Bool[np.ndarray, "unit input"]:
        """Return which units receive which numbers of the input, whose named parts have these sizes."""
        n_inputs = sum(input_sizes.values())
        if self.inputs is None:
            return np.ones((self.n_units, n_inputs), bool)
        input_names = np.repeat(list(input_sizes), list(input_sizes.values()))
        receives = np.zeros((self.n_units, n_inputs), bool)
        for area, names in self.inputs.items():
            for name in [name for name in names if name not in input_sizes]:
                raise ValueError(
                    f"`inputs[{area!r}]` must name inputs of the network, {', '.join(input_sizes)}, got "
                    f"{name!r}.{suggestion(name, input_sizes)}"
                )
            receives[self.units_of(area)] = np.isin(input_names, names)
        if unreached := [
            name for name in input_sizes if all(name not in names for names in self.inputs.values())
        ]:
            checks.warn_caller(
                f"`inputs` leaves the inputs {', '.join(unreached)} without an area that gets them."
            )
        return receives

    def is_read_out(self) -> Bool[np.ndarray, " unit"]:
        """Return which units are read out."""
        return np.isin(np.repeat(list(self.sizes), list(self.sizes.values())), self.outputs)

    def _check_names(self, argument: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.sizes:
                raise ValueError(
                    f"`{argument}` must name areas, {', '.join(self.sizes)}, got {checks.short_repr(name)}."
                    f"{suggestion(str(name), self.sizes)}"
                )

    def _check_connection(self, pair: Pair, connection: Any) -> None:
        if isinstance(connection, Sparse):
            if connection.from_excitatory and self.n_excitatory is None:
                raise ValueError("`excitatory` must be given for connections with `from_excitatory`.")
            return
        shape = (self.sizes[pair[1]], self.sizes[pair[0]])
        if not eqx.is_array_like(connection) or np.shape(connection) != shape or connection.dtype != bool:
            raise ValueError(
                f"`connections[{pair}]` must be a Sparse, or a mask of booleans [to, from] of shape {shape}, "
                f"got {checks.kind_of(connection)}."
            )

    def _n_excitatory(self, excitatory: float | Mapping[str, float]) -> dict[str, int]:
        fractions = excitatory if isinstance(excitatory, Mapping) else dict.fromkeys(self.sizes, excitatory)
        self._check_names("excitatory", fractions)
        for area, fraction in fractions.items():
            checks.check_fraction(f"excitatory[{area!r}]", fraction)
        counts = {area: round(fractions[area] * size) for area, size in self.sizes.items()}
        if self.n_units < FEWEST_BALANCED or not 0 < sum(counts.values()) < self.n_units:
            raise ValueError(
                f"`excitatory` must leave units of both kinds among at least {FEWEST_BALANCED}, got "
                f"{checks.short_repr(excitatory)} of {self.n_units} units."
            )
        return counts


def _has_loop(present: Bool[Array, "post pre"]) -> Bool[Array, ""]:
    """Return whether some unit is reached again along the connections from it."""
    # Walks of n steps or more exist only with a loop. Each squaring doubles their length.
    walks = present.astype(float)
    for _ in range(int(np.ceil(np.log2(max(2, len(present)))))):
        walks = jnp.asarray(walks @ walks > 0, walks.dtype)
    return jnp.any(walks > 0)
