"""The hidden activity of a run's networks in its validation trials."""

from typing import Any

import numpy as np
from jaxtyping import Float

from popsim.experiments.run import Run
from popsim.noise import without_noise


def hidden_activity(run: Run, ensemble: Any) -> Float[np.ndarray, "member trial time unit"] | None:
    """What the units of all members do, with noise off; None of models without a `network` of popsim."""
    states = run.evaluate(without_noise(ensemble)).states
    hidden = getattr(getattr(states, "network", None), "hidden", None)
    return None if hidden is None or np.ndim(hidden) != 4 else np.asarray(hidden, np.float64)
