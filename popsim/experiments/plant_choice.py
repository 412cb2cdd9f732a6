"""The bodies that can be chosen by name."""

from collections.abc import Callable, Mapping

from popsim.plants import AbstractPlant, PointMass, TwoLinkArm

PLANTS: Mapping[str, Callable[[], AbstractPlant]] = {
    "two-link-arm": TwoLinkArm.arm26,
    "two-link-arm-motornet": TwoLinkArm.motornet,
    "two-link-arm-li-todorov": TwoLinkArm.li_todorov,
    "point-mass": PointMass,
}
