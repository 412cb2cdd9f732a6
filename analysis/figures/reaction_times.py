"""Figures of reaction times."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.behaviour import ChronometricCurvesByOutcome, ConditionalAccuracy
from popsim.analysis.figures.style import COLORS, extend_limits

__all__ = ["draw_chronometric_curves_by_outcome", "draw_conditional_accuracy"]


def draw_chronometric_curves_by_outcome(
    ax: Axes, curves: ChronometricCurvesByOutcome, *, names: Sequence[str] | None = None
) -> Axes:
    """Draw the mean reaction time in each condition, correct ones solid and errors dashed.

    Bars are standard errors over trials; there are none for a single response. Each member has a colour.

    **Arguments:**

    - `curves`: those of each member, see `popsim.analysis.behaviour.chronometric_curves_by_outcome`.
    - `names`: names of the members, for the legend. By default they are numbered.
    """
    for curve, line, face in ((curves.correct, "o-", None), (curves.error, "o--", "white")):
        means, errors = np.atleast_2d(curve.mean), np.atleast_2d(curve.standard_error)
        for index, (mean, error) in enumerate(zip(means, errors, strict=True)):
            ax.errorbar(
                curve.coherence,
                1000 * mean,
                1000 * error,
                fmt=line,
                ms=3,
                mfc=face,
                lw=0.9,
                color=COLORS[index % len(COLORS)],
                label=_name(names, index) if curve is curves.correct else None,
            )
    ax.plot([], [], "o--", ms=3, mfc="white", lw=0.9, color="0.4", label="errors")
    ax.set(xlabel="condition", ylabel="reaction time (ms)")
    extend_limits(ax, y=[0])
    ax.legend(loc="lower center", ncols=2, handlelength=1.2)
    return ax


def draw_conditional_accuracy(
    ax: Axes, accuracy: ConditionalAccuracy, *, names: Sequence[str] | None = None
) -> Axes:
    """Draw the accuracy of fast to slow responses with standard errors over trials, a colour per member.

    **Arguments:**

    - `accuracy`: that of each member, see `popsim.analysis.behaviour.conditional_accuracy`.
    - `names`: names of the members, for the legend. By default they are numbered.
    """
    columns = (
        np.atleast_2d(values) for values in (accuracy.time, accuracy.accuracy, accuracy.standard_error)
    )
    for index, (time, share, error) in enumerate(zip(*columns, strict=True)):
        color = COLORS[index % len(COLORS)]
        ax.errorbar(1000 * time, share, error, fmt="o-", ms=3, lw=0.9, color=color, label=_name(names, index))
    ax.set(xlabel="reaction time (ms)", ylabel="share of correct responses")
    extend_limits(ax, x=[0], y=(0, 1.03))
    ax.legend(loc="lower right", handlelength=1.2)
    return ax


def _name(names: Sequence[str] | None, index: int) -> str:
    return f"member {index}" if names is None else names[index]
