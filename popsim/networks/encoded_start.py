"""A network whose start of each trial is encoded from what was recorded in it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from popsim._shared import checks
from popsim._shared.plain_values import plain_number
from popsim.networks.activity import as_numbers_of_units
from popsim.networks.base import AbstractNetwork, Units, check_network
from popsim.networks.composed import AbstractNetworkWrapper
from popsim.randomness import key_stream, seed_key
from popsim.trial import Trial
from popsim.windows import AbstractWindow, WholeTrial

__all__ = ["EncodedStart"]


class _Encoder(eqx.Module):
    """W (a, b) + c, of the last states a and b of gated units that read forwards and backwards in time."""

    forwards: eqx.nn.GRUCell
    backwards: eqx.nn.GRUCell
    to_hidden: eqx.nn.Linear

    def __init__(self, n_read: int, n_encoder: int, n_hidden: int, *, key: Key[Array, ""]):
        keys = (key_stream(key, name) for name in ("forwards", "backwards"))
        self.forwards, self.backwards = (eqx.nn.GRUCell(n_read, n_encoder, key=each) for each in keys)
        self.to_hidden = eqx.nn.Linear(2 * n_encoder, n_hidden, key=key_stream(key, "to hidden"))

    def __call__(self, values: Float[Array, "time recorded"], is_read: Bool[Array, " time"]) -> Units:
        def last_state(cell: Any, *, reverse: bool) -> Float[Array, " encoder"]:
            def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
                values, is_read = at
                return jnp.where(is_read, cell(values, state), state), None

            zeros = jnp.zeros(cell.hidden_size, cell.weight_hh.dtype)
            return jax.lax.scan(step, zeros, (values, is_read), reverse=reverse)[0]

        ends = last_state(self.forwards, reverse=False), last_state(self.backwards, reverse=True)
        return self.to_hidden(jnp.concatenate(ends))


class EncodedStart(AbstractNetworkWrapper):
    """A network whose hidden state at the start of a trial is encoded from units recorded in that trial.

    Gated units (`equinox.nn.GRUCell`) read the recording forwards in time, others backwards. A linear map of
    their last states is added to the start of the inner network, which is zero unless that has its own. This
    is the encoder of LFADS without its noise (Pandarinath et al. 2018, Nat Methods 15:805; compared with
    their code). The rest is that of the inner network, `network.network`. The `encoder` is learned with it.

    What does not count in the recording, or lies outside of the window, is not read. Time steps at which no
    unit counts change nothing; a unit that does not count beside others is read as silent.

    !!! example

        Twenty units are read in the first 0.2 s, and all thirty are predicted:

        ```python
        >>> import jax, numpy as np, popsim
        >>> from popsim import networks, tasks
        >>> spikes = np.random.default_rng(0).poisson(0.3, (12, 25, 30))  # (trial, time, unit)
        >>> task = tasks.StoredTrials(
        ...     {"nothing": np.zeros((12, 25, 1))},
        ...     dt=0.02,
        ...     recordings={"spikes": spikes},
        ...     loss=1.0 * popsim.losses.SpikeCountLikelihood(of="output", log_rates=True),
        ... )
        >>> key = jax.random.key(0)
        >>> network = networks.EncodedStart(
        ...     networks.LeakyRNN(1, 16, 30, dt=0.02, key=key),
        ...     units=range(20),
        ...     window=popsim.windows.Between(0.0, 0.2),
        ...     key=key,
        ... )
        >>> model = popsim.NetworkModel(network, dt=0.02)
        >>> popsim.evaluate(model, task, key=key).states.network.output.shape
        (2, 25, 30)

        ```

    **Arguments:**

    - `network`: a network whose hidden state is one array, with a number for each unit.
    - `units`: the numbers of the recorded units that are read.
    - `recording`: the name of the recording in `Trial.recordings`.
    - `window`: the time steps that are read, by default all. What is predicted from the past lies after.
    - `n_encoder`: the number of gated units that read in each direction.
    - `key`: for the initial weights of the encoder.
    """

    network: AbstractNetwork
    encoder: _Encoder
    units: tuple[int, ...] = eqx.field(static=True)
    recording: str = eqx.field(static=True)
    window: AbstractWindow
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        network: AbstractNetwork,
        units: Any,
        *,
        recording: str = "spikes",
        window: AbstractWindow | None = None,
        n_encoder: checks.WholeNumber = 32,
        key: Key[Array, ""],
    ):
        check_network(network)
        checks.check_positive_int("n_encoder", n_encoder)
        start: Any = eqx.filter_eval_shape(lambda network: network.init(key=seed_key(0)), network)
        if len(getattr(start, "shape", ())) != 1:
            raise ValueError(
                f"`network` must have a hidden state of one array, with a number for each unit, got "
                f"{checks.kind_of(network)} with {jax.tree.map(jnp.shape, start)}."
            )
        self.network, self.units = network, as_numbers_of_units(units)
        self.encoder = _Encoder(len(self.units), int(n_encoder), start.size, key=key)
        self.recording, self.window = recording, WholeTrial() if window is None else window
        self.n_inputs, self.n_outputs = network.n_inputs, network.n_outputs

    def init_for(self, trial: Trial, *, key: Key[Array, ""]) -> Units:
        return self.network.init_for(trial, key=key) + self.encoder(*self._read(trial))

    def _read(self, trial: Trial) -> tuple[Float[Array, "time recorded"], Bool[Array, " time"]]:
        """Return the recording of the units, zero where it is not read, and at which time steps it is."""
        if self.recording not in trial.recordings:
            raise ValueError(
                f"`recording` of EncodedStart must be one of the recordings of the trial, "
                f"{sorted(trial.recordings)}, got {self.recording!r}."
            )
        recorded, units = trial.recordings[self.recording], np.array(self.units)
        if max(self.units) >= (n_recorded := recorded.values.shape[-1]):
            raise ValueError(
                f"`units` of EncodedStart must be numbers of recorded units, from 0 to {n_recorded - 1}, "
                f"got {max(self.units)}."
            )
        is_counted = jnp.broadcast_to(recorded.counts, recorded.values.shape)[:, units] > 0
        is_counted &= self.window(trial.timeline)[:, None]
        return jnp.where(is_counted, recorded.values[:, units], 0.0), jnp.any(is_counted, axis=1)

    def with_dt(self, dt: float) -> "EncodedStart":
        """Refuse another time step: the encoder has learned to read what is recorded in one of these."""
        return super(AbstractNetworkWrapper, self).with_dt(dt)
