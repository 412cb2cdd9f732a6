"""Channel trials: the hand is kept on the straight way to its target, and pushes against the walls."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp

from popsim.checks import check_non_negative
from popsim.intervention_plan import FromTrial, InterventionPlan
from popsim.interventions import ForceChannelParameters
from popsim.tasks.random_loads import Share
from popsim.trial import Trial
from popsim.windows import AbstractWindow, WholeTrial

_THROUGHOUT = WholeTrial()


@dataclasses.dataclass(frozen=True)
class ChannelToTarget:
    """Lays the channel of a trial, from the start to where the target is last; for a `FromTrial`.

    Where the hand is to stay, as in a catch trial, the channel goes along the first axis. Two with the same
    numbers are equal, so that they share compiled programs.

    **Arguments:**

    - `stiffness`, `damping`: of the walls, in N/m and N s/m.

    **Raises:** `ValueError` if a number is negative.
    """

    stiffness: float
    damping: float

    def __post_init__(self):
        check_non_negative("stiffness", self.stiffness)
        check_non_negative("damping", self.damping)

    def __call__(self, trial: Trial) -> ForceChannelParameters:
        """The channel of one trial."""
        start, target = trial.init.position, trial.targets.position[-1]
        beside = start.at[0].add(1.0)
        target = jnp.where(jnp.all(target == start), beside, target)
        return ForceChannelParameters.between(start, target, stiffness=self.stiffness, damping=self.damping)


def channel_trials(
    share: Share = 0.1,
    *,
    stiffness: float = 2000.0,
    damping: float = 50.0,
    window: AbstractWindow = _THROUGHOUT,
    unless: Sequence[str] = (),
) -> InterventionPlan:
    """Trials in a force channel from start to target, for a `ForceChannel` of the model.

    The force against the walls tells what the network expects of the world (Scheidt et al. 2000, J
    Neurophysiol 84:853-862, cited from memory). So that the field is off there, plan it after the channel:
    `adaptation_plan("curl field", 5.0, unless=("force channel",))`.

    **Arguments:**

    - `share`: of the trials; a number, or a schedule over training batches.
    - `stiffness`, `damping`: of the walls, in N/m and N s/m.
    - `window`, `unless`: when in the trial it acts, and with which interventions not together, see
        `InterventionPlan`.

    **Raises:** `ValueError` if `stiffness` or `damping` is negative.
    """
    channel = FromTrial(ChannelToTarget(stiffness, damping))
    return InterventionPlan("force channel", channel, window=window, share=share, unless=unless)
