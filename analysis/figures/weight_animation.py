"""The weights between units in the course of training, as a film."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim.analysis.arrays import AnyArray
from popsim.analysis.figures.weight_matrix import draw_weight_matrix
from popsim.checks import check_positive


def animate_weight_matrix(
    ax: Axes,
    batch: Int[AnyArray, " batch"],
    weights: Float[Any, "batch row column"],
    *,
    label: str = "weight",
) -> FuncAnimation:
    """`draw_weight_matrix` for each recorded batch, all with the same colours.

    **Arguments:**

    - `ax`: where to draw.
    - `batch`: the numbers of the training batches, for the titles.
    - `weights`: of one member, `run.history["trainables.network.cell.weight_hh"].sel(member=0)`; of a lazy
        array one frame is read at a time.
    - `label`: of the bar of colours.

    **Returns:** the animation; keep it until it is shown or written, see `save_animation`.

    **Raises:** `ValueError` if `batch` and `weights` are not equally many.
    """
    numbers = np.asarray(batch)
    if numbers.shape[0] != weights.shape[0]:
        raise ValueError(f"`batch` must be those of {weights.shape[0]} weights, got {numbers.shape[0]}.")
    limit = max(float(np.abs(np.asarray(weights[row])).max()) for row in range(weights.shape[0])) or 1.0
    draw_weight_matrix(ax, np.asarray(weights[0]), limit=limit, label=label)
    image, title = ax.images[-1], ax.set_title("")

    def show(row: int) -> tuple[Any, Any]:
        image.set_data(np.asarray(weights[row]))
        title.set_text("before training" if numbers[row] < 0 else f"after batch {numbers[row]}")
        return image, title

    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    return FuncAnimation(figure, show, frames=weights.shape[0], interval=100)


def save_animation(animation: FuncAnimation, path: str | Path, *, frames_per_second: float = 10.0) -> Path:
    """Write an animation as a GIF, by pillow, and return its path.

    **Raises:** `ValueError` if `path` does not end with .gif, or `frames_per_second` is not positive.
    """
    if Path(path).suffix != ".gif":
        raise ValueError(f"`path` must end with .gif, got {path}.")
    check_positive("frames_per_second", frames_per_second)
    animation.save(Path(path), writer=PillowWriter(fps=frames_per_second))  # pyright: ignore[reportArgumentType]
    return Path(path)
