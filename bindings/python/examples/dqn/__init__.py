"""A small DQN on top of GEAR: prioritized replay, n-step targets, several actor processes."""
