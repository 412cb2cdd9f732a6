"""Muscle paths: how muscles run over a body. One file each."""

from popsim.muscles.paths.abstract import AbstractMusclePath as AbstractMusclePath
from popsim.muscles.paths.constant_moment_arms import ConstantMomentArmPath as ConstantMomentArmPath
from popsim.muscles.paths.kinematics import generalised_force as generalised_force
from popsim.muscles.paths.kinematics import moment_arms as moment_arms
from popsim.muscles.paths.kinematics import path_velocity as path_velocity
from popsim.muscles.paths.placement import AbstractPlacement as AbstractPlacement
from popsim.muscles.paths.placement import ChainPlacement as ChainPlacement
from popsim.muscles.paths.placement import PointMassPlacement as PointMassPlacement
from popsim.muscles.paths.polynomial import PolynomialPath as PolynomialPath
from popsim.muscles.paths.straight import StraightPath as StraightPath
