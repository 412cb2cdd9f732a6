"""Measures of recorded weights and how learning changed them."""

from popsim.analysis.trainables import directions, spectra, trainable_arrays
from popsim.analysis.trainables.directions import *
from popsim.analysis.trainables.spectra import *
from popsim.analysis.trainables.trainable_arrays import *

__all__: list[str] = []
__all__ += directions.__all__
__all__ += trainable_arrays.__all__
__all__ += spectra.__all__
