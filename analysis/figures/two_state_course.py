"""What a fast and a slow process make of a protocol."""

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach
from popsim.analysis.learning import TwoStateCourse


def draw_two_state_course(
    ax: Axes,
    measured: Float[np.ndarray, "trial member"],
    course: TwoStateCourse,
    perturbation: Float[np.ndarray, " trial"],
    is_error_clamp: Bool[np.ndarray, " trial"],
) -> Axes:
    """Measured adaptation, and the fast state, the slow state and their sum in a fitted model.

    Measurements are dots, the mean over members; the model's states are those of each trial, the mean over
    members of their models. The perturbation is grey, and error clamps are shaded.

    **Arguments:**

    - `ax`: where to draw.
    - `measured`: the adaptation of each member, NaN where it was not measured.
    - `course`: see `popsim.analysis.learning.simulate_two_states`; of one member or of several.
    - `perturbation`, `is_error_clamp`: the protocol.
    """
    trial = np.arange(1, len(measured) + 1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_error_clamp.astype(int), [0]])))
    for first, end in edges.reshape(-1, 2):
        ax.axvspan(first + 0.5, end + 0.5, color="0.93", linewidth=0, zorder=0)
    ax.step(trial, perturbation, where="mid", color="0.65", linewidth=0.8, label="perturbation")
    known = np.isfinite(measured)
    mean = np.where(known, measured, 0.0).sum(axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    ax.plot(trial, mean, ".", color="0.35", markersize=2.5, label="measured")
    looks = {"fast": ("#E69F00", (0, (3, 1))), "slow": ("#0072B2", (0, (5, 1.5))), "sum": ("black", "-")}
    for (name, (color, dashes)), states in zip(
        looks.items(), (course.fast, course.slow, course.adaptation), strict=True
    ):
        own = states[:-1].reshape(len(trial), -1).mean(axis=1)
        ax.plot(trial, own, color=color, linestyle=dashes, label=name)
    ax.set(xlabel="trial", ylabel="adaptation")
    reach(ax, x=(1, len(trial)))
    ax.legend(ncols=2, handlelength=1.6, columnspacing=1.0)
    return ax
