"""Reaches from anywhere to anywhere in a workspace."""

import equinox as eqx
from jaxtyping import Array, Int, Key

from popsim.checks import check_positive
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.reach import center_out_trials, check_reach_times, reach_loss, reach_trial
from popsim.trial import Trial
from popsim.workspace import Workspace, as_workspace


class RandomReaches(AbstractTask):
    """Reaches between two points drawn uniformly from a workspace.

    The validation trials are reaches from the centre in eight directions.

    **Arguments:**

    - `workspace`: where starts and targets are, such as `plant.workspace`.
    - `duration`: how long a trial lasts, in seconds.
    - `dt`: the time step in seconds, that of the model.
    - `validation_distance`: from centre to target in the validation trials, in m.
    - `loss`: what counts as doing well.

    **Raises:** `ValueError` if a time or the distance is not positive, or `duration` is not a multiple
    of `dt`.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=reach_loss)
    duration: float = eqx.field(static=True, kw_only=True, default=1.0)
    dt: float = eqx.field(static=True, kw_only=True, default=0.01)
    validation_distance: float = eqx.field(static=True, kw_only=True, default=0.1)

    def __check_init__(self):
        check_reach_times(self.duration, self.dt)
        check_positive("validation_distance", self.validation_distance)

    @property
    def n_steps(self) -> int:
        """The number of time steps of a trial."""
        return check_reach_times(self.duration, self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        start = self.workspace.sample(key=key_stream(key, "start"))
        target = self.workspace.sample(key=key_stream(key, "target"))
        return reach_trial(start, target, n_steps=self.n_steps, dt=self.dt)

    def validation_trials(self) -> Trial:
        return center_out_trials(
            self.workspace.center,
            distance=self.validation_distance,
            n_directions=8,
            n_steps=self.n_steps,
            dt=self.dt,
        )
