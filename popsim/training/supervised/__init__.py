"""Training without a task: train steps of any loss function, and of supervised examples."""
