"""What tasks of stimuli and choices share: what is shown in each epoch, what is right, and who knows best."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from popsim._compiled import is_traced, jit
from popsim._shared.checks import check_instance, kind_of
from popsim.distributions import AbstractDistribution, Choice, Constant
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import Drawn, Scalar
from popsim.trial import OutputTarget, Trial, check_trials
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["AbstractDelayedChoice", "Question", "choice_probabilities", "targets_in_epoch"]


class Question(eqx.Module):
    """What a trial shows, and what is right.

    **Arguments:**

    - `shown`: the stimulus without noise in each epoch that has one, (channels) or (time, channels).
    - `choice`: the index of the correct output; between two of them, as 0.5, where a coin decides.
    - `conditions`: labels of the trial besides "choice" and "catch".
    - `inputs`: other inputs, which have no noise, (channels) throughout or (time, channels).
    - `noise`: sigma of each channel, where it is not that of the task.
    - `n_choices`: the number of outputs.
    """

    shown: dict[str, Float[Array, "..."]]
    choice: Array | None
    conditions: dict[str, Array]
    inputs: dict[str, Float[Array, "..."]] = eqx.field(kw_only=True, default_factory=dict)
    noise: Float[Array, "..."] | None = eqx.field(kw_only=True, default=None)
    n_choices: int = eqx.field(kw_only=True, static=True, default=2)


class AbstractStimuli(parts.AbstractPlannedTask):
    """A task of stimuli with white noise, each in its epoch."""

    noise: eqx.AbstractVar[Scalar]
    duration: eqx.AbstractVar[float]
    dt: eqx.AbstractVar[float]
    stimulus_input: ClassVar[str] = "stimulus"

    def inputs_of(self, timeline: Timeline, question: Question, *, key: Key[Array, ""]) -> dict[str, Array]:
        """Return the inputs of a trial: the stimulus with noise where it is shown, and the others."""
        stimulus, is_shown = clean_stimulus(timeline, question)
        noise = self.noise if question.noise is None else question.noise
        noisy = parts.with_noise(stimulus, noise, is_shown, dt=self.dt, key=key_stream(key, "noise"))
        return {**_over_time(timeline, question.inputs), self.stimulus_input: noisy}


def clean_stimulus(
    timeline: Timeline, question: Question
) -> tuple[Float[Array, "time channels"], Bool[Array, " time"]]:
    """Return the stimulus without noise, and whether there is one at each time step.

    Outside of its epochs the stimulus is that of the first of them; nothing of it is seen there.
    """
    if unknown := set(question.shown) - set(timeline.epochs):
        raise ValueError(
            f"`shown` must be stimuli of the epochs {sorted(timeline.epochs)}, got also {sorted(unknown)}."
        )
    (stimulus, is_shown), *others = (
        (values, timeline.in_epoch(epoch)) for epoch, values in question.shown.items()
    )
    for values, during in others:
        stimulus = jnp.where(during[:, None], values, stimulus)
        is_shown = is_shown | during
    return jnp.broadcast_to(stimulus, (timeline.n_steps, stimulus.shape[-1])), is_shown


def _over_time(timeline: Timeline, inputs: dict[str, Array]) -> dict[str, Float[Array, "..."]]:
    return {name: jnp.broadcast_to(x, (timeline.n_steps, x.shape[-1])) for name, x in inputs.items()}


class AbstractRule(AbstractStimuli):
    """A task of stimuli that follow from its conditions by a rule."""

    @abc.abstractmethod
    def draws(self) -> dict[str, parts.Drawable]:
        """Return each condition by its random stream, in the order in which `rule` takes them.

        It is a distribution, the number n of equally probable values from 0 to n - 1, or, as an array, the
        probability that it holds. `draw_conditions`, if a task has its own, draws by these probabilities.
        """

    @abc.abstractmethod
    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        """Return what a trial with these conditions shows, and what is right."""


class AbstractGoTask(AbstractStimuli):
    """Noisy stimuli, then a choice: after the go cue, one output of several is correct.

    `epochs` are those between "fixation" and "decision", as long as the fields of their names say, with the
    events that begin them.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    fixation: Drawn = fields.epoch(default=0.1)
    response: parts.GoResponse = fields.part(fields.RESPONSE, default_factory=parts.GoResponse)
    dt: float = fields.time_step(default=0.05)
    epochs: ClassVar[dict[str, str]] = {"stimulus": "stimulus on", "delay": "stimulus off"}

    def __check_init__(self):
        self.response.check(self.plan)

    @property
    def plan(self) -> TrialPlan:
        return self.plan_with(*parts.epochs_of(self, **self.epochs))

    def plan_with(self, *epochs: Epoch) -> TrialPlan:
        """Return the plan of a trial with these epochs between "fixation" and "decision"."""
        fixation = Epoch("fixation", self.fixation)
        return self.response.plan(fixation, *epochs, duration=self.duration, dt=self.dt)

    def go_trial(self, timeline: Timeline, question: Question, *, key: Key[Array, ""]) -> Trial:
        """Return the trial of what is shown and right."""
        choice = jnp.asarray(question.choice)
        if jnp.issubdtype(choice.dtype, jnp.floating):
            low = jnp.floor(choice)
            coin = parts.sign_or_coin(jnp.zeros(()), key=key_stream(key, "coin"))
            choice = jnp.where(choice == low, low, low + coin.astype(low.dtype)).astype(int)
        fixation = {"fixation": self.response.fixation(timeline)}
        inputs = fixation | self.inputs_of(timeline, question, key=key)
        targets = self.response.target(timeline, jax.nn.one_hot(choice, question.n_choices))
        labels = question.conditions | {"choice": choice, "catch": self.response.is_catch(timeline)}
        return Trial((), inputs, targets, timeline, conditions=labels)


