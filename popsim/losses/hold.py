"""Whether the cursor stays where it is to stay."""

from typing import Literal

import equinox as eqx
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.losses.distances import AbstractDistance, SquaredDistance
from popsim.losses.hand_motion import check_hand
from popsim.losses.time_profile import InWindow, weighted_sum
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets
from popsim.windows import AbstractWindow

Place = Literal["start", "target"]


class Hold(AbstractLossTerm):
    """Sum over a window of |cursor_t - place|², in m²; zero where the window is empty.

    **Arguments:**

    - `window`: when it is to stay, such as `Before("go cue")`.
    - `place`: "start", that of the trial, or "target", as it is at each step.
    - `distance`: what stands for |·|², as of a `PositionError`.

    **Raises:** `ValueError` if `place` is another.
    """

    window: AbstractWindow
    place: Place = eqx.field(static=True, default="start")
    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="hold", kw_only=True)

    def __check_init__(self):
        if self.place not in ("start", "target"):
            raise ValueError(f'`place` must be "start" or "target", got {self.place!r}.')

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        place = self._place(states, trial)
        away = self.distance(states.cursor.position - place)
        return weighted_sum(InWindow(self.window), trial.timeline, away, self.distance)

    def _place(self, states: LoopState, trial: Trial) -> Float[Array, "*time space"]:
        if self.place == "start":
            check_hand(states, trial)
            return trial.init.position
        check_hand_targets(trial, states.cursor)
        return trial.targets.position
