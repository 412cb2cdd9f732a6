"""Measures of recorded weights and how learning changed them."""

from popsim.analysis.trainables import directions, recorded, spectra
from popsim.analysis.trainables.directions import *
from popsim.analysis.trainables.recorded import *
from popsim.analysis.trainables.spectra import *

__all__: list[str] = []
__all__ += directions.__all__
__all__ += recorded.__all__
__all__ += spectra.__all__