class AbstractDelayedChoice(AbstractGoTask, AbstractRule):
    """Base class of choices after a go cue that follow from the conditions by a rule.

    The inputs are "fixation", 1 until the go cue, "stimulus" with white noise, and those of the rule. The
    targets are zero until the go cue, then 1 for the correct output. The validation trials are all
    combinations of conditions; the ideal observer is `choice_probabilities`.

    - `epochs`: the epochs between "fixation" and "decision", each with the event that begins it, or None. An
        epoch is as long as the field of its name says, in seconds. In the timeline, and in what `rule`
        shows, underscores of its name are spaces. By default "stimulus" and "delay".
    - `draws`, `rule`: the conditions, and what they make of a trial, see below.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp
        >>> from popsim import tasks
        >>> class SideOfTwo(tasks.AbstractDelayedChoice):
        ...     "Two lights after each other: after the go cue, report whether they were on one side."
        ...     noise: jax.Array = eqx.field(converter=jnp.asarray, default=0.1)
        ...     light: float = 0.2
        ...     pause: float = 0.1
        ...     second_light: float = 0.2
        ...     duration: float = 1.0
        ...     epochs = {"light": "light on", "pause": "light off", "second_light": "second light on"}
        ...     def draws(self):
        ...         return {"first": 2, "second": 2}
        ...     def rule(self, timeline, draws):
        ...         first, second = draws
        ...         shown = {"light": jax.nn.one_hot(first, 2), "second light": jax.nn.one_hot(second, 2)}
        ...         return tasks.Question(shown, jnp.where(first == second, 0, 1), {"first": first})
        >>> trials = SideOfTwo().validation_trials()
        >>> trials.conditions["choice"].tolist()
        [0, 1, 1, 0]
        >>> tasks.choice_probabilities(SideOfTwo(), trials).argmax(axis=1).tolist()
        [0, 1, 1, 0]

        ```
    """

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        return self.go_trial(timeline, self.rule(timeline, draws), key=key)


def choice_of_sign(evidence: Float[Array, ""]) -> Float[Array, ""]:
    """Return the correct choice of two by positive or negative evidence; 0.5, a coin flip, for zero."""
    return (jnp.sign(evidence) + 1) / 2


def choice_probabilities(
    task: AbstractRule, trials: Trial, condition: str = "choice"
) -> Float[Array, "trial value"]:
    """Return how probable each choice is to an ideal observer of the inputs of trials.

    It knows the task and when stimuli are shown. By Bayes' rule it weighs all combinations of the conditions
    in `draws` of the task, each by its probability and by exp(Σ (x u - u² / 2) dt / σ²), where x is what is
    shown, u what would be without noise, and the sum is over time and channels (Green & Swets 1966, Signal
    Detection Theory and Psychophysics; derived here). It takes the most probable choice, and is right with
    its probability: the mean of these over trials is the accuracy that no network exceeds.

    **Arguments:**

    - `task`, `trials`: a task with a `rule`, which draws from a `Choice` or a number, and stacked trials.
    - `condition`: "choice", or the name of another one of the values 0 and 1, such as "match 1" of
        a `DualDelayedMatchToSample`.
    """
    check_trials("trials", trials)
    if not isinstance(task, AbstractRule) or type(task).plan_for is not parts.AbstractPlannedTask.plan_for:
        raise ValueError(
            f"`task` must have a rule, and times that do not depend on its conditions, got {kind_of(task)}."
        )
    shares = tuple(_shares(name, drawn) for name, drawn in task.draws().items())
    values = tuple(map(parts.all_values, task.draws().values()))
    _check_condition(condition, _labels(task, values, jax.tree.map(lambda x: x[0], trials.timeline)))
    return _probabilities(task, condition, values, shares, trials)


