"""Who follows the rules of a `RingTask` from its inputs, and how often the best observer can be right."""

import equinox as eqx
import jax
import jax.numpy as jnp

from popsim.tasks.rings.ring_rules import EPOCHS, RESPONSES
from popsim.tasks.rings.ring_task import FIXATES

THRESHOLD = 0.2  # of the strength of a stimulus in one time step
N_GRID = 360  # directions that are compared
LEAST_GAP = 5  # time steps without a stimulus before another one
MATCHING = jnp.pi / 18  # rad; half of the smallest difference of stimuli that do not match


def decision_bound(task, trials):
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


@eqx.filter_jit
def _bounds(task, trials):
    return jax.vmap(lambda trial: _bound(task, trial))(trials)


def _bound(task, trial):
    conditions = trial.conditions
    row = jax.tree.map(lambda leaf: leaf[conditions["rule"]], task.rules)
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

    task: object

    def __call__(self, trials):
        """Return its outputs in stacked trials, of which it reads only the inputs."""
        return _observe(self, trials.inputs)

    def _outputs(self, inputs):
        code = self.task.code
        rule = jnp.argmax(jnp.mean(inputs["rule"], axis=0))
        row = jax.tree.map(lambda leaf: leaf[rule], self.task.rules)
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

    def _strengths(self, activity):
        """Return the strength of the strongest stimulus in the activity of a ring."""
        return jnp.max(activity @ self._filters().T, axis=-1)

    def _filters(self):
        coded = self.task.code.encode(_grid())
        return coded / jnp.sum(coded**2, axis=1, keepdims=True)

    def _direction(self, activity):
        return _grid()[jnp.argmax(self._filters() @ activity)]

    def _response(self, row, first, second):
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


@eqx.filter_jit
def _observe(observer, inputs):
    return jax.vmap(observer._outputs)(inputs)


def _grid():
    """Return directions that are compared, none of them at the border of categories."""
    return (jnp.arange(N_GRID, dtype=float) + 0.5) * (2 * jnp.pi / N_GRID)


def _runs(strengths):
    """Return whether a stimulus is shown at each time step, and how many began until then."""
    is_on = jnp.any(strengths > THRESHOLD, axis=0)
    before = jnp.concatenate([jnp.zeros(LEAST_GAP + 1, int), jnp.cumsum(is_on)])
    n_recent = before[LEAST_GAP:-1] - before[: -LEAST_GAP - 1]
    return is_on, jnp.cumsum(is_on & (n_recent == 0))


def _mean_where(rings, where):
    total = jnp.sum(jnp.where(where[:, None], rings, 0.0), axis=1)
    return total / jnp.maximum(jnp.sum(where), 1).astype(total.dtype)
