"""The charts of a run that follow the choice of a member, a condition and a training batch."""

import base64
import json
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.colors import to_hex

from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import direction_colors
from popsim.analysis.figures.style import COLORS
from popsim.experiments.run import Run, kept_batches
from popsim.networks.activity import defines_activity, unit_activity
from popsim.noise import without_noise
from popsim.report._html import Html, element
from popsim.trial import Trial, n_trials

MOST_BATCHES, MOST_CONDITIONS, MOST_UNITS, MOST_CHANNELS = 8, 8, 32, 8
MOST_STEPS = {"path": 50, "speed": 50, "outputs": 50, "activity": 25}
N_BYTES = {"path": 2, "speed": 2, "outputs": 2, "activity": 1}  # of a number
MOST_BYTES = 1_500_000  # of all numbers, before they are encoded
TITLE = "Members, conditions and batches"

Course = Float[np.ndarray, "member trial time channel"]


def explorer_elements(run: Run) -> list[Html]:
    """Return the charts of a finished run that `explorer.js` fills; none where nothing is to be shown."""
    trials = run.task.validation_trials()
    conditions = evenly_spaced(n_trials(trials), MOST_CONDITIONS)
    ensembles = _kept_ensembles(run)
    courses = [_courses_of(run, ensemble, conditions) for ensemble in ensembles.values()]
    if not courses[0]:
        return []
    n_members = run.experiment.n_members
    n_bytes = sum(course[0].size * N_BYTES[name] for name, course in courses[0].items()) * len(courses)
    n_shown = max(1, min(n_members, MOST_BYTES // n_bytes))
    names = _condition_names(trials, conditions)
    content = {
        "choices": {"member": _member_names(run, n_shown), "condition": names, "batch": list(ensembles)},
        "colors": _condition_colors(trials, conditions),
        "charts": [
            _chart(name, [of_batch[name][:n_shown] for of_batch in courses], trials, conditions)
            for name in courses[0]
        ],
    }
    members = f"{n_shown} of {n_members} members" if n_shown < n_members else f"{n_members} members"
    between = f"after some of the kept batches ({len(ensembles) - 2}), " if len(ensembles) > 2 else ""
    about = (
        f"{len(names)} of {n_trials(trials)} validation trials without noise, by {members}, before training, "
        f"{between}and at the end. Some time steps and units are left out, and numbers are rounded: the run "
        "has all of them."
    )
    return [
        element("p", about),
        element("noscript", element("p", "These charts need JavaScript; the figures of this page do not.")),
        element("div", attributes={"id": "explorer", "class": "explorer"}),
        json_block("explorer-data", content),
    ]


def json_block(name: str, content: Any) -> Html:
    """Return an element that holds JSON, which text in it cannot end: it has no `<`, `>` and `&`."""
    text = json.dumps(content, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Html(text), attributes={"type": "application/json", "id": name})


def evenly_spaced(count: int, most: int) -> Int[np.ndarray, " shown"]:
    """Return at most so many places among `count`, with both ends."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def _kept_ensembles(run: Run) -> dict[str, Any]:
    """Return the ensemble before training, after some kept batches, and at the end, by their names."""
    end = run.n_batches_trained
    kept = [batch for batch in kept_batches(run.history.dataset) if batch + 1 < end]
    batches = [kept[place] for place in evenly_spaced(len(kept), MOST_BATCHES - 2)]
    between = {f"after {batch + 1} batches": run.models(batch=batch) for batch in batches}
    return {"before training": run.models(batch=-1), **between, f"after {end} batches": run.ensemble}


def _courses_of(run: Run, ensemble: Any, conditions: Int[np.ndarray, " shown"]) -> dict[str, Course]:
    """Return what is shown of an ensemble in some validation trials, by the name of the chart."""
    quiet = without_noise(ensemble)
    states = run.evaluate(quiet).states
    courses: dict[str, Any] = {}
    if hasattr(states, "cursor"):
        courses["path"] = 100 * np.asarray(states.cursor.position)
        courses["speed"] = np.asarray(hand_speed(states.hand))[..., None]
    elif hasattr(getattr(states, "network", None), "output"):
        courses["outputs"] = np.asarray(states.network.output)[..., :MOST_CHANNELS]
    if defines_activity(quiet, states):
        units = np.asarray(unit_activity(quiet, states))
        courses["activity"] = units[..., evenly_spaced(units.shape[-1], MOST_UNITS)]
    return {
        name: course[:, conditions][:, :, evenly_spaced(course.shape[2], MOST_STEPS[name])].astype(float)
        for name, course in courses.items()
    }


def _chart(
    name: str, courses: list[Course], trials: Trial, conditions: Int[np.ndarray, " shown"]
) -> dict[str, Any]:
    """Return a chart as JSON: its numbers over (batch, member, condition, time, channel), and its labels."""
    steps, dt = evenly_spaced(trials.timeline.n_steps, MOST_STEPS[name]), np.ravel(trials.timeline.dt)[0]
    rounded = [round_numbers(course, N_BYTES[name]) for course in courses]
    chart: dict[str, Any] = {
        "name": name,
        "times": [round(float(dt) * (step + 1), 6) for step in steps.tolist()],
        "shape": [len(courses), *courses[0].shape],
        "low": [low for _, low, _ in rounded],
        "step": [step for _, _, step in rounded],
        "bytes": N_BYTES[name],
        "values": base64.b64encode(b"".join(codes for codes, _, _ in rounded)).decode("ascii"),
    }
    if name == "path":
        chart["targets"] = np.round(100 * np.asarray(trials.targets.position)[conditions, -1], 3).tolist()
    return chart


def round_numbers(values: Float[np.ndarray, "..."], n_bytes: int) -> tuple[bytes, float, float]:
    """Return numbers as whole ones of 1 or 2 bytes, little-endian, with the lowest number and the step.

    The largest whole number stands for what is not finite.
    """
    largest = 2 ** (8 * n_bytes) - 2
    is_finite = np.isfinite(values)
    low, high = (float(end(values[is_finite])) if is_finite.any() else 0.0 for end in (np.min, np.max))
    step = (high - low) / largest or 1.0
    codes = np.where(is_finite, np.round((np.where(is_finite, values, low) - low) / step), largest + 1)
    return codes.astype(f"<u{n_bytes}").tobytes(), low, step


def _member_names(run: Run, n_shown: int) -> list[str]:
    labels = run.member_labels()
    settings = [
        ", ".join(f"{name} {texts[member]}" for name, texts in labels.items()) for member in range(n_shown)
    ]
    return [f"member {member}{f' ({text})' if text else ''}" for member, text in enumerate(settings)]


def _condition_names(trials: Trial, conditions: Int[np.ndarray, " shown"]) -> list[str]:
    """Return the number of each trial with what distinguishes it from others."""
    names = [f"trial {trial}" for trial in conditions.tolist()]
    for name, values in trials.conditions.items():
        shown = np.asarray(values)[conditions]
        if shown.ndim == 1 and len(np.unique(shown)) > 1:
            texts = [f"{np.degrees(x):.0f}°" if name == "direction" else f"{x:.3g}" for x in shown]
            names = [f"{before}, {name} {text}" for before, text in zip(names, texts, strict=True)]
    return names


def _condition_colors(trials: Trial, conditions: Int[np.ndarray, " shown"]) -> list[str]:
    """Return the colour of each trial: that of its direction, if it has one."""
    direction = trials.conditions.get("direction")
    if direction is None:
        return [COLORS[row % len(COLORS)] for row in range(conditions.size)]
    return [to_hex(color) for color in direction_colors(np.asarray(direction)[conditions])]
