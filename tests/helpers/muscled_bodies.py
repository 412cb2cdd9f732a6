"""Every body with muscles, with every law of muscle force that it takes."""

import functools

from short_form import mostly_in_full

from popsim import muscles, plants

LAWS = {
    "ReLU": muscles.ReluMuscle,
    "rigid Hill": muscles.RigidTendonHillMuscle,
    "compliant Hill": muscles.CompliantTendonHillMuscle,
    "Thelen": muscles.ThelenMuscle,
    "MuJoCo-style": muscles.MujocoMuscle,
    "Brown fast": muscles.BrownLoebMuscle.fast,
    "Brown slow": muscles.BrownLoebMuscle.slow,
}
BODIES = {
    **{f"arm26, {name}": functools.partial(plants.arm26, law) for name, law in LAWS.items()},
    "Li & Todorov arm": plants.li_todorov_arm,
    "point mass, ReLU": plants.muscled_point_mass,
    "point mass, rigid Hill": functools.partial(plants.muscled_point_mass, muscles.RigidTendonHillMuscle),
}
IN_SHORT = ("arm26, compliant Hill", "point mass, ReLU")


def each_body():
    """All bodies as parameters of a test; in short, an arm and a mass."""
    names = {build: name for name, build in BODIES.items()}
    return mostly_in_full(names, IN_SHORT, name_of=names.get)
