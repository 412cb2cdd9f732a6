"""The twenty tasks of Yang et al. 2019, and the fifteen of Driscoll et al. 2024."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from popsim._shared.checks import as_parts
from popsim.distributions import AbstractDistribution, Choice, Uniform
from popsim.tasks.rings.ring_rules import Response, RingRule, SineCode
from popsim.tasks.rings.ring_task import RingTask

__all__ = ["driscoll2024", "yang2019"]

Durations = Mapping[str, Any]


def yang2019(
    rules: str | Sequence[str] | None = None,
    *,
    shares: Any = None,
    one_rule_per_batch: bool = False,
    noise: float = 0.01 * 0.2**0.5,
    duration: float | None = None,
    dt: float = 0.02,
) -> RingTask:
    """Twenty tasks for one network: respond to directions, compare, and match them.

    The tasks, times, strengths, targets, weights and noise of Yang, Joglekar, Song, Newsome & Wang 2019, Nat
    Neurosci 22:297, as in gyyang/multitask (with whose trials they are compared). They are a `RingTask`, with
    rings of 32 units and 33 outputs. The rules, in the order of the published code, whose names follow:

    - "go", "rt-go", "delay-go" (fdgo, reactgo, delaygo): respond towards the stimulus, after the fixation
        input ends, at once, or after a delay; "anti", "rt-anti", "delay-anti" (fdanti, reactanti, delayanti):
        away from it.
    - "dm-1", "dm-2" (dm1, dm2): respond to the stronger of two stimuli in ring 1, or in ring 2;
        "context-dm-1", "context-dm-2", "multisensory-dm" (contextdm1, contextdm2, multidm): stimuli are in
        both rings, and ring 1, ring 2 or the sum of both counts. "delay-dm-1", "delay-dm-2",
        "context-delay-dm-1", "context-delay-dm-2", "multisensory-delay-dm": the stimuli follow one another.
    - "dms", "dnms", "dmc", "dnmc" (dmsgo, dmsnogo, dmcgo, dmcnogo): respond to the second stimulus if it has
        the direction of the first; if it has another; if both are in the same half of the circle; if they are
        not. Otherwise keep fixation.

    The cost is the published one, a squared error with weights of 1 before and 5² after the go cue, and of 2²
    for fixation, but divided by the sum of weights in a trial where the authors divide by the number of time
    steps. They draw durations and the ring of single stimuli once a batch; here each trial draws them. In
    their main training `shares={"context-dm-1": 5.0, "context-dm-2": 5.0}` (`experiment.py`).

    **Arguments:**

    - `rules`: the name of one, or some of them, in this order; None for all.
    - `shares`: the relative frequency of rules, a dict or an array, as of a `RingTask`.
    - `one_rule_per_batch`: whether all trials of a batch have the same rule, as in the published training.
    - `noise`: sigma of each input, in s^0.5; the standard deviation in a time step is sigma / dt^0.5. The
        default is the published 0.01 (2 tau)^0.5 with tau = 0.1 s.
    - `duration`: of a trial, in seconds; None for that of the longest.
    - `dt`: the time step in seconds.
    """
    return RingTask(
        _selected(_yang_rules, rules),
        shares=shares,
        one_rule_per_batch=one_rule_per_batch,
        noise=noise,
        duration=duration,
        dt=dt,
    )


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
    27:1349, as in lauradriscoll/flexible_multitask (with whose trials they are compared). They are a
    `RingTask` with a `SineCode`, and a correct response is within 18 degrees.

    The rules are those of `yang2019`, by the same names, without those of decisions between stimuli that are
    shown together: "go", "rt-go", "delay-go", "anti", "rt-anti", "delay-anti", "delay-dm-1", "delay-dm-2",
    "context-delay-dm-1", "context-delay-dm-2", "multisensory-delay-dm", "dms", "dnms", "dmc", "dnmc".
    Durations vary more, coherences are uniform from 0.005 to 0.8, and directions of categories are any.

    **Arguments:**

    - `rules`: the name of one, or some of them, in this order; None for all.
    - `shares`: the relative frequency of rules, a dict or an array, as of a `RingTask`.
    - `one_rule_per_batch`: whether all trials of a batch have the same rule, as in the published training.
    - `noise`: sigma of each input, in s^0.5; the standard deviation in a time step is sigma / dt^0.5. The
        default is the published 0.1 (2 tau)^0.5 with tau = 0.1 s.
    - `duration`: of a trial, in seconds; None for that of the longest.
    - `dt`: the time step in seconds.
    """
    return RingTask(
        _selected(_driscoll_rules, rules),
        shares=shares,
        one_rule_per_batch=one_rule_per_batch,
        noise=noise,
        code=SineCode(),
        tolerance=math.pi / 10,
        duration=duration,
        dt=dt,
    )


def _selected(
    make: Callable[[], dict[str, RingRule]], names: str | Sequence[str] | None
) -> dict[str, RingRule]:
    """Return some of the rules of a suite by name; all for None."""
    with jax.ensure_compile_time_eval():  # the task may be built within a program
        rules = make()
    if names is None:
        return rules
    names = (names,) if isinstance(names, str) else as_parts("rules", names, str, "names of rules")
    if not names or len(set(names)) < len(names) or not set(names) <= rules.keys():
        raise ValueError(f"`rules` must be different names among {list(rules)}, got {list(names)}.")
    return {name: rules[name] for name in names}


