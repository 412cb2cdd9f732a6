"""What the units of a network did together."""

from popsim.analysis.population.cosine_tuning import CosineTuning as CosineTuning
from popsim.analysis.population.cosine_tuning import cosine_tuning as cosine_tuning
