"""What tasks have in common in which an interval is produced: pulses, the event "go", and the ramp to it."""

import jax.numpy as jnp
from jaxtyping import Array, Int

from popsim.trial import OutputTarget
from popsim.windows import NEVER, Timeline


def production_of(
    timeline: Timeline, start: str, n_production: Int[Array, ""], overshoot: float
) -> tuple[Timeline, OutputTarget]:
    """Return the timeline with the event "go", and the target, which ramps from 0 to 1 until then.

    **Arguments:**

    - `timeline`: of the trial.
    - `start`: the event from which the interval is produced; without it the target is 0, and go never comes.
    - `n_production`: the time steps from the event until go.
    - `overshoot`: the continuation of the ramp, as a fraction of them. Later time steps do not count.
    """
    go = jnp.where(timeline.happens(start), timeline.events[start] + n_production, NEVER)
    events = timeline.events | {"go": go}
    since = jnp.maximum(jnp.arange(timeline.n_steps) - timeline.events[start], 0).astype(float)
    ramp = since / jnp.maximum(n_production, 1).astype(float)
    counts = (ramp <= 1 + overshoot + 1e-6).astype(float)
    with_go = Timeline(timeline.dt, timeline.n_steps, epochs=timeline.epochs, events=events)
    return with_go, OutputTarget(ramp[:, None], counts, is_choice=False)
