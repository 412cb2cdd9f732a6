"""The fifteen tasks of Driscoll et al. 2024."""

import math
from collections.abc import Sequence
from typing import Any

import jax

from popsim.distributions import Uniform
from popsim.tasks.rings.direction_codes import SineCode
from popsim.tasks.rings.ring_rules import RingRule
from popsim.tasks.rings.ring_task import RingTask
from popsim.tasks.rings.yang_tasks import (
    compare,
    go,
    go_later,
    match_category,
    match_sample,
    react,
    select_rules,
)

__all__ = ["driscoll2024"]


def driscoll2024(
    rules: str | Sequence[str] | None = None,
    *,
    shares: Any = None,
    one_rule_per_batch: bool = False,
    noise: float = 0.1 * 0.2**0.5,
    duration: float | None = None,
    dt: float = 0.02,
) -> RingTask:
    """Fifteen tasks for one network, with the sine and the cosine of directions as inputs and outputs.

    The tasks, times, strengths, targets and weights of Driscoll, Shenoy & Sussillo 2024, Nat Neurosci
    27:1349, as in lauradriscoll/flexible_multitask (`stepnet/task.py`, `rules_dict["all"]`; the noise of
    `stepnet/general_model_train.py`; the trials are compared with those of that code). They are a `RingTask`
    with a `SineCode`, and a correct response is within 18 degrees.

    The rules are those of `yang2019`, by the same names, without those of decisions between stimuli that are
    shown together: "go", "rt-go", "delay-go", "anti", "rt-anti", "delay-anti", "delay-dm-1", "delay-dm-2",
    "context-delay-dm-1", "context-delay-dm-2", "multisensory-delay-dm", "dms", "dnms", "dmc", "dnmc".
    Durations vary more, coherences are uniform from 0.005 to 0.8, and directions of categories are any.

    The cost, and what a batch has in common, differ from the published as in `yang2019`.

    **Arguments:**

    - `rules`: the name of one, or some of them, in this order; None for all.
    - `shares`: the relative frequency of rules, a dict or an array, as of a `RingTask`.
    - `one_rule_per_batch`: whether all trials of a batch have the same rule, as in the published training.
    - `noise`: sigma of each input, in s^0.5; the standard deviation in a time step is sigma / dt^0.5. The
        default is the published 0.1 (2 tau)^0.5 with tau = 0.1 s.
    - `duration`: of a trial, in seconds; None for that of the longest trial of the rules. Others end before
        it.
    - `dt`: the time step in seconds.
    """
    with jax.ensure_compile_time_eval():  # the task may be built within a program
        selected = select_rules(_rules(), rules)
    return RingTask(
        selected,
        shares=shares,
        one_rule_per_batch=one_rule_per_batch,
        noise=noise,
        code=SineCode(),
        tolerance=math.pi / 10,
        duration=duration,
        dt=dt,
    )


def _rules() -> dict[str, RingRule]:
    """Return the rules in the order of the published code."""
    return {
        "go": go("pro", _go_durations()),
        "rt-go": react("pro", _reaction_durations()),
        "delay-go": go_later("pro", _delayed_durations()),
        "anti": go("anti", _go_durations()),
        "rt-anti": react("anti", _reaction_durations()),
        "delay-anti": go_later("anti", _delayed_durations()),
        "delay-dm-1": _delayed_decision("1", "1"),
        "delay-dm-2": _delayed_decision("2", "2"),
        "context-delay-dm-1": _delayed_decision("both", "1"),
        "context-delay-dm-2": _delayed_decision("both", "2"),
        "multisensory-delay-dm": _delayed_decision("both", "both"),
        "dms": match_sample("match", _matching_durations()),
        "dnms": match_sample("non-match", _matching_durations()),
        "dmc": match_category("same category", _matching_durations(), _any_direction()),
        "dnmc": match_category("other category", _matching_durations(), _any_direction()),
    }


def _any_direction() -> Uniform:
    return Uniform(0.0, 2 * math.pi)


def _response() -> Uniform:
    return Uniform(0.3, 0.7)


def _long() -> Uniform:
    return Uniform(0.2, 1.6)


def _go_durations() -> dict[str, Any]:
    return {"fixation": Uniform(0.3, 0.7), "stimulus 1": Uniform(0.2, 1.5), "response": _response()}


def _reaction_durations() -> dict[str, Any]:
    return {"fixation": Uniform(0.5, 2.5), "response": Uniform(0.3, 1.7)}


def _delayed_durations() -> dict[str, Any]:
    return {
        "fixation": Uniform(0.3, 0.7),
        "stimulus 1": _long(),
        "delay 1": _long(),
        "response": _response(),
    }


def _delayed_decision(rings: Any, relevant: Any) -> RingRule:
    durations = {
        "fixation": Uniform(0.2, 0.6),
        "stimulus 1": _long(),
        "delay 1": _long(),
        "stimulus 2": _long(),
        "delay 2": Uniform(0.1, 0.3),
        "response": _response(),
    }
    return compare(durations, rings, relevant, Uniform(0.005, 0.8), Uniform(0.005, 0.8))


def _matching_durations() -> dict[str, Any]:
    return {
        "fixation": Uniform(0.2, 0.6),
        "stimulus 1": _long(),
        "delay 1": _long(),
        "response": _response(),
    }
