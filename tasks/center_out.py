"""Reaches from the centre to targets around it."""

import equinox as eqx
from jaxtyping import Array, Int, Key

from popsim.checks import check_positive, check_positive_int
from popsim.loss import Loss
from popsim.task import AbstractTask
from popsim.tasks.reach import (
    at_direction,
    center_out_trials,
    check_reach_times,
    random_direction,
    reach_loss,
    reach_trial,
)
from popsim.trial import Trial
from popsim.workspace import Workspace, as_workspace


class CenterOutReaches(AbstractTask):
    """Reaches from the centre of a workspace to targets on a circle around it.

    A training trial has a target drawn from the `n_directions`, or, with `n_directions=None`, from the
    whole circle. The validation trials are one reach to each (eight evenly spaced ones if None).

    **Arguments:**

    - `workspace`: its centre is where reaches start.
    - `distance`: from centre to target, in m.
    - `n_directions`: how many targets there are; None for the whole circle.
    - `duration`: how long a trial lasts, in seconds.
    - `dt`: the time step in seconds, that of the model.
    - `loss`: what counts as doing well.

    **Raises:** `ValueError` if a number is not positive, or `duration` is not a multiple of `dt`.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=reach_loss)
    distance: float = eqx.field(static=True, kw_only=True, default=0.1)
    n_directions: int | None = eqx.field(static=True, kw_only=True, default=8)
    duration: float = eqx.field(static=True, kw_only=True, default=1.0)
    dt: float = eqx.field(static=True, kw_only=True, default=0.01)

    def __check_init__(self):
        check_reach_times(self.duration, self.dt)
        check_positive("distance", self.distance)
        if self.n_directions is not None:
            check_positive_int("n_directions", self.n_directions)

    @property
    def n_steps(self) -> int:
        """The number of time steps of a trial."""
        return check_reach_times(self.duration, self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        center = self.workspace.center
        direction = random_direction(self.n_directions, key=key)
        target = at_direction(center, direction, self.distance)
        return reach_trial(center, target, n_steps=self.n_steps, dt=self.dt, direction=direction)

    def validation_trials(self) -> Trial:
        return center_out_trials(
            self.workspace.center,
            distance=self.distance,
            n_directions=8 if self.n_directions is None else self.n_directions,
            n_steps=self.n_steps,
            dt=self.dt,
        )
