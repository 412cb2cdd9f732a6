"""What a member carries from batch to batch beside its model and its optimizer's state."""

import equinox as eqx
from jaxtyping import Array, Int, PyTree

from popsim.loss import Loss

NEVER = -1


class MemberCarry(eqx.Module):
    """The `loss_fn_state` of the trainer.

    - `loss`: the loss as loss updates left it; None where nothing updates it.
    - `updates`: what each model update carries.
    - `frozen_from`: the batch from which on the member is frozen; -1 if it is not.
    """

    loss: Loss | None
    updates: tuple[PyTree[Array], ...]
    frozen_from: Int[Array, "*member"]
