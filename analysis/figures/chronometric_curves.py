"""How long decisions took."""

import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.behaviour import ChronometricCurve
from popsim.analysis.figures.style import COLORS


def draw_chronometric_curves(ax: Axes, curve: ChronometricCurve) -> Axes:
    """Mean decision time at each coherence, of each member in a colour of its own, with standard errors.

    The errors are over trials.

    **Arguments:**

    - `ax`: where to draw.
    - `curve`: of each member, see `popsim.analysis.behaviour.chronometric_curve`.
    """
    means, errors = np.atleast_2d(curve.mean), np.atleast_2d(curve.standard_error)
    for index, (mean, error) in enumerate(zip(means, errors, strict=True)):
        color = COLORS[index % len(COLORS)]
        ax.errorbar(curve.coherence, 1000 * mean, 1000 * error, fmt="o-", ms=3, lw=0.9, color=color)
    ax.set(xlabel="coherence", ylabel="time to decide (ms)")
    ax.set_ylim(bottom=0)
    return ax
