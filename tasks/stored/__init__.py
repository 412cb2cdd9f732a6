"""Trials made elsewhere."""

from popsim.tasks.stored import stored_choices, stored_trials
from popsim.tasks.stored.stored_choices import *
from popsim.tasks.stored.stored_trials import *

__all__: list[str] = []
__all__ += stored_choices.__all__
__all__ += stored_trials.__all__
