"""Figures of a population that trains itself: who descended from whom, and the schedules discovered."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from popsim.analysis._arrays import AnyArray
from popsim.analysis.figures.style import COLORS, extend_limits
from popsim.training import ancestors

__all__ = ["draw_genealogy", "draw_discovered_schedules"]


def draw_genealogy(
    ax: Axes,
    batch: Int[np.ndarray, " selection"],
    parent: Int[np.ndarray, "selection member"],
    *,
    best: int | None = None,
) -> Axes:
    """Draw a line for each member, which leaves that of another where it took its weights.

    Lines whose weights live on at the end are dark, others light.

    **Arguments:**

    - `batch`: the batches after which members were selected, as `history.updates["selection"]["batch"]`.
    - `parent`: the place of the member whose weights each member took, as
        `history.updates["selection"]["parent"]`.
    - `best`: a member whose line of descent is drawn in colour.
    """
    n_selections, n_members = parent.shape
    line = np.concatenate([ancestors(parent), np.arange(n_members)[None]])
    alive = [set(places) for places in line.tolist()]
    x = np.concatenate([[0], batch + 1])
    width = float(np.diff(x).mean()) if n_selections else 1.0
    ends = np.append(x, x[-1] + width)
    for row in range(n_selections + 1):
        for member in range(n_members):
            color = "0.35" if member in alive[row] else "0.85"
            ax.plot(ends[row : row + 2], [member, member], color=color, lw=1.0, zorder=2)
            if row < n_selections and parent[row, member] != member:
                living = member in alive[row + 1]
                ax.plot(
                    [ends[row + 1]] * 2,
                    [parent[row, member], member],
                    color="0.35" if living else "0.85",
                    lw=0.8,
                    zorder=2 if living else 1,
                )
    if best is not None:
        best_line = line[:, best]
        ax.step(ends, np.append(best_line, best_line[-1]), where="post", color=COLORS[5], lw=2.0, zorder=3)
    ax.set(xlabel="training batch", ylabel="member")
    extend_limits(ax, x=(0, float(ends[-1])), y=(-0.5, n_members - 0.5))
    return ax


def draw_discovered_schedules(
    ax: Axes,
    batch: Int[AnyArray, " selection"],
    values: Float[AnyArray, "selection member"],
    parent: Int[AnyArray, "selection member"],
    *,
    label: str,
    start: Float[AnyArray, " member"] | None = None,
    best: int | None = None,
) -> Axes:
    """Draw a hyperparameter over training as the members at the end have inherited it.

    **Arguments:**

    - `batch`, `parent`: see `draw_genealogy`.
    - `values`: the hyperparameter of each member after each selection, as
        `history.updates["selection"]["hyperparameter." + name]`.
    - `label`: the name of the hyperparameter, with its unit.
    - `start`: its values at the start of training.
    - `best`: a member whose schedule is drawn in colour.
    """
    parent = np.asarray(parent)
    n_selections, n_members = parent.shape
    line = ancestors(parent)
    after = np.concatenate([line[1:], np.arange(n_members)[None]]) if n_selections else line
    inherited = np.take_along_axis(values, after, axis=1)
    x = batch + 1
    if start is not None:
        inherited = np.concatenate([np.asarray(start)[line[:1]], inherited])
        x = np.append(0, x)
    width = float(np.diff(x).mean()) if x.size > 1 else 1.0
    x, inherited = np.append(x, x[-1] + width), np.concatenate([inherited, inherited[-1:]])
    for member in np.setdiff1d(np.arange(n_members), [-1 if best is None else best]):
        ax.step(x, inherited[:, member], where="post", color="0.7", lw=0.8)
    if best is not None:
        ax.step(x, inherited[:, best], where="post", color=COLORS[5], lw=2.0)
    if np.all(values > 0):
        ax.set_yscale("log")
    ax.set(xlabel="training batch", ylabel=label)
    extend_limits(ax, x=(0, float(x[-1])))
    return ax
