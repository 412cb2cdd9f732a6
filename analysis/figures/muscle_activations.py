"""What the muscles did."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_muscle_activations(
    ax: Axes, activation: Float[np.ndarray, "time muscle"], *, dt: float, names: Sequence[str] | None = None
) -> Axes:
    """The activation of each muscle over time.

    **Arguments:**

    - `ax`: where to draw.
    - `activation`: from 0 to 1; row t is at time (t + 1) dt.
    - `dt`: the time step in s.
    - `names`: of the muscles; by default they are numbered.
    """
    time = dt * np.arange(1, len(activation) + 1)
    n_muscles = activation.shape[1]
    for index, of_muscle in enumerate(activation.T):
        name = f"muscle {index}" if names is None else names[index]
        ax.plot(time, of_muscle, color=f"C{index}", label=name)
    ax.set(xlabel="time (s)", ylabel="activation")
    reach(ax, x=(0, time[-1]), y=[0])
    ax.legend(ncols=2 if n_muscles > 4 else 1, handlelength=1.2)
    return ax
