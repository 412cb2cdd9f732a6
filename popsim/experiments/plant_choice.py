"""The bodies that can be chosen by name."""

from collections.abc import Callable, Mapping

from popsim.plants import AbstractPlant, PointMass, TwoLinkArm

PLANTS: Mapping[str, Callable[[], AbstractPlant]] = {
    "arm26": TwoLinkArm.arm26,
    "motornet-arm": TwoLinkArm.motornet,
    "li-todorov-arm": TwoLinkArm.li_todorov,
    "point-mass": PointMass,
}
