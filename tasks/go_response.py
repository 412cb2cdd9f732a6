"""The response to a go cue: keep silent until it, then choose."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from popsim.checks import as_float_array, check_fraction, check_non_negative
from popsim.output_target import OutputTarget
from popsim.tasks.time_left import check_time_left
from popsim.timeline import Timeline
from popsim.trial_plan import Epoch, TrialPlan

GO_CUE = "go cue"


class GoResponse(eqx.Module):
    """What tasks with a go cue share, after the conventions of NeuroGym (cited from memory).

    The input "fixation" is 1 until the go cue and 0 from it on. The outputs should be silent, zero, until
    the go cue, and from it on what the task asks for. In a catch trial the go cue never comes.

    **Arguments:**

    - `grace`: for how long after the go cue nothing counts, in seconds; 0.1 as in Yang et al. 2019, Nat
        Neurosci 22:297 (cited from memory).
    - `silence_counts`: how much a time step before the go cue counts; one after it counts 1.
    - `catch_probability`: the share of catch trials.

    **Raises:** `ValueError` if `grace` or `silence_counts` is negative, or the share not from 0 to 1.
    """

    grace: float = eqx.field(static=True, kw_only=True, default=0.1)
    silence_counts: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.2)
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.0)

    def __check_init__(self):
        check_non_negative("grace", self.grace)
        check_non_negative("silence_counts", self.silence_counts)
        check_fraction("catch_probability", self.catch_probability)

    def plan(self, *epochs: Epoch, duration: float, dt: float) -> TrialPlan:
        """The plan of a trial: `epochs`, then from the go cue on the epoch "decision"."""
        return TrialPlan(
            (*epochs, Epoch("decision", event=GO_CUE)),
            duration=duration,
            dt=dt,
            catch_event=GO_CUE,
            catch_probability=self.catch_probability,
        )

    def check(self, plan: TrialPlan) -> None:
        """Refuse a plan that may leave no time to respond.

        **Raises:** `ValueError` unless a step is left after the grace, however long the epochs are.
        """
        check_time_left(plan, self.grace + plan.dt, "the grace after the go cue and a time step")

    def fixation(self, timeline: Timeline) -> Float[Array, "time 1"]:
        """The input: 1 until the go cue, then 0."""
        return (~timeline.since(GO_CUE))[:, None].astype(float)

    def target(self, timeline: Timeline, values: Float[Array, " outputs"]) -> OutputTarget:
        """Silence until the go cue, then `values`."""
        responds = timeline.since(GO_CUE)
        counts = jnp.where(timeline.since(GO_CUE, self.grace), 1.0, 0.0)
        counts = jnp.where(responds, counts, self.silence_counts)
        return OutputTarget(jnp.where(responds[:, None], values, 0.0), counts)

    def is_catch(self, timeline: Timeline) -> Bool[Array, ""]:
        """Whether the go cue does not come."""
        return ~timeline.happens(GO_CUE)
