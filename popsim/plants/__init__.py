"""Plants: the bodies that commands move. One file each."""

from popsim.plants.abstract import AbstractPlant as AbstractPlant
from popsim.plants.integrate import advance as advance
from popsim.plants.point_mass import PointMass as PointMass
from popsim.plants.point_mass import PointMassState as PointMassState
from popsim.plants.simulate_plant import PlantTrajectory as PlantTrajectory
from popsim.plants.simulate_plant import simulate_plant as simulate_plant
from popsim.plants.two_link_arm import JointState as JointState
from popsim.plants.two_link_arm import TwoLinkArm as TwoLinkArm
