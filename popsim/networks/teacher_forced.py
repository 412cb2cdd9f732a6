"""Networks that are pulled towards what was observed while they learn."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from popsim._shared import checks
from popsim.networks.base import AbstractNetwork, Inputs, NetworkStep, Units, check_network
from popsim.networks.composed import AbstractNetworkWrapper
from popsim.randomness import seed_key

__all__ = ["TeacherForced"]


class TeacherForced(AbstractNetworkWrapper):
    """A network whose hidden state z is moved towards what was observed, x, before each step.

    z_i becomes (1 - α) z_i + α x_i for the first `n_observed` numbers: generalised teacher forcing (Hess,
    Monfared, Brenner & Durstewitz 2023, ICML; checked against the function `force` of the authors' code). A
    gradient that passes these numbers is scaled by 1 - α, so that it does not explode where the network is
    to become chaotic.

    The first inputs are the strength α and then x, as `popsim.tasks.WithTeacherForcing` writes them into the
    trials; the network within receives the others. Where α is 0 it runs freely, as it does in analyses, of
    which the inputs are zeros by default.

    **Arguments:**

    - `network`: any network whose hidden state is one vector.
    - `n_observed`: how many of its numbers were observed.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp, popsim
        >>> network = popsim.networks.VanillaRNN(0, 20, 3, key=jax.random.key(0))
        >>> forced = popsim.networks.TeacherForced(network, n_observed=3)
        >>> forced.n_inputs  # the strength, then what was observed
        4
        >>> orbits = jax.random.normal(jax.random.key(1), (10, 51, 3))  # trial, time, what was observed
        >>> task = popsim.tasks.StoredTrials({"observed": orbits[:, :-1]}, orbits[:, 1:], dt=0.02)
        >>> falling = popsim.schedules.LinearSchedule(1.0, 0.1, last_batch=500)
        >>> task = popsim.tasks.WithTeacherForcing(task, falling)
        >>> task.validation_trials().inputs["forcing"].shape  # strength, then what was observed
        (2, 50, 4)

        ```
    """

    network: AbstractNetwork
    n_observed: int = eqx.field(static=True)
    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)

    def __init__(self, network: AbstractNetwork, n_observed: checks.WholeNumber):
        check_network(network)
        checks.check_positive_int("n_observed", n_observed)
        hidden: Any = eqx.filter_eval_shape(lambda network: network.init(key=seed_key(0)), network)
        if not isinstance(hidden, jax.ShapeDtypeStruct) or len(hidden.shape) != 1:
            raise ValueError(
                "`network` must have one vector as its hidden state, got that of a "
                f"{type(network).__name__}: {checks.kind_of(hidden)}."
            )
        if n_observed > hidden.size:
            raise ValueError(
                f"`n_observed` must be at most the {hidden.size} numbers of the hidden state of the network, "
                f"got {n_observed}."
            )
        self.network, self.n_observed = network, int(n_observed)
        self.n_inputs, self.n_outputs = 1 + self.n_observed + network.n_inputs, network.n_outputs

    def step(self, inputs: Inputs, hidden: Units, *, key: Key[Array, ""]) -> Units:
        return self.network.step(inputs[1 + self.n_observed :], self._force(inputs, hidden), key=key)

    def _force(self, inputs: Inputs, hidden: Units) -> Units:
        strength, observed = inputs[0], inputs[1 : 1 + self.n_observed]
        # Exactly z where the strength is 0, and exactly x where it is 1, unlike z + α (x - z).
        forced = (1 - strength) * hidden[: self.n_observed] + strength * observed
        return jnp.concatenate([forced, hidden[self.n_observed :]])

    def inner_step(self, step: NetworkStep) -> NetworkStep:
        """Return the step of the inner network, which starts from the forced state."""
        received = step.received[1 + self.n_observed :]
        return dataclasses.replace(step, received=received, before=self._force(step.received, step.before))
