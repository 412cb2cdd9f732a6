"""Tasks and models as Gymnasium environments."""

import importlib
from typing import TYPE_CHECKING

from popsim.gymnasium.agent import Agent, agent_loop, agent_network_model, default_limits, with_agent
from popsim.gymnasium.episode import Episode, StepRewards, advance_episode, begin_episode

if TYPE_CHECKING:
    from popsim.gymnasium.env import TaskEnv

__all__ = [
    "Agent",
    "Episode",
    "StepRewards",
    "TaskEnv",
    "advance_episode",
    "agent_network_model",
    "agent_loop",
    "begin_episode",
    "default_limits",
    "with_agent",
]


def __getattr__(name: str):
    """Import `TaskEnv` on first access, because agents and episodes do not need Gymnasium."""
    if name == "TaskEnv":
        return importlib.import_module("popsim.gymnasium.env").TaskEnv
    raise AttributeError(f"module 'popsim.gymnasium' has no attribute {name!r}")
