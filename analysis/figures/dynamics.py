"""Figures of dynamics."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Complex, Float, Int
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.ticker import LogFormatter

from popsim.analysis.figures.style import extend_limits

__all__ = ["draw_fixed_points", "draw_phase_portrait", "draw_jacobian_eigenvalues", "draw_time_constants"]

# Black, red, green and blue as in Maheswaranathan et al. 2019, in the hues of Okabe & Ito.
KIND_COLORS = ("#000000", "#D55E00", "#009E73", "#0072B2", "#CC79A7")
KIND_MARKERS = ("o", "^", "s", "*", "D")


def kind_label(kind: int) -> str:
    """Return the legend label of a kind, the number of unstable directions capped at the last colour."""
    if kind == 0:
        return "stable"
    return f"{kind} or more unstable" if kind == len(KIND_COLORS) - 1 else f"{kind} unstable"


def iterate_kinds(
    n_unstable: Int[np.ndarray, " point"],
) -> Iterator[tuple[int, Bool[np.ndarray, " point"], str]]:
    """Yield each kind among the points, a mask of the points of that kind, and its colour."""
    shown = np.minimum(n_unstable, len(KIND_COLORS) - 1)
    for kind in np.unique(shown).tolist():
        yield kind, shown == kind, KIND_COLORS[kind]


def _draw_kind_legend(ax: Axes) -> None:
    """Draw the legend above the axes, in a single row unless kinds are many, else from left to right."""
    entries = [*zip(*ax.get_legend_handles_labels(), strict=True)]
    n_columns = len(entries) if len(entries) < len(KIND_COLORS) else 3
    # Matplotlib fills one column after the other.
    by_column = [entry for column in range(n_columns) for entry in entries[column::n_columns]]
    columns = {"ncols": n_columns, "columnspacing": 0.8}
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
    ax.legend(*zip(*by_column, strict=True), handlelength=1, handletextpad=0.2, **columns, **place)


def draw_fixed_points(
    ax: Axes,
    points: Float[np.ndarray, "point axis"],
    n_unstable: Int[np.ndarray, " point"],
    *,
    paths: Float[np.ndarray, "path time axis"] | None = None,
) -> Axes:
    """Draw fixed points by their number of unstable directions, over thin paths of visited states.

    After figure 1 of Maheswaranathan et al. 2019, NeurIPS 32:15629.

    **Arguments:**

    - `ax`: axes to draw into; with `projection="3d"` for three dimensions.
    - `points`: points in two or three dimensions, such as principal components of the visited states.
    - `n_unstable`: number of unstable directions of each, `FixedPoints.n_unstable`; 4 and more look the same.
    - `paths`: paths of visited states, in the same dimensions.
    """
    n_dimensions = 3 if ax.name == "3d" else 2
    if points.shape != (len(n_unstable), n_dimensions):
        raise ValueError(f"`points` must have shape {(len(n_unstable), n_dimensions)}, got {points.shape}.")
    for path in () if paths is None else paths:
        ax.plot(*path.T, color="0.75", lw=0.4, zorder=1)
    solid = {"depthshade": False} if n_dimensions == 3 else {}
    for kind, is_kind, color in iterate_kinds(n_unstable):
        look: Any = {"s": 26 if KIND_MARKERS[kind] == "*" else 12, "marker": KIND_MARKERS[kind], **solid}
        ax.scatter(*points[is_kind].T, color=color, linewidths=0, zorder=3, label=kind_label(kind), **look)
    for number, letter in enumerate("xyz"[:n_dimensions], start=1):
        ax.set(**{f"{letter}label": f"component {number}"})
    _draw_kind_legend(ax)
    return ax


def draw_phase_portrait(
    ax: Axes,
    x: Float[np.ndarray, " column"],
    y: Float[np.ndarray, " row"],
    velocity: Float[np.ndarray, "row column 2"],
    *,
    points: Float[np.ndarray, "point 2"] | None = None,
    n_unstable: Int[np.ndarray, " point"] | None = None,
    paths: Float[np.ndarray, "path time 2"] | None = None,
) -> Axes:
    """Draw the flow in a plane as lines with arrows, coloured by speed, with fixed points and visited states.

    A colour bar is added beside the axes.

    **Arguments:**

    - `x`, `y`, `velocity`: those of one member in a `PhasePlane`, evenly spaced.
    - `points`: fixed points of the member in the plane, such as `plane.project(states)[member]`.
    - `n_unstable`: their unstable directions, as for `draw_fixed_points`; None for a ring at each.
    """
    for path in () if paths is None else paths:
        ax.plot(*path.T, color="0.5", lw=0.6, zorder=1)
    look: Any = {"cmap": "viridis", "linewidth": 0.7, "arrowsize": 0.6, "zorder": 2}
    speed = np.linalg.norm(velocity, axis=-1)
    stream = ax.streamplot(x, y, *np.moveaxis(velocity, -1, 0), color=speed, **look)
    if points is not None and n_unstable is not None:
        draw_fixed_points(ax, points, n_unstable)
    elif points is not None:
        ax.plot(*points.T, "o", color="k", mfc="white", ms=4, mew=0.8, ls="none", zorder=3)
    ax.set(xlabel="first axis of the plane", ylabel="second axis", aspect="equal")
    extend_limits(ax, x=(x[0], x[-1]), y=(y[0], y[-1]))
    ax.figure.colorbar(stream.lines, ax=ax, label="speed (1/s)")
    return ax


def draw_jacobian_eigenvalues(
    ax: Axes, eigenvalues: Complex[np.ndarray, "point mode"], n_unstable: Int[np.ndarray, " point"]
) -> Axes:
    """Draw the eigenvalues of the Jacobians at points in the complex plane, with the unit circle.

    Modes inside the circle decay, those outside grow; the angle is the rotation of a mode per time step.

    **Arguments:**

    - `eigenvalues`: of the Jacobian of one time step at each point, such as `FixedPoints.eigenvalues`.
    - `n_unstable`: number of unstable directions of each point, in the colours of `draw_fixed_points`.
    """
    ax.add_patch(Circle((0, 0), 1, fill=False, color="0.5", lw=0.7, zorder=0))
    ax.axhline(0, color="0.85", lw=0.5, zorder=0)
    for kind, is_kind, color in iterate_kinds(n_unstable):
        values, size = eigenvalues[is_kind].ravel(), 12 if KIND_MARKERS[kind] == "*" else 5
        look: Any = {"marker": KIND_MARKERS[kind], "linewidths": 0, "alpha": 0.6, "label": kind_label(kind)}
        ax.scatter(np.real(values), np.imag(values), s=size, color=color, **look)
    ax.set_aspect("equal")
    farthest = 1.08 * max(1.0, float(np.abs(eigenvalues).max(initial=0)))
    extend_limits(ax, x=(-farthest, farthest), y=(-farthest, farthest))
    ax.set(xlabel="real part of eigenvalue", ylabel="imaginary part")
    ax.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    _draw_kind_legend(ax)
    return ax


def draw_time_constants(
    ax: Axes,
    time_constants: Float[np.ndarray, "point mode"],
    n_unstable: Int[np.ndarray, " point"],
    *,
    n_modes: int = 12,
) -> Axes:
    """Draw the time constants of the slowest modes at points, with a line for each point.

    Growing modes, whose time constants are negative, are open circles at the time in which they grow by e;
    infinite time constants are omitted.

    **Arguments:**

    - `time_constants`: in s, see `popsim.analysis.dynamics.time_constants`.
    """
    for tau, kind in zip(time_constants, np.minimum(n_unstable, len(KIND_COLORS) - 1), strict=True):
        slowest = tau[np.argsort(-np.where(np.isfinite(tau), np.abs(tau), 0), kind="stable")][:n_modes]
        milliseconds = np.where(np.isfinite(slowest) & (slowest != 0), 1e3 * np.abs(slowest), np.nan)
        rank = np.arange(1, len(slowest) + 1)
        ax.plot(rank, milliseconds, color=KIND_COLORS[kind], lw=0.5, alpha=0.5)
        grows = slowest < 0
        ax.plot(rank[~grows], milliseconds[~grows], ".", color=KIND_COLORS[kind], ms=3)
        ax.plot(rank[grows], milliseconds[grows], "o", mfc="white", mec=KIND_COLORS[kind], ms=4, mew=0.8)
    for kind, _, color in iterate_kinds(n_unstable):
        ax.plot([], [], ".-", color=color, ms=3, lw=0.5, label=kind_label(kind))
    if np.any(time_constants < 0):
        ax.plot([], [], "o", mfc="white", mec="0.3", ms=4, mew=0.8, label="grows")
    ax.set(yscale="log", xlabel="mode, slowest first", ylabel="time constant (ms)")
    for set_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        set_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.6)))
    ax.legend(borderaxespad=0.2, labelspacing=0.3)
    return ax
