"""Constraints: what holds after each train step. One file each."""

from popsim.training.constraints.abstract import AbstractConstraint as AbstractConstraint
from popsim.training.constraints.dales_law import DalesLaw as DalesLaw
from popsim.training.constraints.dales_law import dale_signs as dale_signs
from popsim.training.constraints.max_norm import MaxNorm as MaxNorm
from popsim.training.constraints.non_negativity import NonNegativity as NonNegativity
from popsim.training.constraints.range import Range as Range
from popsim.training.constraints.sparsity_mask import SparsityMask as SparsityMask
from popsim.training.constraints.spectral_norm import SpectralNorm as SpectralNorm
from popsim.training.constraints.unit_norm import UnitNorm as UnitNorm
from popsim.training.constraints.zero_diagonal import ZeroDiagonal as ZeroDiagonal
