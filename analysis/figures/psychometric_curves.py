"""How choices depend on the evidence."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.behaviour import ChoiceShares, LapsingPsychometricFit, PsychometricFit
from popsim.analysis.figures.style import COLORS, reach


def draw_psychometric_curves(
    ax: Axes,
    shares: ChoiceShares,
    fit: PsychometricFit | LapsingPsychometricFit,
    *,
    names: Sequence[str] | None = None,
) -> Axes:
    """The share of choices at each coherence, and the fitted curve, of each member in a colour of its own.

    A bar is one standard error over trials, sqrt(p (1 - p) / n) of the fitted curve.

    **Arguments:**

    - `ax`: where to draw.
    - `shares`: of each member, see `popsim.analysis.behaviour.choice_shares`.
    - `fit`: of the same choices, to one stream of evidence.
    - `names`: of the members, for the legend; by default they are numbered.
    """
    farthest = 1.1 * float(np.abs(shares.coherence).max())
    fine = np.linspace(-farthest, farthest, 201)
    curves, at_levels = (_of_members(fit, coherence) for coherence in (fine, shares.coherence))
    errors = np.sqrt(at_levels * (1 - at_levels) / shares.n_trials)
    points = np.atleast_2d(shares.share)
    for index, (curve, own, error) in enumerate(zip(curves, points, errors, strict=True)):
        color = COLORS[index % len(COLORS)]
        name = f"member {index}" if names is None else names[index]
        ax.plot(fine, curve, color=color, linewidth=0.9, label=name)
        ax.errorbar(shares.coherence, own, error, fmt="o", ms=3, mfc="none", mew=0.8, lw=0.8, color=color)
    ax.axhline(0.5, color="0.8", linewidth=0.6, zorder=0)
    ax.axvline(0.0, color="0.8", linewidth=0.6, zorder=0)
    ax.set(xlabel="coherence", ylabel="share of choices to the right", yticks=[0, 0.5, 1])
    reach(ax, x=(-farthest, farthest), y=(-0.03, 1.03))
    ax.legend(loc="lower right", handlelength=1.2)
    return ax


def _of_members(
    fit: PsychometricFit | LapsingPsychometricFit, coherence: Float[np.ndarray, " level"]
) -> Float[np.ndarray, "member level"]:
    return np.atleast_2d(fit.share_right(coherence[:, None]))
