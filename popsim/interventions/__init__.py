"""Interventions: perturbations of a model during a trial."""

from popsim.interventions.base import (
    AbstractIntervention,
    Stage,
    check_interventions,
    check_scheduled,
    external_load,
    intervene,
    prepare,
)
from popsim.interventions.cursor import CursorGain, CursorRotation, CursorShift
from popsim.interventions.forces import (
    ConstantForce,
    CurlField,
    ElasticField,
    ElasticFieldParameters,
    ForceChannel,
    ForceChannelParameters,
    JointTorque,
    LoadMass,
    ViscousField,
)
from popsim.interventions.noise import CommandNoise, FeedbackNoise, ForceNoise, InputNoise, UnitNoise
from popsim.interventions.plan import FromTrial, InterventionPlan
from popsim.interventions.units import (
    ClampUnits,
    ClampUnitsParameters,
    SilenceUnits,
    StimulateUnits,
    UnitInput,
)
from popsim.trial import InterventionSchedule, schedule_intervention

__all__ = [
    "FromTrial",
    "InterventionPlan",
    "InterventionSchedule",
    "schedule_intervention",
    "AbstractIntervention",
    "ClampUnits",
    "ClampUnitsParameters",
    "CommandNoise",
    "ConstantForce",
    "CurlField",
    "CursorGain",
    "CursorRotation",
    "CursorShift",
    "ElasticField",
    "ElasticFieldParameters",
    "FeedbackNoise",
    "ForceChannel",
    "ForceChannelParameters",
    "ForceNoise",
    "InputNoise",
    "JointTorque",
    "LoadMass",
    "SilenceUnits",
    "Stage",
    "StimulateUnits",
    "UnitInput",
    "UnitNoise",
    "ViscousField",
    "check_interventions",
    "check_scheduled",
    "intervene",
    "external_load",
    "prepare",
]
