"""Interventions: perturbations of a model during a trial."""

from popsim import intervention
from popsim.intervention import *
from popsim.interventions import cursor, forces, intervention_plan, noise, units
from popsim.interventions.cursor import *
from popsim.interventions.forces import *
from popsim.interventions.intervention_plan import *
from popsim.interventions.noise import *
from popsim.interventions.units import *
from popsim.trial import InterventionSchedule

__all__ = ["InterventionSchedule"]
__all__ += intervention.__all__
__all__ += cursor.__all__
__all__ += forces.__all__
__all__ += noise.__all__
__all__ += intervention_plan.__all__
__all__ += units.__all__
