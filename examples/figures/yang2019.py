"""The figure of `yang2019.py`: performance, clusters of units, what their loss harms, and sums of rules."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from popsim.analysis.neural_activity import UnitClusters

COLORS = {"softplus": "#0072B2", "tanh": "#D55E00", "untrained": "0.6"}  # Okabe & Ito


@dataclasses.dataclass(frozen=True)
class NetworkAnalysis:
    """What was found in one network.

    - `performance` [rule]: fractions of trials that are right.
    - `variance` [unit, rule]: the task variance of its units.
    - `clusters`: of its units, by task variance.
    - `states` [unit]: by rule, the mean rates at the end of the first stimulus.
    """

    performance: np.ndarray
    variance: np.ndarray
    clusters: UnitClusters
    states: Mapping[str, np.ndarray]


def draw_figure(
    folder: Path,
    analyses: Mapping[str, NetworkAnalysis],
    rules: Sequence[str],
    permuted: Sequence[UnitClusters],
    harm: np.ndarray,
    square: Sequence[tuple[str, str]],
    sums: Mapping[str, Mapping[str, float]],
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `analyses`: networks, by "softplus", "tanh" and "untrained".
    - `rules`: their names in the order of the numbers.
    - `permuted`: clusters of softplus units of which the rules are permuted, in several draws.
    - `harm` [cluster, rule]: by how much performance falls without a cluster of softplus units.
    - `square`: two pairs of rules, whose states are drawn with an arrow from the first to the second.
    - `sums`: by rule, the performance by the rule inputs; its own first, the right sum second.

    **Returns:** the files.
    """
    softplus = analyses["softplus"]
    with figure_style():
        figure = plt.figure(figsize=(7.4, 5.4), layout="constrained")
        (top,), (bottom,) = figure.subfigures(2, 1, squeeze=False, height_ratios=[1.25, 1])
        by_rule = top.subplots(1, 3, sharey=True, width_ratios=[0.8, 1.3, 1.1])
        draw_performance(by_rule[0], analyses, rules)
        draw_units(by_rule[1], softplus.clusters)
        draw_harm(by_rule[2], harm)
        others = bottom.subplots(1, 3, width_ratios=[1, 1, 0.8])
        draw_silhouettes(others[0], analyses, permuted)
        draw_states(others[1], softplus.states, square)
        draw_sums(others[2], sums)
        for letter, ax in zip("abcdef", (*by_rule, *others), strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "yang2019")
        plt.close(figure)
    return files


def draw_performance(ax: Axes, analyses: Mapping[str, NetworkAnalysis], rules: Sequence[str]) -> None:
    """The performance of the networks in each rule."""
    for kind, marker in (("tanh", "o"), ("softplus", ".")):
        of_kind = analyses[kind].performance
        ax.plot(100 * of_kind, range(len(rules)), marker, ms=5, mfc="none", color=COLORS[kind], label=kind)
    ax.axvline(90, color="0.6", lw=0.8, ls=(0, (3, 3)), zorder=0)
    ax.set_yticks(range(len(rules)), rules, fontsize=6)
    ax.set(xlim=(0, 104), ylim=(len(rules) - 0.5, -0.5), xlabel="Trials that are right (%)")
    ax.legend(loc="lower right", bbox_to_anchor=(1.05, 0.98), ncols=2, handlelength=0.6, columnspacing=0.6)


def draw_units(ax: Axes, clusters: UnitClusters) -> None:
    """The normalized variance of all active units in each rule, by cluster."""
    labels = clusters.labels[clusters.best]
    order = np.argsort(labels, kind="stable")
    image = ax.imshow(
        clusters.normalized[order].T, aspect="auto", cmap="magma", vmin=0, vmax=1, interpolation="none"
    )
    for border in np.flatnonzero(np.diff(labels[order])) + 0.5:
        ax.axvline(border, color="w", lw=0.6)
    ax.set(xlabel="Unit, by cluster")
    ax.figure.colorbar(image, ax=ax, label="Variance / maximum", shrink=0.8, pad=0.02)


def draw_silhouettes(
    ax: Axes, analyses: Mapping[str, NetworkAnalysis], permuted: Sequence[UnitClusters]
) -> None:
    """The mean silhouette for each number of clusters, and the same of permuted rules."""
    for kind, analysis in analyses.items():
        found, best = analysis.clusters, analysis.clusters.best
        ax.plot(found.n_clusters, found.silhouettes, color=COLORS[kind], lw=1.2, label=kind)
        ax.plot(found.n_clusters[best], found.silhouettes[best], "o", ms=4, color=COLORS[kind])
    for number, found in enumerate(permuted):
        label = None if number else "rules permuted"
        ax.plot(found.n_clusters, found.silhouettes, color=COLORS["softplus"], lw=0.8, ls=":", label=label)
    room = 1.4  # of the highest value, for the legend
    ax.set(xlabel="Number of clusters", ylabel="Silhouette", ylim=(0, room * ax.dataLim.ymax))
    ax.legend(loc="upper right", handlelength=1.2, labelspacing=0.2)


def draw_states(ax: Axes, states: Mapping[str, np.ndarray], square: Sequence[tuple[str, str]]) -> None:
    """The mean states of four rules in the plane of most variance."""
    names = [name for pair in square for name in pair]
    values = np.stack([states[name] for name in names])
    centred = values - values.mean(axis=0)
    planar = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    places = dict(zip(names, planar, strict=True))
    for number, (start, end) in enumerate(square):
        color = ("#009E73", "#CC79A7")[number]
        ax.annotate(
            "", places[end], places[start], arrowprops={"arrowstyle": "->", "color": color, "lw": 1.2}
        )
        for name, other in ((start, end), (end, start)):
            ax.plot(*places[name], "o", ms=4, color=color)
            side = np.sign(places[name][1] - places[other][1])  # beyond the end of the arrow
            ax.annotate(
                name,
                places[name],
                xytext=(0, 8 * side),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=6,
            )
    ax.margins(0.25)
    ax.set(xlabel="Component 1", ylabel="Component 2")


def draw_harm(ax: Axes, harm: np.ndarray) -> None:
    """By how much performance falls in each rule without each cluster."""
    image = ax.imshow(-100 * harm.T, aspect="auto", cmap="RdBu", vmin=-100, vmax=100, interpolation="none")
    ticks = range(0, len(harm), 5)
    ax.set_xticks(ticks, [str(number + 1) for number in ticks])
    ax.set(xlabel="Cluster that is lost")
    ax.figure.colorbar(image, ax=ax, label="Change (points)", shrink=0.8, pad=0.02)


def draw_sums(ax: Axes, sums: Mapping[str, Mapping[str, float]]) -> None:
    """The performance in two rules by the rule inputs."""
    place, places, labels = 0, [], []
    for rule, by_inputs in sums.items():
        for number, (name, value) in enumerate(by_inputs.items()):
            color = "0.3" if number == 0 else COLORS["softplus"] if number == 1 else "0.8"
            ax.barh(place, 100 * value, color=color, height=0.7)
            places.append(place)
            labels.append(f"own rule: {rule}" if number == 0 else name)
            place += 1
        place += 1
    ax.set_yticks(places, labels, fontsize=5)
    ax.invert_yaxis()
    ax.set(xlim=(0, 102), xlabel="Trials that are right (%)")
