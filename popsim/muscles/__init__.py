"""Muscles: how activation, length and velocity make force, one law a file; and how they run over bodies."""

from popsim.muscles import paths as paths
from popsim.muscles.abstract import AbstractMuscle as AbstractMuscle
from popsim.muscles.activation import FirstOrderActivation as FirstOrderActivation
from popsim.muscles.arm26_muscles import ARM26_MUSCLES as ARM26_MUSCLES
from popsim.muscles.arm26_muscles import arm26_compliant_muscles as arm26_compliant_muscles
from popsim.muscles.arm26_muscles import arm26_compliant_path as arm26_compliant_path
from popsim.muscles.arm26_muscles import arm26_muscles as arm26_muscles
from popsim.muscles.arm26_muscles import arm26_path as arm26_path
from popsim.muscles.brown_loeb import BrownLoebMuscle as BrownLoebMuscle
from popsim.muscles.compliant_tendon_hill import CompliantTendonHillMuscle as CompliantTendonHillMuscle
from popsim.muscles.hill_curves import HillCurves as HillCurves
from popsim.muscles.li_todorov_muscles import LI_TODOROV_MUSCLES as LI_TODOROV_MUSCLES
from popsim.muscles.li_todorov_muscles import li_todorov_muscles as li_todorov_muscles
from popsim.muscles.li_todorov_muscles import li_todorov_path as li_todorov_path
from popsim.muscles.mujoco import MujocoMuscle as MujocoMuscle
from popsim.muscles.relu import ReluMuscle as ReluMuscle
from popsim.muscles.rigid_tendon import AbstractRigidTendonMuscle as AbstractRigidTendonMuscle
from popsim.muscles.rigid_tendon_hill import RigidTendonHillMuscle as RigidTendonHillMuscle
from popsim.muscles.thelen import ThelenMuscle as ThelenMuscle
