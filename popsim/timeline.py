"""When things happen in a trial: its epochs and events."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from popsim.checks import check_positive, check_positive_int

NEVER = 2**30
"""The step of an event that does not happen in a trial, such as the go cue of a catch trial."""


class Timeline(eqx.Module):
    """When things happen in a trial.

    What happens at a step is seen by the model at that step: an input that comes with an event is there
    from the event's step on.

    **Arguments:**

    - `dt`: the time step in seconds.
    - `n_steps`: how many steps the trial has.
    - `epochs`: for each named epoch its first step and the step after its last.
    - `events`: for each named event the step at which it happens; `NEVER` if it does not.

    **Raises:** `ValueError` if `dt` or `n_steps` is not positive, or steps are not whole numbers.
    """

    dt: float = eqx.field(static=True)
    n_steps: int = eqx.field(static=True)
    epochs: dict[str, Int[Array, "*trial 2"]] = eqx.field(default_factory=dict)
    events: dict[str, Int[Array, "*trial"]] = eqx.field(default_factory=dict)

    def __check_init__(self):
        if not isinstance(self.dt, (int, float)):
            raise ValueError(f"`dt` must be a Python number, got {type(self.dt).__name__}.")
        check_positive("dt", self.dt)
        check_positive_int("n_steps", self.n_steps)
        for kind, shape, named in (("epochs", (2,), self.epochs), ("events", (), self.events)):
            for name, steps in named.items():
                if steps.shape[steps.ndim - len(shape) :] != shape or not jnp.issubdtype(
                    steps.dtype, jnp.integer
                ):
                    raise ValueError(
                        f"`{kind}[{name!r}]` must be whole numbers of shape {shape}, "
                        f"got {steps.dtype} of shape {steps.shape}."
                    )

    def in_epoch(self, name: str) -> Bool[Array, " time"]:
        """Which steps of one trial belong to the epoch called `name`."""
        first, end = self._named("epochs", name)
        steps = jnp.arange(self.n_steps)
        return (steps >= first) & (steps < end)

    def since(self, event: str, delay: float = 0.0) -> Bool[Array, " time"]:
        """Which steps of one trial are `delay` seconds (or more) after an event; none if it never comes."""
        return jnp.arange(self.n_steps) >= self._named("events", event) + round(delay / self.dt)

    def happens(self, event: str) -> Bool[Array, "*trial"]:
        """Whether an event comes within the trial."""
        return self._named("events", event) < self.n_steps

    def _named(self, kind: str, name: str) -> Int[Array, "..."]:
        named: dict[str, Array] = getattr(self, kind)
        if name not in named:
            raise ValueError(f"`name` must be one of the {kind} of the trial, {sorted(named)}, got {name!r}.")
        return named[name]
