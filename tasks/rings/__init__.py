"""Many rules of response on rings of units, and suites of them."""

from popsim.tasks.rings import ring_rules, ring_task, suites
from popsim.tasks.rings.ring_rules import *
from popsim.tasks.rings.ring_task import *
from popsim.tasks.rings.suites import *

__all__: list[str] = []
__all__ += ring_rules.__all__
__all__ += ring_task.__all__
__all__ += suites.__all__
