"""What networks did in bandits, as a table that an experiment would have."""

import dataclasses

import jax
import numpy as np

import popsim
from popsim import losses
from popsim.policies import Categorical

KEY = jax.random.key(0)


def played(ensemble, bandit):
    """What members without a policy do in the validation trials of a bandit."""
    task = dataclasses.replace(bandit, loss=1.0 * losses.Entropy())
    players = dataclasses.replace(ensemble, policy=Categorical(ensemble.network.n_outputs))
    return popsim.evaluate_ensemble(players, task, key=KEY).states.interaction


def table_of(interaction):
    """A row for each choice of each subject, whose sessions have numbers of their own."""
    subject, session, _ = np.indices(interaction.action.shape)
    columns = {
        "subject": subject,
        "session": session + subject * interaction.action.shape[1],
        "choice": interaction.action,
        "reward": interaction.reward,
    }
    return {name: np.asarray(column).ravel() for name, column in columns.items()}
