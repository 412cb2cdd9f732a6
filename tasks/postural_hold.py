"""A posture that is held while the hand is pushed."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim.checks import check_positive
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.hand import HandState
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.drawn import check_drawn
from popsim.tasks.reach import direction_of
from popsim.tasks.time_left import check_time_left
from popsim.tasks.tracking import tracking_loss
from popsim.timeline import Timeline
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.workspace import Workspace, as_workspace


class PosturalHold(AbstractTask):
    """The hand stays where it is, whatever pushes it.

    The place is drawn uniformly from the workspace. The task says when a pulse may come; what comes then is
    an intervention, such as `load_pulses()` plans. Perturbations of posture as in Crago, Houk & Hasan 1976,
    J Neurophysiol 39:925-935 (cited from memory).

    | input | shape | |
    | --- | --- | --- |
    | "target" | (time, space) | m; where the hand is to stay |

    Targets: the hand at rest where it starts. Epochs: "hold", "pulse" (begun by the event "pulse on"),
    "recovery" (begun by "pulse off"). Conditions: "place direction" (rad, 0 at the centre itself) and "place
    distance" (m) of the place from the centre of the workspace. The validation trials are nine places in a
    square half as wide as the workspace, with the middle of each time.

    **Arguments:**

    - `workspace`: where the hand is held.
    - `loss`: what counts as doing well.
    - `hold`, `pulse`: how long it is before the pulse, and how long the pulse lasts, in seconds; numbers or
        distributions.
    - `duration`: how long a trial lasts, in seconds.
    - `dt`: the time step in seconds, that of the model.

    **Raises:** `ValueError` if a number is not positive, hold and pulse may leave no step for the
    recovery, or `duration` is not a multiple of `dt`.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=tracking_loss)
    hold: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.5)
    )
    pulse: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    duration: float = eqx.field(static=True, kw_only=True, default=1.2)
    dt: float = eqx.field(static=True, kw_only=True, default=0.01)

    def __check_init__(self):
        check_drawn("hold", self.hold, check_positive)
        check_drawn("pulse", self.pulse, check_positive)
        check_time_left(self.plan, self.dt, "a time step of recovery")

    @property
    def plan(self) -> TrialPlan:
        """From which each trial draws its timeline."""
        epochs = (
            Epoch("hold", self.hold),
            Epoch("pulse", self.pulse, event="pulse on"),
            Epoch("recovery", event="pulse off"),
        )
        return TrialPlan(epochs, duration=self.duration, dt=self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        place = self.workspace.sample(key=key_stream(key, "place"))
        return self._hold_at(place, self.plan.draw(key=key_stream(key, "timeline")))

    def validation_trials(self) -> Trial:
        timeline, half = self.plan.typical(), self.workspace.half_widths
        shares = jnp.array(list(itertools.product((-0.5, 0.0, 0.5), repeat=2)), half.dtype)

        def hold_at(share: Float[Array, "2"]) -> Trial:
            return self._hold_at(self.workspace.center.at[:2].add(share * half[:2]), timeline)

        return jax.vmap(hold_at)(shares)

    def _hold_at(self, place: Float[Array, " space"], timeline: Timeline) -> Trial:
        still = jnp.zeros_like(place)
        shown = jnp.broadcast_to(place, (timeline.n_steps, place.size))
        from_center = place - self.workspace.center
        return Trial(
            init=HandState(place, still),
            inputs={"target": shown},
            targets=HandState(shown, jnp.zeros_like(shown)),
            timeline=timeline,
            conditions={
                "place direction": direction_of(from_center),
                "place distance": jnp.linalg.norm(from_center),
            },
        )
