"""The contract of a network."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, Key


class NetworkState(eqx.Module):
    """What a network carries from step to step, and what it puts out."""

    hidden: Float[Array, "*axes hidden"]
    output: Float[Array, "*axes output"]


class AbstractNetwork(eqx.Module):
    """A recurrent network with a readout. A subclass supplies the sizes, `init` and `step`.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp, popsim
        >>> class Linear(popsim.networks.AbstractNetwork):
        ...     n_inputs: int = eqx.field(static=True)
        ...     n_outputs: int = eqx.field(static=True)
        ...     weights: jax.Array
        ...     def init(self, *, key):
        ...         return popsim.networks.NetworkState(jnp.zeros(0), jnp.zeros(self.n_outputs))
        ...     def step(self, inputs, state, *, key):
        ...         return popsim.networks.NetworkState(state.hidden, self.weights @ inputs)
        >>> network = Linear(3, 2, jnp.ones((2, 3)))
        >>> key = jax.random.key(0)
        >>> network.step(jnp.ones(3), network.init(key=key), key=key).output.tolist()
        [3.0, 3.0]

        ```
    """

    n_inputs: eqx.AbstractVar[int]
    n_outputs: eqx.AbstractVar[int]

    @abc.abstractmethod
    def init(self, *, key: Key[Array, ""]) -> NetworkState:
        """The state at the start of a trial."""

    @abc.abstractmethod
    def step(
        self, inputs: Float[Array, " inputs"], state: NetworkState, *, key: Key[Array, ""]
    ) -> NetworkState:
        """The state one time step later.

        **Arguments:**

        - `inputs`: all that the network receives at this step, in one vector.
        - `state`: the state before the step.
        - `key`: for noise of the units.
        """
