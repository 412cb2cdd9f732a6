"""How long decisions took."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.behaviour import ChronometricCurve
from popsim.analysis.figures.style import COLORS, reach


def draw_chronometric_curves(
    ax: Axes, curve: ChronometricCurve, *, names: Sequence[str] | None = None
) -> Axes:
    """Mean decision time at each coherence, of each member in a colour of its own, with standard errors.

    The errors are over trials.

    **Arguments:**

    - `ax`: where to draw.
    - `curve`: of each member, see `popsim.analysis.behaviour.chronometric_curve`.
    - `names`: of the members, for the legend; by default they are numbered.
    """
    means, errors = np.atleast_2d(curve.mean), np.atleast_2d(curve.standard_error)
    for index, (mean, error) in enumerate(zip(means, errors, strict=True)):
        color = COLORS[index % len(COLORS)]
        name = f"member {index}" if names is None else names[index]
        points = (curve.coherence, 1000 * mean, 1000 * error)
        ax.errorbar(*points, fmt="o-", ms=3, lw=0.9, color=color, label=name)
    ax.set(xlabel="coherence", ylabel="time to decide (ms)")
    reach(ax, y=[0])
    ax.legend(loc="lower center", ncols=2, handlelength=1.2)
    return ax
