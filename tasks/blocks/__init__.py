"""Choices whose prior or rule changes between the blocks of a session."""

from popsim.tasks.blocks import block_decisions, hierarchical_reasoning
from popsim.tasks.blocks.block_decisions import *
from popsim.tasks.blocks.hierarchical_reasoning import *

__all__: list[str] = []
__all__ += block_decisions.__all__
__all__ += hierarchical_reasoning.__all__
