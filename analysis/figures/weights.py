"""Figures of weights, and of networks of several areas."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Complex, Float, Int
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import LogFormatter

from popsim.analysis._arrays import AnyArray, Batches, MemberCourses, check_axes, finite_float64
from popsim.analysis.figures.style import draw_band, draw_signed_map, extend_limits

__all__ = [
    "draw_weight_matrix",
    "animate_weight_matrix",
    "draw_weight_history",
    "draw_change_spectrum",
    "draw_recurrent_eigenvalues",
    "draw_area_activity",
    "draw_area_weights",
]


def draw_weight_matrix(
    ax: Axes, weights: Float[AnyArray, "row column"], *, limit: float | None = None, label: str = "weight"
) -> Axes:
    """Draw weights, or their change, as a heat map on a diverging colour map that is white at zero.

    **Arguments:**

    - `weights`: [post, pre].
    - `limit`: magnitude of the darkest colours; None for the largest magnitude.
    """
    draw_signed_map(ax, finite_float64("weights", weights), label=label, limit=limit)
    ax.set(xlabel="from unit", ylabel="to unit")
    return ax


def animate_weight_matrix(
    ax: Axes, batch: Batches, weights: Float[Any, "batch row column"], *, label: str = "weight"
) -> FuncAnimation:
    """Animate `draw_weight_matrix` over the recorded batches, all with the same colours.

    **Arguments:**

    - `weights`: of one member, `run.history["trainables.network.cell.weight_hh"].sel(member=0)`; a lazy array
        is read one frame at a time.

    **Returns:** the animation; keep a reference until it is shown or saved, see `save_animation`.
    """
    numbers = np.asarray(batch)
    check_axes("batch", numbers, f"batch={weights.shape[0]}")
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


def draw_weight_history(
    ax: Axes, batch: Batches, values: MemberCourses, *, label: str, color: str = "#0072B2"
) -> Axes:
    """Draw a distance or a norm over training batches: the median over members, and a band over all members.

    The axis of batches is logarithmic and omits a row before training (batch -1), and members where NaN.

    **Arguments:**

    - `batch`: such as `run.history.trainables_batch.values`.
    - `values`: such as `distance_from_start(run.history.dataset)[name].relative`.
    """
    n_batches, numbers = np.asarray(batch) + 1, np.asarray(values, np.float64)
    shown = (n_batches > 0) & np.any(np.isfinite(numbers), axis=1)
    x, y = n_batches[shown], numbers[shown]
    course = np.nanmedian(y, axis=1), np.nanmin(y, axis=1), np.nanmax(y, axis=1)
    draw_band(ax, x, course, color=color, label=label)
    ax.set(xlabel="training batch", ylabel="distance", xscale="log")
    extend_limits(ax, y=[0])
    for set_formatter in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
        set_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))
    return ax


def draw_change_spectrum(
    ax: Axes,
    singular_values: Float[AnyArray, "member mode"],
    null: Float[AnyArray, "draw mode"],
    *,
    color: str = "#0072B2",
) -> Axes:
    """Draw the share of each mode in the squared change: a line per member, random matrices as a band.

    **Arguments:**

    - `singular_values`: such as `change_singular_values(weights)[-1]`.
    - `null`: `gaussian_singular_values` of the same shape; the band spans all draws.
    """
    shares, null_shares = (
        _shares(name, x) for name, x in (("singular_values", singular_values), ("null", null))
    )
    mode = np.arange(1, shares.shape[1] + 1)
    ax.fill_between(mode, null_shares.min(axis=0), null_shares.max(axis=0), color="0.7", linewidth=0)
    ax.plot(mode, null_shares.mean(axis=0), color="0.4", label="Gaussian matrices, same shape")
    lines = ax.plot(mode, shares.T, color=color, linewidth=0.8, marker=".", markersize=3)
    lines[0].set_label("members")
    ax.set(xlabel="singular mode", ylabel="share of squared change", yscale="log")
    ax.legend()
    return ax


def _shares(name: str, values: AnyArray) -> np.ndarray:
    squares = finite_float64(name, values) ** 2
    return squares / squares.sum(axis=-1, keepdims=True)


def draw_recurrent_eigenvalues(
    ax: Axes, batch: Batches, eigenvalues: Complex[AnyArray, "batch unit"]
) -> Axes:
    """Draw the eigenvalues of one member, coloured by training batch, with the unit circle.

    **Arguments:**

    - `eigenvalues`: such as `recurrent_eigenvalues(weights)[:, member]`.
    """
    values = np.asarray(eigenvalues)
    n_batches = np.maximum(np.asarray(batch) + 1, 1)
    ax.add_patch(Circle((0, 0), 1.0, fill=False, color="0.4", linewidth=0.8))
    dots = ax.scatter(
        np.real(values),
        np.imag(values),
        c=np.broadcast_to(n_batches[:, None], values.shape),
        s=4,
        cmap="viridis",
        norm=LogNorm(vmin=n_batches.min(), vmax=max(n_batches.max(), n_batches.min() + 1)),
        linewidths=0,
    )
    ax.set(xlabel="real part", ylabel="imaginary part", aspect="equal")
    ax.figure.colorbar(dots, ax=ax, label="training batch")
    return ax


Groups = Mapping[str, Int[np.ndarray, " _"]]
LINE = {"color": "k", "linewidth": 0.6}


def draw_area_activity(
    ax: Axes, hidden: Float[AnyArray, "time unit"], areas: Groups, *, dt: float, label: str = "activity"
) -> Axes:
    """Draw the activity of the units of each area as a heat map, with lines and labels between areas.

    The units of an area are sorted by the time of their largest magnitude. A colour bar is added.

    **Arguments:**

    - `areas`: units of each area, from the top: groups of `network.unit_groups()` that do not overlap.
    """
    values = finite_float64("hidden", hidden, "time unit")
    units = _checked_areas(areas)
    peak = np.argmax(np.abs(values), axis=0)
    order = np.concatenate([numbers[np.argsort(peak[numbers], kind="stable")] for numbers in units.values()])
    extent = (0, len(values) * dt, len(order) - 0.5, -0.5)
    draw_signed_map(ax, values[:, order].T, label=label, extent=extent)
    for border in _borders(units)[1:-1]:
        ax.axhline(border, **LINE)
    ax.set_yticks(_centers(units), list(units))
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="time (s)", ylabel="area (units by time of peak)")
    return ax


def draw_area_weights(
    ax: Axes,
    weights: Float[AnyArray, "post pre"],
    areas: Groups,
    *,
    limit: float | None = None,
    label: str = "weight",
) -> Axes:
    """Draw recurrent weights as a heat map in blocks, with lines and labels between areas.

    A block has the weights from the area below it to the area beside it.
    """
    values = finite_float64("weights", weights, "unit unit")
    units = _checked_areas(areas)
    order = np.concatenate(list(units.values()))
    draw_signed_map(ax, values[np.ix_(order, order)], label=label, limit=limit)
    for border in _borders(units)[1:-1]:
        ax.axhline(border, **LINE)
        ax.axvline(border, **LINE)
    ax.set_xticks(_centers(units), list(units))
    ax.set_yticks(_centers(units), list(units))
    ax.tick_params(length=0)
    ax.set(xlabel="from area", ylabel="to area")
    return ax


def _checked_areas(areas: Groups) -> dict[str, Int[np.ndarray, " _"]]:
    units = {name: np.asarray(numbers) for name, numbers in areas.items()}
    together = np.concatenate(list(units.values()))
    if np.unique(together).size < together.size:
        raise ValueError(
            f"`areas` must not overlap, got {', '.join(map(repr, units))}: choose among the groups of the "
            "network."
        )
    return units


def _borders(units: Groups) -> Float[np.ndarray, " border"]:
    return np.cumsum([0, *(numbers.size for numbers in units.values())]) - 0.5


def _centers(units: Groups) -> Float[np.ndarray, " area"]:
    borders = _borders(units)
    return (borders[:-1] + borders[1:]) / 2
