"""Plants: the bodies that motor commands move."""

from popsim.plants.base import AbstractPlant, AbstractSkeleton, Load, check_carries_mass, check_feels_torque
from popsim.plants.joints import AbstractArm, AbstractJointLimit, HardJointLimit, JointState, SoftJointLimit
from popsim.plants.musculoskeletal import (
    MuscleReadings,
    MusculoskeletalPlant,
    MusculoskeletalState,
    arm26,
    li_todorov_arm,
    muscled_point_mass,
)
from popsim.plants.n_link_arm import NLinkArm
from popsim.plants.point_mass import PointMass, PointMassState
from popsim.plants.simulate import PlantTrajectory, advance, simulate_plant, simulate_plant_adaptively
from popsim.plants.two_link_arm import TwoLinkArm

__all__ = [
    "AbstractArm",
    "AbstractJointLimit",
    "AbstractPlant",
    "AbstractSkeleton",
    "HardJointLimit",
    "JointState",
    "Load",
    "MuscleReadings",
    "MusculoskeletalPlant",
    "MusculoskeletalState",
    "NLinkArm",
    "PlantTrajectory",
    "PointMass",
    "PointMassState",
    "SoftJointLimit",
    "TwoLinkArm",
    "advance",
    "arm26",
    "check_carries_mass",
    "check_feels_torque",
    "li_todorov_arm",
    "muscled_point_mass",
    "simulate_plant",
    "simulate_plant_adaptively",
]
