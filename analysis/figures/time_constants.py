"""How long the modes of a network remember."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

from popsim.analysis.figures.fixed_points import KIND_COLORS, unstable_label


def draw_time_constants(
    ax: Axes,
    time_constants: Float[np.ndarray, "point mode"],
    n_unstable: Int[np.ndarray, " point"],
    *,
    n_modes: int = 12,
) -> Axes:
    """The time constants of the slowest modes at some points, a line for each point.

    Modes that grow, whose time constants are negative, are drawn as open circles at the time in which they
    grow by e; infinite ones are left out.

    **Arguments:**

    - `ax`: where to draw.
    - `time_constants`: in s, see `popsim.analysis.dynamics.time_constants`.
    - `n_unstable`: how many unstable directions each point has; 4 and more look alike. Colours are those
        of `draw_fixed_points`.
    - `n_modes`: how many modes to draw, the slowest first.
    """
    for tau, kind in zip(time_constants, np.minimum(n_unstable, len(KIND_COLORS) - 1), strict=True):
        slowest = tau[np.argsort(-np.where(np.isfinite(tau), np.abs(tau), 0), kind="stable")][:n_modes]
        milliseconds = np.where(np.isfinite(slowest) & (slowest != 0), 1e3 * np.abs(slowest), np.nan)
        rank = np.arange(1, len(slowest) + 1)
        ax.plot(rank, milliseconds, color=KIND_COLORS[kind], lw=0.5, alpha=0.5)
        grows = slowest < 0
        ax.plot(rank[~grows], milliseconds[~grows], ".", color=KIND_COLORS[kind], ms=3)
        ax.plot(rank[grows], milliseconds[grows], "o", mfc="white", mec=KIND_COLORS[kind], ms=4, mew=0.8)
    for kind in np.unique(np.minimum(n_unstable, len(KIND_COLORS) - 1)):
        label = "stable points" if kind == 0 else unstable_label(kind)
        ax.plot([], [], ".-", color=KIND_COLORS[kind], ms=3, lw=0.5, label=label)
    if np.any(time_constants < 0):
        ax.plot([], [], "o", mfc="white", mec="0.3", ms=4, mew=0.8, label="grows")
    ax.set(yscale="log", xlabel="mode, slowest first", ylabel="time constant (ms)")
    for which in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        which(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.6)))
    ax.legend(borderaxespad=0.2, labelspacing=0.3)
    return ax