def _yang_rules() -> dict[str, RingRule]:
    """Return the rules in the order of the published code."""
    short, delays, response = Choice([0.2, 0.4, 0.6]), Choice([0.2, 0.4, 0.8, 1.6]), 0.5  # s
    compared = {"stimulus 1": short, "delay 1": delays, "stimulus 2": short, "delay 2": Uniform(0.1, 0.3)}
    remembered = {"fixation": short, "stimulus 1": short, "delay 1": delays}
    at_once = {"fixation": Uniform(0.1, 0.4), "stimulus 1": Choice([0.4, 0.8, 1.6]), "response": response}
    tenths = Choice([math.pi * tenth / 10 for tenth in range(1, 20, 2)])
    difference, weak, strong = Uniform(0.2, 0.8), Choice([0.01, 0.02, 0.04, 0.08]), Choice([0.08, 0.16, 0.32])
    return {
        **_responses(
            {"fixation": Uniform(0.3, 0.7), "stimulus 1": Uniform(0.5, 1.5), "response": response},
            {"fixation": Uniform(0.5, 2.5), "response": response},
            {
                "fixation": Choice([0.3, 0.5, 0.7]),
                "stimulus 1": short,
                "delay 1": delays,
                "response": response,
            },
        ),
        **_decisions("dm", at_once, weak, difference, second_shown="stimulus 1"),
        **_decisions("delay-dm", {"fixation": short, **compared, "response": response}, strong, difference),
        **_matches({**remembered, "response": response}, {**remembered, "response": short}, tenths),
    }


def _driscoll_rules() -> dict[str, RingRule]:
    """Return the rules in the order of the published code."""
    brief, long, response = Uniform(0.2, 0.6), Uniform(0.2, 1.6), Uniform(0.3, 0.7)  # s
    compared = {"stimulus 1": long, "delay 1": long, "stimulus 2": long, "delay 2": Uniform(0.1, 0.3)}
    remembered = {"fixation": brief, "stimulus 1": long, "delay 1": long, "response": response}
    strengths = Uniform(0.005, 0.8)
    return {
        **_responses(
            {"fixation": response, "stimulus 1": Uniform(0.2, 1.5), "response": response},
            {"fixation": Uniform(0.5, 2.5), "response": Uniform(0.3, 1.7)},
            {"fixation": response, "stimulus 1": long, "delay 1": long, "response": response},
        ),
        **_decisions("delay-dm", {"fixation": brief, **compared, "response": response}, strengths, strengths),
        **_matches(remembered, remembered, Uniform(0.0, 2 * math.pi)),
    }


def _responses(stays: Durations, at_once: Durations, gone: Durations) -> dict[str, RingRule]:
    """Return the rules to respond by a stimulus that stays, as soon as it is shown, or when it is gone."""
    responses: dict[str, Response] = {"go": "pro", "anti": "anti"}
    return {
        prefix + name: RingRule(response, dict(durations), first_shown=shown, fixation_ends=prefix != "rt-")
        for name, response in responses.items()
        for prefix, durations, shown in (
            ("", stays, ("stimulus 1", "response")),
            ("rt-", at_once, "response"),
            ("delay-", gone, "stimulus 1"),
        )
    }


def _decisions(
    kind: str,
    durations: Durations,
    coherence: AbstractDistribution,
    difference: AbstractDistribution,
    *,
    second_shown: str = "stimulus 2",
) -> dict[str, RingRule]:
    """Return the rules to respond to the stronger of two stimuli, which differ by 90 degrees or more."""
    rows: tuple[tuple[str, Any, Any], ...] = (  # the rings of the stimuli, and those that count
        (f"{kind}-1", "1", "1"),
        (f"{kind}-2", "2", "2"),
        (f"context-{kind}-1", "both", "1"),
        (f"context-{kind}-2", "both", "2"),
        (f"multisensory-{kind}", "both", "both"),
    )
    return {
        name: RingRule(
            "stronger",
            dict(durations),
            first_shown="stimulus 1",
            second_shown=second_shown,
            rings=rings,
            relevant=relevant,
            distance=Uniform(0.5 * math.pi, 1.5 * math.pi),
            mean=Uniform(0.8, 1.2),
            coherence=coherence,
            difference=difference if relevant == "both" else 0.0,
        )
        for name, rings, relevant in rows
    }


def _matches(
    durations: Durations, of_categories: Durations, direction: AbstractDistribution
) -> dict[str, RingRule]:
    """Return the rules to respond to a second stimulus if it matches the first, or if it does not."""

    def rule(response: Response, durations: Durations, **options: Any) -> RingRule:
        shown = {"first_shown": "stimulus 1", "second_shown": "response", "fixation_ends": False}
        return RingRule(response, dict(durations), **shown, **options)

    away = {"distance": Uniform(math.pi / 9, 17 / 9 * math.pi), "match_probability": 0.5}  # by 20 degrees
    return {
        "dms": rule("match", durations, **away),
        "dnms": rule("non-match", durations, **away),
        "dmc": rule("same category", of_categories, direction=direction),
        "dnmc": rule("other category", of_categories, direction=direction),
    }
