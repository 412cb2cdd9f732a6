"""Population-based training: the members that do best replace those that do worst, with changed settings."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Num, Shaped

from popsim._compiled import jit_fast_compile
from popsim._shared.argument_shapes import check_one_number
from popsim._shared.checks import check_instance, check_positive, is_number, short_repr, warn_caller
from popsim._shared.plain_values import plain_number
from popsim.distributions import AbstractDistribution
from popsim.per_member import aligned_mask
from popsim.randomness import as_key
from popsim.training.population_updates.base import (
    AbstractPopulationUpdate,
    Population,
    RandomKey,
    Record,
    State,
    ValidationResults,
    as_hyperparameters,
)

__all__ = [
    "AbstractExploit",
    "AbstractExplore",
    "BinaryTournament",
    "Perturb",
    "PopulationBasedTraining",
    "Resample",
    "Truncation",
    "ancestors",
]


class AbstractExploit(eqx.Module):
    """Base class of the rules for who replaces whom. Subclasses implement `parents`.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp
        >>> from popsim.training import AbstractExploit
        >>> class BestForAll(AbstractExploit):
        ...     def parents(self, scores, *, key):
        ...         return jnp.full(scores.shape, jnp.argmin(scores))
        >>> BestForAll().parents(jnp.array([3.0, 1.0, 2.0]), key=jax.random.key(0)).tolist()
        [1, 1, 1]

        ```
    """

    @abc.abstractmethod
    def parents(self, scores: Float[Array, " member"], *, key: Key[Array, ""]) -> Int[Array, " member"]:
        """Return for each member the place of the one whose weights it takes; its own if it keeps them.

        Low scores are good; infinite ones are of members whose numbers are not finite.
        """


class Truncation(AbstractExploit):
    """The worst members take the weights of one of the best, each drawn uniformly (Jaderberg et al. 2017,
    arXiv 1711.09846, section 4.1: "truncation selection").

    **Arguments:**

    - `fraction`: the fraction of members that are replaced, and of those that replace them; at least one.
        Members whose numbers are not finite replace nobody. Among equal scores the order is drawn, and nobody
        is replaced by a member that is no better.
    """

    fraction: float = eqx.field(static=True, converter=plain_number, default=0.2)

    def __check_init__(self):
        if not is_number(self.fraction) or not 0 < self.fraction <= 0.5:
            raise ValueError(f"`fraction` must be above 0 and at most 0.5, got {short_repr(self.fraction)}.")

    def parents(self, scores: Float[Array, " member"], *, key: Key[Array, ""]) -> Int[Array, " member"]:
        n_members = scores.shape[0]
        n_replaced = max(1, int(self.fraction * n_members + 1e-9))  # 0.29 x 100 is a little less than 29
        lots = jax.random.permutation(jax.random.fold_in(as_key(key), 1), n_members)
        order = jnp.lexsort((lots, scores))  # by scores, and by lots where these are equal
        # Infinite scores sort last: with fewer finite ones than places, the best are all that are finite.
        n_best = jnp.clip(jnp.isfinite(scores).sum(), 1, n_replaced)
        parent_places = order[jax.random.randint(as_key(key), (n_members,), 0, n_best)]
        worst = jnp.zeros(n_members, bool).at[order[n_members - n_replaced :]].set(True)
        is_replaced = worst & (scores[parent_places] < scores)
        return jnp.where(is_replaced, parent_places, jnp.arange(n_members))


class BinaryTournament(AbstractExploit):
    """Each member takes the weights of another, drawn uniformly, if it is better (Jaderberg et al. 2017)."""

    def parents(self, scores: Float[Array, " member"], *, key: Key[Array, ""]) -> Int[Array, " member"]:
        n_members = scores.shape[0]
        members = jnp.arange(n_members)
        # An offset from 1 to n - 1 draws each of the others equally often, and never the member itself.
        opponents = (members + jax.random.randint(as_key(key), members.shape, 1, n_members)) % n_members
        return jnp.where(scores[opponents] < scores, opponents, members)


class AbstractExplore(eqx.Module):
    """Base class of the changes to a hyperparameter of a member that was replaced.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp
        >>> from popsim.training import AbstractExplore
        >>> class Halve(AbstractExplore):
        ...     def __call__(self, value, *, key):
        ...         return value / 2
        >>> Halve()(jnp.array(0.5), key=jax.random.key(0)).item()
        0.25

        ```
    """

    @abc.abstractmethod
    def __call__(self, value: Shaped[Array, "..."], *, key: Key[Array, ""]) -> Shaped[Array, "..."]:
        """Return the hyperparameter of a member, from that of its parent."""


class Perturb(AbstractExplore):
    """Multiply by `low` or `high`, each with probability one half (Jaderberg et al. 2017, section 4.1)."""

    low: float = eqx.field(static=True, converter=plain_number, default=0.8)
    high: float = eqx.field(static=True, converter=plain_number, default=1.2)

    def __check_init__(self):
        for name in ("low", "high"):
            check_one_number(name, getattr(self, name))
            check_positive(name, getattr(self, name))

    def __call__(self, value: Shaped[Array, "..."], *, key: Key[Array, ""]) -> Shaped[Array, "..."]:
        rises = jax.random.bernoulli(as_key(key), 0.5, value.shape)
        return value * jnp.where(rises, self.high, self.low).astype(value.dtype)


class Resample(AbstractExplore):
    """Draw anew from one of `popsim.distributions` (Jaderberg et al. 2017, section 4.1: "resample")."""

    distribution: AbstractDistribution

    def __check_init__(self):
        check_instance("distribution", self.distribution, AbstractDistribution, "of popsim.distributions")

    def __call__(self, value: Shaped[Array, "..."], *, key: Key[Array, ""]) -> Shaped[Array, "..."]:
        return jnp.broadcast_to(self.distribution.sample(key=key), value.shape).astype(value.dtype)


class PopulationBasedTraining(AbstractPopulationUpdate):
    """Population-based training (Jaderberg et al. 2017, arXiv 1711.09846): the population trains itself.

    Every `every` batches the members are scored; some take weights, optimizer state and hyperparameters of
    better ones (*exploit*), and these hyperparameters are then changed (*explore*). All happens on the
    devices. A member whose numbers were not finite scores worst, and trains again once it is replaced. Draws
    depend on the place of a member in the ensemble, not on its id, which repeats in a grid.

    ```python
    rates = PerMember(jnp.geomspace(1e-4, 1e-1, 16))
    trainer = TaskTrainer(adam(rates), population_updates=[PopulationBasedTraining(every=50)])
    ```

    At each selection the history records, on the axis "selection_batch", the "parent" of each member (its
    place in the population; its own if it kept its weights), the "selection_score" before, and the
    hyperparameters afterwards. Members that another update has stopped take part; one that is replaced is
    stopped if its parent is. Scores on trials that selection used are biased: test on others.

    **Arguments:**

    - `every`: the number of batches between selections.
    - `exploit`: who replaces whom: `Truncation`, `BinaryTournament`, or a rule of your own.
    - `explore`: how hyperparameters are changed: `Perturb`, `Resample`, or by hyperparameter one of them.
    - `hyperparameters`: the names of those that are inherited and changed; by default every `PerMember` of
        the optimizer, the task, the model updates and the post-step functions. Hyperparameters that
        `popsim.training.inject_hyperparams` put into the optimizer may be named, too.
    - `score`: `(states, trials) -> numbers`, one for each member, low for good ones, from the states of the
        validation trials, with axes (member, trial, time, ...). Members whose score is not finite rank last;
        if it is finite for none, all keep their weights, with a warning. By default the total validation
        loss, which does not compare between members if its weights are hyperparameters.
    """

    every: int = eqx.field(static=True, converter=plain_number)
    exploit: AbstractExploit = Truncation()
    explore: AbstractExplore | Mapping[str, AbstractExplore] = Perturb()
    hyperparameters: tuple[str, ...] | None = eqx.field(
        static=True, converter=as_hyperparameters, default=None
    )
    score: Callable[[Any, Any], Any] | None = eqx.field(static=True, default=None)
    replaces: ClassVar[bool] = True
    recorded_as: ClassVar[str | None] = "selection"

    def __check_init__(self):
        check_instance("exploit", self.exploit, AbstractExploit, "a rule such as Truncation(0.2)")
        for rule in self.explore.values() if isinstance(self.explore, Mapping) else [self.explore]:
            check_instance("explore", rule, AbstractExplore, "such as Perturb(0.8, 1.2)")

    def exploration_rule(self, name: str) -> AbstractExplore:
        """Return how a hyperparameter is changed."""
        if not isinstance(self.explore, Mapping):
            return self.explore
        if name not in self.explore:
            raise ValueError(f"`explore` must have each of the hyperparameters, got none for {name!r}.")
        return self.explore[name]

    def init(self, population: Population) -> tuple[Population, State]:
        if population.size < 2:
            raise ValueError(
                f"PopulationBasedTraining needs an ensemble of two members or more, got {population.size}."
            )
        if not population.hyperparameters:
            raise ValueError(
                "PopulationBasedTraining must have hyperparameters to change, and there is none: give one as "
                "PerMember, such as adam(PerMember(rates))."
            )
        for name in population.hyperparameters:
            self.exploration_rule(name)
        return population, {}

    def __call__(
        self, population: Population, results: ValidationResults, state: State, *, batch: int, key: RandomKey
    ) -> tuple[Population, State, Record]:
        scores = population.gather_scores(self._scores(population, results))
        if not np.isfinite(np.asarray(scores)).any():
            scored = "the validation loss" if self.score is None else "`score`"
            warn_caller(
                f"{scored} of the selection must be finite for some member, and was for none: all keep their "
                "weights."
            )
        places = jnp.asarray(population.places)
        # Each training of a divided population computes the parents of all members, from the same scores and
        # key, and takes those of its own: only scores need to be exchanged for that.
        parents = select_parents(self, scores, key=key)[places]
        after = population.take(parents)
        values = values_after_selection(
            self, after.hyperparameters, population.hyperparameters, places, parents, key=key
        )
        after = dataclasses.replace(after, hyperparameters=values)
        return after, state, {"parent": parents, "selection_score": scores[places]}

    def _scores(self, population: Population, results: ValidationResults) -> Float[Array, " member"]:
        scores = results.losses.total.mean(axis=-1)
        if self.score is not None:
            scores = jnp.asarray(self.score(results.states, results.trials), scores.dtype)
            if scores.shape != (population.n_members,):
                raise ValueError(
                    f"`score` of the selection must return a number for each of the {population.n_members} "
                    f"members, got shape {scores.shape}."
                )
        return jnp.where(population.frozen, jnp.inf, scores)


@jit_fast_compile
def select_parents(
    rule: PopulationBasedTraining, scores: Float[Array, " member"], *, key: Key[Array, ""]
) -> Int[Array, " member"]:
    """Return for each member of a population the place of the one whose weights it takes.

    Where no score is finite nothing can be compared, and all keep their own.
    """
    # A NaN would compare as neither better nor worse, and minus infinity as best of all.
    comparable = jnp.where(jnp.isfinite(scores), scores, jnp.inf)
    parents = rule.exploit.parents(comparable, key=jax.random.split(as_key(key))[0])
    return jnp.where(jnp.any(jnp.isfinite(scores)), parents, jnp.arange(scores.shape[0]))


@jit_fast_compile
def values_after_selection(
    rule: PopulationBasedTraining,
    inherited: Mapping[str, Shaped[Array, "member ..."]],
    own_values: Mapping[str, Shaped[Array, "member ..."]],
    places: Int[Array, " member"],
    parents: Int[Array, " member"],
    *,
    key: Key[Array, ""],
) -> dict[str, Shaped[Array, "member ..."]]:
    """Return the hyperparameters of members after a selection, by name."""
    explore_key = jax.random.split(as_key(key))[1]
    explored = {}
    # By sorted name, so that draws do not depend on the order in which hyperparameters were given.
    for number, (name, values) in enumerate(sorted(own_values.items())):
        keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(explore_key, number), places)
        change = rule.exploration_rule(name)
        changed = jax.vmap(lambda value, key, change=change: change(value, key=key))(inherited[name], keys)
        explored[name] = jnp.where(aligned_mask(parents != places, values), changed, values)
    return explored


def ancestors(parent: Num[np.ndarray, "selection member"]) -> Int[np.ndarray, "selection member"]:
    """Return for each member at the end the place of its ancestor before each selection.

    **Arguments:**

    - `parent`: the parents at each selection, as `history.updates["selection"]["parent"]`, or as the `parent`
        of the history of a sweep.
    """
    parent = np.asarray(parent)
    if not np.all((parent >= 0) & (parent < parent.shape[1])):
        raise ValueError(
            f"`parent` must be of members 0 to {parent.shape[1] - 1}, got {np.min(parent)} to "
            f"{np.max(parent)}: give the parents of the whole population."
        )
    parent = parent.astype(int)
    lines = np.empty_like(parent)
    place = np.arange(parent.shape[1])
    # Backwards from the members at the end: of most members at the start, nothing is left.
    for row in range(len(parent) - 1, -1, -1):
        place = parent[row][place]
        lines[row] = place
    return lines