def _check_condition(condition: str, labels: dict[str, Array]) -> None:
    """Raise `ValueError` unless a condition is "choice", or has no other values than 0 and 1."""
    allowed = [
        name
        for name, label in labels.items()
        if name == "choice" or is_traced(label) or set(label.ravel().tolist()) <= {0, 1}
    ]
    if condition not in allowed:
        raise ValueError(f"`condition` must be one of {allowed}, got {condition!r}.")


@jit
def _labels(task: AbstractRule, values: tuple[Array, ...], timeline: Timeline) -> dict[str, Array]:
    """Return the conditions of a task in all cases that there are, and "choice" if it has one."""

    def labels_of(case: tuple[Array, ...]) -> dict[str, Array]:
        question = task.rule(timeline, case)
        choice = {} if question.choice is None else {"choice": jnp.asarray(question.choice)}
        return choice | {name: jnp.asarray(label) for name, label in question.conditions.items()}

    return jax.vmap(labels_of)(parts.combinations_of(*values))


def _shares(name: str, drawn: parts.Drawable) -> Float[Array, " value"]:
    """Return how probable each value of a condition is."""
    if isinstance(drawn, int | Choice | Constant):
        n = drawn if isinstance(drawn, int) else len(parts.nominal_values(drawn))
        return jnp.full(n, 1 / n)
    if isinstance(drawn, AbstractDistribution):
        raise ValueError(
            f"the condition {name!r} of `task.draws()` must be drawn from a Choice, got {kind_of(drawn)}."
        )
    return jnp.stack([1 - drawn, drawn])


@jit
def _probabilities(
    task: AbstractRule, condition: str, values: tuple[Array, ...], shares: tuple[Array, ...], trials: Trial
) -> Float[Array, "trial value"]:
    draws = parts.combinations_of(*values)
    prior = jnp.prod(jnp.stack(parts.combinations_of(*shares)), axis=0)

    def posterior(trial: Trial) -> Float[Array, " value"]:
        def evidence_of(case: tuple[Array, ...]) -> tuple[Array, Array]:
            question = task.rule(trial.timeline, case)
            label = jnp.asarray(question.choice if condition == "choice" else question.conditions[condition])
            label = label.astype(float)
            n_values = question.n_choices if condition == "choice" else 2
            low, high = jnp.floor(label).astype(int), jnp.ceil(label).astype(int)
            weights = jax.nn.one_hot(low, n_values) + jax.nn.one_hot(high, n_values)
            return _log_likelihood(task, trial, question), weights / 2

        log_likelihood, labels = jax.vmap(evidence_of)(draws)
        return jax.nn.softmax(jnp.log(prior) + log_likelihood) @ labels

    return jax.lax.map(posterior, trials, batch_size=32)


def _log_likelihood(task: AbstractRule, trial: Trial, question: Question) -> Float[Array, ""]:
    """Return the log likelihood of inputs, less what is the same in all cases; -inf if they cannot be."""
    clean, is_shown = clean_stimulus(trial.timeline, question)
    seen = trial.inputs[task.stimulus_input]
    noise = jnp.broadcast_to(task.noise if question.noise is None else question.noise, clean.shape[1:])
    is_noisy, during = noise > 0, is_shown[:, None]
    exponents = (seen - clean / 2) * clean / jnp.where(is_noisy, noise, 1.0) ** 2
    exact = jnp.any(during & ~is_noisy & (jnp.abs(seen - clean) > 1e-5))
    is_silent = jnp.any(is_noisy & jnp.all(jnp.where(during, seen == 0, True), axis=0))
    absent = is_silent & jnp.any(is_shown)  # noise is never zero
    others = _over_time(trial.timeline, question.inputs).items()
    differ = [jnp.any(jnp.abs(trial.inputs[name] - values) > 1e-5) for name, values in others]
    is_other = jnp.any(jnp.stack([exact, absent, *differ]))
    total = task.dt * jnp.sum(jnp.where(during & is_noisy, exponents, 0.0))
    return jnp.where(is_other, -jnp.inf, total)


def targets_in_epoch(trials: Trial, epoch: str) -> OutputTarget:
    """Return the targets of trials as those of one choice, of which only the time steps of an epoch count.

    `popsim.choice_accuracy` and `popsim.output_choice` take them, in tasks with several choices in a trial.

    **Arguments:**

    - `trials`, `epoch`: one trial, or stacked trials, and the epoch of the choice, such as "test 1".
    """
    targets = trials.targets
    check_instance("targets", targets, OutputTarget, "an OutputTarget")
    return OutputTarget(targets.values, jnp.where(trials.timeline.in_epoch(epoch), targets.counts, 0.0))
