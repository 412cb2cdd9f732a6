"""The twenty tasks of Yang et al. 2019, the fifteen of Driscoll et al. 2024, and who follows their rules."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from popsim._compiled import jit
from popsim._shared.checks import as_parts
from popsim.distributions import AbstractDistribution, Choice, Uniform
from popsim.tasks.rings.ring_rules import EPOCHS, RESPONSES, Response, RingRows, RingRule, SineCode
from popsim.tasks.rings.ring_task import FIXATES, RingTask
from popsim.trial import Trial

__all__ = ["RingObserver", "decision_bound", "driscoll2024", "yang2019"]

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

    away = {
        "distance": Uniform(math.pi / 9, 17 / 9 * math.pi),
        "match_probability": 0.5,
    }  # 20 degrees or more
    return {
        "dms": rule("match", durations, **away),
        "dnms": rule("non-match", durations, **away),
        "dmc": rule("same category", of_categories, direction=direction),
        "dnmc": rule("other category", of_categories, direction=direction),
    }


THRESHOLD = 0.2  # of the strength of a stimulus in one time step
N_GRID = 360  # directions that are compared
LEAST_GAP = 5  # time steps without a stimulus before another one
MATCHING = jnp.pi / 18  # rad; half of the smallest difference of stimuli that do not match


def decision_bound(task: RingTask, trials: Trial) -> Float[Array, " trial"]:
    """Return how probably a least-squares observer finds the stronger stimulus; 1 for other rules.

    The observer knows both directions, and nothing of the strengths. Those that it estimates by least squares
    from white noise of standard deviation s in a time step have the covariance s² G^-1, with
    G_ij = n_ij e_i·e_j, where e are the codes of the directions and n_ij the number of time steps in which
    stimuli i and j are shown together. With the difference d of strengths, summed over the k relevant rings,
    it is right with probability Phi(d / (s (k v)^0.5)), v = (1, -1) G^-1 (1, -1).

    It is a bound for all observers if both stimuli are shown for the same time, are as strong in all relevant
    rings, and either one is the stronger equally often: the sum of the estimates then says nothing of their
    difference. Otherwise one who knows from which distributions the strengths are drawn can be right more
    often: of two stimuli that are shown for 0.4 and 0.8 s one after the other, in .961 in place of .958 of
    trials, if their mean strength varies by half a percent and their difference by 1 or 2 %.

    **Arguments:**

    - `task`: the task.
    - `trials`: stacked trials of it.
    """
    return _bounds(task, trials)


@jit
def _bounds(task: RingTask, trials: Trial) -> Float[Array, " trial"]:
    return jax.vmap(lambda trial: _bound(task, trial))(trials)


def _bound(task: RingTask, trial: Trial) -> Float[Array, ""]:
    conditions = trial.conditions
    row = jax.tree.map(lambda leaf: leaf[conditions["rule"]], task.rows)
    steps = jnp.stack([jnp.diff(trial.timeline.epochs[name])[0] for name in EPOCHS])
    n_shown = jnp.sum(jnp.where(row.is_shown[:, None] & row.is_shown[None, :], steps, 0), axis=-1)
    directions = jnp.stack([conditions["direction 1"], conditions["direction 2"]])
    coded = task.code.encode(jnp.where(jnp.isnan(directions), 0.0, directions))
    compares = row.response == RESPONSES.index("stronger")
    information = jnp.where(compares, n_shown.astype(coded.dtype) * (coded @ coded.T), jnp.eye(2))
    contrast = jnp.array([1.0, -1.0])
    variance = contrast @ jnp.linalg.solve(information, contrast)
    n_rings = jnp.sum(row.relevant)
    difference = 2 * jnp.abs(conditions["coherence"]) * n_rings
    deviation = task.noise / task.dt**0.5 * jnp.sqrt(n_rings * variance)
    return jnp.where(compares, jax.scipy.stats.norm.cdf(difference / deviation), 1.0)


class RingObserver(eqx.Module):
    """Follows the rules of a `RingTask`, from what the inputs show.

    It reads the rule, finds when stimuli are shown (by a matched filter at each time step, so that noise must
    be well below the strength of stimuli), estimates their directions from the mean over this time, and
    answers as the rule asks.

    **Arguments:**

    - `task`: the task, whose rules and code it knows.
    """

    task: RingTask

    def __call__(self, trials: Trial) -> Float[Array, "trial time output"]:
        """Return its outputs in stacked trials, of which it reads only the inputs."""
        return _observe(self, trials.inputs)

    def _outputs(self, inputs: dict[str, Float[Array, "time channels"]]) -> Float[Array, "time output"]:
        code = self.task.code
        rule = jnp.argmax(jnp.mean(inputs["rule"], axis=0))
        row = jax.tree.map(lambda leaf: leaf[rule], self.task.rows)
        rings = jnp.stack([inputs["ring 1"], inputs["ring 2"]])
        is_on, run = _runs(self._strengths(rings))
        means = [_mean_where(rings, is_on & (run == number)) for number in (1, 2)]
        direction, responds = self._response(row, *means)
        go = jnp.where(row.response >= RESPONSES.index("match"), run == 2, run >= 1)
        go = jnp.where(row.fixation_ends, inputs["fixation"][:, 0] < 0.5, go)
        is_response = (go & responds)[:, None]
        fixation = jnp.where(is_response, code.silence, FIXATES)
        answer = code.silence + jnp.where(is_response, code.encode(direction), 0.0)
        return jnp.concatenate([fixation, answer], axis=1)

    def _strengths(self, activity: Float[Array, "*axes unit"]) -> Float[Array, "*axes"]:
        """Return the strength of the strongest stimulus in the activity of a ring."""
        return jnp.max(activity @ self._filters().T, axis=-1)

    def _filters(self) -> Float[Array, "direction unit"]:
        coded = self.task.code.encode(_grid())
        return coded / jnp.sum(coded**2, axis=1, keepdims=True)

    def _direction(self, activity: Float[Array, " unit"]) -> Float[Array, ""]:
        return _grid()[jnp.argmax(self._filters() @ activity)]

    def _response(
        self, row: RingRows, first: Float[Array, "ring unit"], second: Float[Array, "ring unit"]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Return the direction of the response, and whether there is one, from mean activity."""
        relevant = [row.relevant @ activity for activity in (first, second)]
        one, other = (self._direction(activity) for activity in relevant)
        kind = RESPONSES.index
        together = jnp.any(row.is_shown[0] & row.is_shown[1])
        first_wins = together | (self._strengths(relevant[0]) > self._strengths(relevant[1]))
        apart = jnp.abs(jnp.mod(one - other + jnp.pi, 2 * jnp.pi) - jnp.pi)
        by_category = row.response >= kind("same category")
        same = jnp.where(by_category, (one < jnp.pi) == (other < jnp.pi), apart < MATCHING)
        wants_same = (row.response == kind("match")) | (row.response == kind("same category"))
        matches = row.response >= kind("match")
        direction = jnp.where(matches, other, one)
        direction = jnp.where(row.response == kind("anti"), one + jnp.pi, direction)
        stronger = jnp.where(first_wins, one, other)
        direction = jnp.where(row.response == kind("stronger"), stronger, direction)
        return direction, ~matches | (same == wants_same)


