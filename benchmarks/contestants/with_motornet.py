"""Work of the same sizes in MotorNet: its point mass with four muscles, or arm26 with rigid tendons.

One member; an ensemble costs its members one after the other.
"""

import motornet  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
from contestants import worker


def main() -> None:
    """Train, turn by turn."""
    work = worker.options()
    torch.set_num_threads(work.devices)
    clock = worker.Clock()
    if work.body == "point-mass":
        effector = motornet.effector.ReluPointMass24(timestep=0.05)
    else:
        muscle = motornet.muscle.RigidTendonHillMuscle()
        effector = motornet.effector.RigidTendonArm26(muscle=muscle, timestep=0.01)
    environment = motornet.environment.RandomTargetReach(
        effector=effector,
        max_ep_duration=work.steps * effector.dt,
        action_noise=0.025,
        proprioception_noise=0.025,
        vision_noise=0.025,
    )
    n_inputs, n_outputs = environment.observation_space.shape[0], environment.action_space.shape[0]
    policy = motornet.policy.PolicyGRU(n_inputs, work.units, n_outputs, torch.device("cpu"))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    late = torch.linspace(1 / work.steps, 1.0, work.steps)[:, None] ** 6

    def train(n_batches: int) -> None:
        for _ in range(n_batches):
            hidden = policy.init_hidden(work.trials)
            observation, info = environment.reset(options={"batch_size": work.trials})
            paths, actions, activities = [], [], []
            for _ in range(work.steps):
                action, hidden = policy(observation, hidden)
                observation, _, _, _, info = environment.step(action)
                paths.append(info["states"]["fingertip"])
                actions.append(action)
                activities.append(hidden[0])
            error = (late * ((torch.stack(paths) - info["goal"]) ** 2).sum(-1)).sum(0)
            speed = (info["states"]["cartesian"][:, 2:] ** 2).sum(-1)
            costs = sum((torch.stack(x) ** 2).sum((0, 2)) for x in (actions, activities))
            optimizer.zero_grad()
            (error + speed + 1e-5 * costs).mean().backward()
            optimizer.step()

    clock.take_turns(train, work)


if __name__ == "__main__":
    main()
