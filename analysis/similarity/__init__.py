"""Similarity of the members of a population.

Measures compare the activity of two members in the same samples, `first` and `second`, with the axes
(sample..., unit); `distances` are those of all pairs of members, see `pairwise`.
"""

from popsim.analysis.similarity import dynamical_similarity, members, representations
from popsim.analysis.similarity.dynamical_similarity import *
from popsim.analysis.similarity.members import *
from popsim.analysis.similarity.representations import *

__all__: list[str] = []
__all__ += dynamical_similarity.__all__
__all__ += members.__all__
__all__ += representations.__all__
