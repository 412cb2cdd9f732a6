"""In which order stored trials train, and over what their losses are means."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from popsim.loss import Loss
from popsim.losses.profiles import AbstractWeightedMean
from popsim.parameters import replace_fields
from popsim.per_member import PerMember
from popsim.randomness import key_stream, seed_key
from popsim.tasks.stored._stored_arrays import NO_TRIAL
from popsim.trial import Trial

Order = Literal["drawn", "epochs", "all"]
Normalise = Literal["trial", "all"]
Numbers = Int[Array, " train"]


def numbers_of_members(numbers: Numbers | PerMember) -> Int[Array, "*member train"]:
    """Return numbers of trials, of all members where they differ."""
    return numbers.values if isinstance(numbers, PerMember) else numbers


def n_training_trials(train: Numbers) -> Int[Array, ""]:
    """Return how many trials a member trains."""
    return jnp.sum(train != NO_TRIAL)


def places_in_epochs(train: Numbers, batch: int | Int[Array, ""], n: int) -> Int[Array, " n"]:
    """Return the places in `train` of the `n` trials of a batch, from epochs that follow one another."""
    epochs, places = jnp.divmod(jnp.asarray(batch) * n + jnp.arange(n), n_training_trials(train))

    def shuffled(epoch: Int[Array, ""]) -> Numbers:
        key = jax.random.fold_in(key_stream(seed_key(0), "order of an epoch"), epoch)
        return jnp.argsort(jnp.where(train == NO_TRIAL, jnp.inf, jax.random.uniform(key, train.shape)))

    def with_epoch(epoch: Int[Array, ""], found: Int[Array, " n"]) -> Int[Array, " n"]:
        return jnp.where(epochs == epoch, shuffled(epoch)[places], found)

    # A batch has the end of one epoch and the beginning of the next, or more where members have few trials.
    return jax.lax.fori_loop(epochs[0], epochs[-1] + 1, with_epoch, places)


def normalised_loss(loss: Loss, trials: Trial, train: Numbers | PerMember, normalise: Normalise) -> Loss:
    """Return a loss with what divides the sums of its terms over each of the stacked trials."""
    if normalise not in ("trial", "all"):
        raise ValueError(f'`normalise` must be "trial" or "all", got {normalise!r}.')
    if normalise == "all" and not any(isinstance(term, AbstractWeightedMean) for term in loss.terms):
        raise ValueError(
            '`loss` must have a mean over time steps that count, such as CrossEntropy, for normalise="all", '
            f"got {[term.name for term in loss.terms]}."
        )

    def total_of(term: AbstractWeightedMean) -> Any:
        if normalise == "trial":
            return None
        numbers = numbers_of_members(train)
        mean = jnp.mean(term.trial_weights(trials)[numbers], axis=-1, where=numbers != NO_TRIAL)
        return PerMember(mean) if isinstance(train, PerMember) else mean

    terms = [
        replace_fields(term, total=total_of(term)) if isinstance(term, AbstractWeightedMean) else term
        for term in loss.terms
    ]
    return Loss(terms, loss.weights)