@jit
def _observe(
    observer: RingObserver, inputs: dict[str, Float[Array, "trial time channels"]]
) -> Float[Array, "trial time output"]:
    return jax.vmap(observer._outputs)(inputs)


def _grid() -> Float[Array, " direction"]:
    """Return directions that are compared, none of them at the border of categories."""
    return (jnp.arange(N_GRID, dtype=float) + 0.5) * (2 * jnp.pi / N_GRID)


def _runs(strengths: Float[Array, "ring time"]) -> tuple[Bool[Array, " time"], Int[Array, " time"]]:
    """Return whether a stimulus is shown at each time step, and how many began until then."""
    is_on = jnp.any(strengths > THRESHOLD, axis=0)
    before = jnp.concatenate([jnp.zeros(LEAST_GAP + 1, int), jnp.cumsum(is_on)])
    n_recent = before[LEAST_GAP:-1] - before[: -LEAST_GAP - 1]
    return is_on, jnp.cumsum(is_on & (n_recent == 0))


def _mean_where(
    rings: Float[Array, "ring time unit"], where: Bool[Array, " time"]
) -> Float[Array, "ring unit"]:
    total = jnp.sum(jnp.where(where[:, None], rings, 0.0), axis=1)
    return total / jnp.maximum(jnp.sum(where), 1).astype(total.dtype)
