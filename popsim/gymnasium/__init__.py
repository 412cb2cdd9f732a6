"""Tasks and models as Gymnasium environments.

With Gymnasium installed, importing this package registers the tasks of `popsim.tasks.TASKS` in it, such as
"popsim/CenterOut-v0".
"""

import importlib.util
from typing import TYPE_CHECKING

from popsim.gymnasium import episode
from popsim.gymnasium.episode import *

HAS_GYMNASIUM = importlib.util.find_spec("gymnasium") is not None  # which agents and episodes do not need

if TYPE_CHECKING or HAS_GYMNASIUM:
    from popsim.gymnasium.env import TaskEnv, register_environments
    from popsim.gymnasium.vector_env import TaskVectorEnv

    register_environments()

__all__ = ["TaskEnv", "TaskVectorEnv", "register_environments"]
__all__ += episode.__all__


def __getattr__(name: str):
    """Say what is missing where Gymnasium is not installed."""
    if name in __all__:
        raise ImportError(f'popsim.gymnasium.{name} needs Gymnasium: pip install "popsim[gymnasium]".')
    raise AttributeError(f"module 'popsim.gymnasium' has no attribute {name!r}")
