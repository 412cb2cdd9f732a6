"""The twenty tasks of Yang et al. 2019."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from popsim._checks import as_parts
from popsim.distributions import AbstractDistribution, Choice, Uniform
from popsim.tasks.rings.ring_rules import Response, RingRule, Rings
from popsim.tasks.rings.ring_task import RingTask

__all__ = ["yang2019"]


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
    Neurosci 22:297, as in gyyang/multitask (`task.py`, `rules_dict["all"]`, with the default settings of
    `train.py`; the trials are compared with those of that code). They are a `RingTask`, with rings of 32
    units and 33 outputs. The rules, in the order of the published code, whose names follow:

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
    steps. They draw durations and the ring of single stimuli once a batch, as their trials have no padding;
    here each trial draws them. In their main training the rules "context-dm-1" and "context-dm-2" are five
    times as frequent, `shares={"context-dm-1": 5.0, "context-dm-2": 5.0}` (`experiment.py`).

    The noise allows a performance near 100 % in all of them: see `decision_bound`, and `RingObserver`.

    **Arguments:**

    - `rules`: the name of one, or some of them, in this order; None for all.
    - `shares`: the relative frequency of rules, a dict or an array, as of a `RingTask`.
    - `one_rule_per_batch`: whether all trials of a batch have the same rule, as in the published training.
    - `noise`: sigma of each input, in s^0.5; the standard deviation in a time step is sigma / dt^0.5. The
        default is the published 0.01 (2 tau)^0.5 with tau = 0.1 s.
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
        duration=duration,
        dt=dt,
    )


def select_rules(rules: Mapping[str, RingRule], names: str | Sequence[str] | None) -> Mapping[str, RingRule]:
    """Return some of the rules by name; all for None."""
    if names is None:
        return rules
    names = (names,) if isinstance(names, str) else as_parts("rules", names, str, "names of rules")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"`rules` must be different names, one or more, got {list(names)}.")
    if unknown := [name for name in names if name not in rules]:
        raise ValueError(f"`rules` must be among {list(rules)}, got {unknown[0]!r}.")
    return {name: rules[name] for name in names}


SHORT = (0.2, 0.4, 0.6)  # s
DELAYS = (0.2, 0.4, 0.8, 1.6)  # s
RESPONSE = 0.5  # s


def _rules() -> dict[str, RingRule]:
    """Return the rules in the order of the published code."""
    weak, strong = Choice([0.01, 0.02, 0.04, 0.08]), Choice([0.08, 0.16, 0.32])
    return {
        "go": go("pro", _go_durations()),
        "rt-go": react("pro", _reaction_durations()),
        "delay-go": go_later("pro", _delayed_durations()),
        "anti": go("anti", _go_durations()),
        "rt-anti": react("anti", _reaction_durations()),
        "delay-anti": go_later("anti", _delayed_durations()),
        **{name: _decision(rings, relevant, weak) for name, rings, relevant in _decisions("dm")},
        **{
            name: _delayed_decision(rings, relevant, strong)
            for name, rings, relevant in _decisions("delay-dm")
        },
        "dms": _match("match"),
        "dnms": _match("non-match"),
        "dmc": _category("same category"),
        "dnmc": _category("other category"),
    }


def _decisions(kind: str) -> list[tuple[str, Rings, Any]]:
    """Return the name of each rule of decisions, the rings of its stimuli and those that count."""
    return [
        (f"{kind}-1", "1", "1"),
        (f"{kind}-2", "2", "2"),
        (f"context-{kind}-1", "both", "1"),
        (f"context-{kind}-2", "both", "2"),
        (f"multisensory-{kind}", "both", "both"),
    ]


def go(response: Response, durations: Mapping[str, Any]) -> RingRule:
    """Return a rule to respond by a stimulus that stays, when the fixation input ends."""
    return RingRule(response, dict(durations), first_shown=("stimulus 1", "response"))


def react(response: Response, durations: Mapping[str, Any]) -> RingRule:
    """Return a rule to respond by a stimulus as soon as it is shown."""
    return RingRule(response, dict(durations), first_shown="response", fixation_ends=False)


def go_later(response: Response, durations: Mapping[str, Any]) -> RingRule:
    """Return a rule to respond by a stimulus that is gone when the fixation input ends."""
    return RingRule(response, dict(durations), first_shown="stimulus 1")


def _go_durations() -> dict[str, Any]:
    return {"fixation": Uniform(0.3, 0.7), "stimulus 1": Uniform(0.5, 1.5), "response": RESPONSE}


def _reaction_durations() -> dict[str, Any]:
    return {"fixation": Uniform(0.5, 2.5), "response": RESPONSE}


def _delayed_durations() -> dict[str, Any]:
    return {
        "fixation": Choice([0.3, 0.5, 0.7]),
        "stimulus 1": Choice(SHORT),
        "delay 1": Choice(DELAYS),
        "response": RESPONSE,
    }


def _decision(rings: Rings, relevant: Any, coherence: AbstractDistribution) -> RingRule:
    durations = {
        "fixation": Uniform(0.1, 0.4),
        "stimulus 1": Choice([0.4, 0.8, 1.6]),
        "response": RESPONSE,
    }
    shown = {"first_shown": "stimulus 1", "second_shown": "stimulus 1"}
    return compare(durations, rings, relevant, coherence, Uniform(0.2, 0.8), **shown)


def _delayed_decision(rings: Rings, relevant: Any, coherence: AbstractDistribution) -> RingRule:
    durations = {
        "fixation": Choice(SHORT),
        "stimulus 1": Choice(SHORT),
        "delay 1": Choice(DELAYS),
        "stimulus 2": Choice(SHORT),
        "delay 2": Uniform(0.1, 0.3),
        "response": RESPONSE,
    }
    return compare(durations, rings, relevant, coherence, Uniform(0.2, 0.8))


def compare(
    durations: Mapping[str, Any],
    rings: Rings,
    relevant: Any,
    coherence: AbstractDistribution,
    difference: AbstractDistribution,
    *,
    first_shown: str = "stimulus 1",
    second_shown: str = "stimulus 2",
) -> RingRule:
    """Return a rule to respond to the stronger of two stimuli, which differ by 90 degrees or more."""
    return RingRule(
        "stronger",
        dict(durations),
        first_shown=first_shown,
        second_shown=second_shown,
        rings=rings,
        relevant=relevant,
        distance=Uniform(0.5 * math.pi, 1.5 * math.pi),
        mean=Uniform(0.8, 1.2),
        coherence=coherence,
        difference=difference if relevant == "both" else 0.0,
    )


def _match(response: Response) -> RingRule:
    return match_sample(response, _matching_durations(RESPONSE))


def match_sample(response: Response, durations: Mapping[str, Any]) -> RingRule:
    """Return a rule to respond to a second stimulus that matches the first, or is 20 degrees away or more."""
    return RingRule(
        response,
        dict(durations),
        first_shown="stimulus 1",
        second_shown="response",
        fixation_ends=False,
        distance=Uniform(math.pi / 9, 17 / 9 * math.pi),
        match_probability=0.5,
    )


def _category(response: Response) -> RingRule:
    directions = Choice([math.pi * tenth / 10 for tenth in range(1, 20, 2)])
    return match_category(response, _matching_durations(Choice(SHORT)), directions)


def match_category(
    response: Response, durations: Mapping[str, Any], direction: AbstractDistribution
) -> RingRule:
    """Return a rule to respond to a second stimulus by the half of the circle that each of the two is in."""
    return RingRule(
        response,
        dict(durations),
        first_shown="stimulus 1",
        second_shown="response",
        fixation_ends=False,
        direction=direction,
    )


def _matching_durations(response: float | AbstractDistribution) -> dict[str, Any]:
    return {
        "fixation": Choice(SHORT),
        "stimulus 1": Choice(SHORT),
        "delay 1": Choice(DELAYS),
        "response": response,
    }
