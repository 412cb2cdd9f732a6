"""Draw the pictures of the concept pages: `python docs/concepts/draw.py` writes them into `drawings/` here.

Lines and text are mid-grey on a transparent background, so that they can be read on light and dark pages.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from popsim.analysis.figures import STYLE_SHEET

FOLDER = Path(__file__).parent / "drawings"
GREY = "#7c7c7c"
BLUE, ORANGE, GREEN = "#2e8bc9", "#d98500", "#1f9e77"  # those of the style, for both backgrounds


def box(axes: Axes, center: tuple[float, float], text: str, *, color: str = GREY, width: float = 1.7) -> None:
    """Draw a framed word; `width` is in the units of the axes."""
    x, y = center
    frame = FancyBboxPatch(
        (x - width / 2, y - 0.21), width, 0.42, boxstyle="round,pad=0.02", fill=False, ec=color, lw=1.2
    )
    axes.add_patch(frame)
    axes.text(x, y, text, ha="center", va="center", color=color)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0) -> None:
    """Draw an arrow, bent by a fraction of its length."""
    style = {"arrowstyle": "-|>", "color": GREY, "lw": 1.0, "connectionstyle": f"arc3,rad={bend}"}
    axes.annotate("", end, start, arrowprops=style | {"shrinkA": 2, "shrinkB": 2})


def note(axes: Axes, x: float, y: float, text: str, *, color: str = GREY, align: str = "center") -> None:
    """Write a small text."""
    axes.text(x, y, text, ha=align, va="center", color=color, size=7)


def draw_trial(axes: Axes) -> None:
    """Draw the inputs, the targets, the epochs and the events of a delayed reach."""
    time = np.linspace(0, 1.5, 301)
    shown, go = time >= 0.1, time >= 0.6
    rows = (
        ("input “target”", shown, BLUE),
        ("input “target shown”", shown, BLUE),
        ("input “go cue”", go, BLUE),
        ("target of the hand", go, ORANGE),
    )
    for row, (name, values, color) in enumerate(rows):
        base = 3.0 - 0.62 * row
        axes.plot(time, base + 0.36 * values, color=color)
        note(axes, -0.04, base + 0.16, name, color=color, align="right")
    for begin, end, name in ((0, 0.1, "hold"), (0.1, 0.6, "delay"), (0.6, 1.5, "movement")):
        axes.plot([begin + 0.01, end - 0.01], [0.62, 0.62], color=GREEN, lw=3)
        note(axes, (begin + end) / 2, 0.42, name, color=GREEN)
    note(axes, -0.04, 0.6, "epochs", color=GREEN, align="right")
    for moment, name in ((0.1, "target on"), (0.6, "go cue")):
        axes.plot([moment, moment], [0.62, 3.5], color=GREY, lw=0.8, ls=":")
        note(axes, moment, 3.65, name)
    axes.annotate("", (1.53, 0.1), (0, 0.1), arrowprops={"arrowstyle": "-|>", "color": GREY, "lw": 1.0})
    note(axes, 0.75, -0.1, "time: n_steps steps of dt seconds")
    axes.set(xlim=(-0.62, 1.55), ylim=(-0.25, 3.8))


def draw_state(axes: Axes) -> None:
    """Draw the stages of one time step of a sensorimotor loop, and what each writes into the state."""
    stages = (
        ("sense", "feedback", "channels: delay, noise"),
        ("think", "network.hidden, .output", "the network"),
        ("act", "command", "motor noise"),
        ("move", "plant, hand, cursor", "the body: dt of its motion"),
    )
    for place, (stage, fields, what) in enumerate(stages):
        x = 1.0 + 2.15 * place
        box(axes, (x, 1.5), stage, color=BLUE, width=1.25)
        note(axes, x, 1.98, what)
        arrow(axes, (x, 1.24), (x, 0.78))
        note(axes, x, 0.6, fields, color=ORANGE)
        if place:
            arrow(axes, (x - 1.5, 1.5), (x - 0.65, 1.5))
    axes.plot([0.0, 8.45], [0.38, 0.38], color=ORANGE, lw=1.0)
    note(axes, 4.2, 0.2, "the state after step t, at time (t + 1) dt", color=ORANGE)
    axes.plot([8.1, 8.4, 8.4, 0.1, 0.1, 0.3], [1.5, 1.5, 2.45, 2.45, 1.5, 1.5], color=GREY, lw=1.0)
    arrow(axes, (0.1, 1.5), (0.38, 1.5))
    note(axes, 4.2, 2.62, "the next step starts from this state")
    axes.set(xlim=(-0.1, 8.6), ylim=(0.05, 2.8))


def draw_ensemble(axes: Axes) -> None:
    """Draw the weights of five members, stacked into one array."""
    for member in range(5):
        y = 2.25 - 0.51 * member
        note(axes, 0.0, y, f"build(key {member})", align="left")
        arrow(axes, (1.25, y), (2.2, y))
        box(axes, (2.75, y), f"model {member}", width=0.95)
        arrow(axes, (3.3, y), (4.35, 1.5 - 0.16 * member))
    for member in reversed(range(5)):
        x, y = 4.6 + 0.16 * member, 0.55 + 0.16 * member
        sheet = Rectangle((x, y), 1.3, 0.8, fc="none", ec=BLUE, lw=1.2)
        axes.add_patch(sheet)
    note(axes, 5.25, 2.2, "one array: (member, 3 × unit, unit)", color=BLUE)
    note(axes, 5.25, 0.35, "ensemble.network.cell.weight_hh", color=BLUE)
    arrow(axes, (6.75, 1.2), (7.35, 1.2))
    note(axes, 7.45, 1.45, "states, losses, history:", color=ORANGE, align="left")
    note(axes, 7.45, 1.2, "(batch, member, trial,", color=ORANGE, align="left")
    note(axes, 7.45, 0.95, " time, feature)", color=ORANGE, align="left")
    axes.set(xlim=(-0.1, 9.2), ylim=(-0.1, 2.6))


def draw_randomness(axes: Axes) -> None:
    """Draw what is folded into the key of a training, down to the named streams."""
    steps = (
        ("key", "of the training"),
        ("batch", "its number"),
        ("member", "its id"),
        ("trial", "its index"),
    )
    for place, (name, what) in enumerate(steps):
        x = 0.75 + 1.75 * place
        box(axes, (x, 1.3), name, color=BLUE, width=1.05)
        note(axes, x, 0.92, what)
        if place:
            arrow(axes, (x - 1.2, 1.3), (x - 0.55, 1.3))
    streams = ("“specification”: the task", "“initial state”: the model", "“steps”: the noise of each step")
    for row, stream in enumerate(streams):
        y = 1.95 - 0.65 * row
        arrow(axes, (6.55, 1.3), (7.15, y))
        note(axes, 7.2, y, stream, color=ORANGE, align="left")
    note(axes, 3.4, 2.15, "each arrow: jax.random.fold_in(key, number)")
    axes.set(xlim=(0.1, 9.6), ylim=(0.4, 2.35))


def draw_history(axes: Axes) -> None:
    """Draw which batches leave a row in each part of a history."""
    batches = np.arange(40)
    rows: Sequence[tuple[str, np.ndarray, str]] = (
        ("loss, learning_rate", batches, BLUE),
        ("validation_loss, metrics", batches[9::10], ORANGE),
        ("model_trainables", np.unique(np.geomspace(1, 40, 10).astype(int)) - 1, GREEN),
        ("checkpoints (the last three)", batches[19::10], GREY),
    )
    for row, (name, at, color) in enumerate(rows):
        y = 2.0 - 0.5 * row
        axes.plot([-0.5, 40], [y, y], color=GREY, lw=0.4)
        axes.plot(at, np.full(at.shape, y), "o", color=color, ms=4)
        note(axes, -1.5, y, name, color=color, align="right")
    for y, text in ((1.5, "at log points"), (1.0, "as asked")):
        note(axes, 40.7, y, text, align="left")
    note(axes, 40.7, 2.0, "each batch", align="left")
    note(axes, 40.7, 0.5, "in a folder", align="left")
    axes.annotate("", (40.5, 0.12), (-0.5, 0.12), arrowprops={"arrowstyle": "-|>", "color": GREY, "lw": 1.0})
    note(axes, 20, -0.08, "training batch")
    axes.set(xlim=(-18, 47.5), ylim=(-0.25, 2.25))


def draw_gradient(axes: Axes) -> None:
    """Draw one training step of a member, from parameters to parameters."""
    upper = ((0.9, "parameters", GREY), (3.1, "run the trials", BLUE), (5.3, "losses", BLUE))
    lower = ((7.5, "gradient", ORANGE), (5.3, "optimizer", GREEN), (3.1, "model updates", GREEN))
    for x, name, color in upper:
        box(axes, (x, 1.9), name, color=color)
    box(axes, (7.5, 1.9), lower[0][1], color=lower[0][2])
    for x, name, color in lower[1:]:
        box(axes, (x, 0.9), name, color=color)
    box(axes, (0.9, 0.9), "constraints", color=GREEN)
    for x in (1.8, 4.0, 6.2):
        arrow(axes, (x, 1.9), (x + 0.4, 1.9))
        arrow(axes, (x + 0.4, 0.9), (x, 0.9))
    axes.plot([7.5, 7.5, 6.5], [1.66, 0.9, 0.9], color=GREY, lw=1.0)
    arrow(axes, (0.9, 1.13), (0.9, 1.66))
    note(axes, 5.3, 2.38, "AbstractGradient: back-propagation through time by default", color=ORANGE)
    note(axes, 5.3, 0.52, "clips, then Adam")
    note(axes, 3.1, 0.52, "learning rules")
    note(axes, 0.9, 0.52, "such as Dale's law")
    axes.set(xlim=(-0.1, 8.5), ylim=(0.35, 2.55))


def draw_environment(axes: Axes) -> None:
    """Draw how a network and the environment of its trial act on each other."""
    box(axes, (2.2, 1.9), "network", color=BLUE)
    box(axes, (4.9, 1.9), "policy", color=BLUE)
    box(axes, (7.6, 1.9), "environment", color=ORANGE)
    arrow(axes, (3.1, 1.9), (4.0, 1.9))
    arrow(axes, (5.8, 1.9), (6.7, 1.9))
    note(axes, 3.55, 2.12, "output")
    note(axes, 6.25, 2.12, "action")
    arrow(axes, (0.3, 1.9), (1.3, 1.9))
    note(axes, 0.25, 2.12, "inputs of the trial", align="center")
    axes.plot([7.6, 7.6, 1.9], [1.66, 0.75, 0.75], color=GREY, lw=1.0)
    arrow(axes, (1.9, 0.75), (1.9, 1.64))
    note(axes, 4.9, 0.93, "what it shows: enters the network at the next step", color=ORANGE)
    note(axes, 4.9, 0.5, "reward, done, record: into states.interaction", color=ORANGE)
    axes.set(xlim=(-0.7, 8.7), ylim=(0.25, 2.4))


DRAWINGS: dict[str, tuple[Callable[[Axes], None], float]] = {
    "trial": (draw_trial, 2.5),
    "state": (draw_state, 1.9),
    "ensemble": (draw_ensemble, 1.9),
    "randomness": (draw_randomness, 1.4),
    "history": (draw_history, 1.8),
    "gradient": (draw_gradient, 1.7),
    "environment": (draw_environment, 1.6),
}


def main() -> None:
    """Draw all pictures."""
    plt.style.use(STYLE_SHEET)
    plt.rcParams["svg.hashsalt"] = "popsim"  # the same file each time
    FOLDER.mkdir(exist_ok=True)
    for name, (draw, height) in DRAWINGS.items():
        figure, axes = plt.subplots(figsize=(6.4, height), layout="constrained")
        axes.axis("off")
        draw(axes)
        figure.savefig(FOLDER / f"{name}.svg", transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
