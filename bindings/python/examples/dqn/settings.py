"""Hyperparameters of the CartPole agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """One run's constants; every process of the run holds the same ones."""

    observation_size: int = 4
    action_count: int = 2
    hidden: int = 128

    discount: float = 0.99
    n_step: int = 3
    learning_rate: float = 1e-3
    learning_rate_end: float = 2e-4  # reached after `anneal_updates`
    huber_delta: float = 1.0
    gradient_norm_max: float = 1.0
    target_rate: float = 0.01  # share of the online network the target takes over each update

    batch_rows: int = 128
    capacity_steps: int = 50_000
    warmup_steps: int = 1_000
    priority_alpha: float = 0.6
    beta_begin: float = 0.4
    beta_end: float = 1.0
    anneal_updates: int = 10_000

    # Actor 0 acts almost greedily and is the one whose returns count; the others explore.
    epsilon_evaluate: float = 0.001
    epsilon_explore_min: float = 0.02
    epsilon_explore_max: float = 0.20
    epsilon_updates: int = 1_000  # explorers go from epsilon 1 to their own within these

    samples_per_step: float = 8.0  # draws the learner makes for each step the actors append
    lead_steps: int = 1024  # how far the actors may run ahead of that ratio
    publish_period_updates: int = 25
    steps_between_refreshes: int = 8  # of an actor, each in all of its lanes

    def beta(self, updates: int) -> float:
        """Exponent of the importance weights after `updates` (annealed linearly)."""
        fraction = min(1.0, updates / self.anneal_updates)
        return self.beta_begin + (self.beta_end - self.beta_begin) * fraction

    def step_size(self, updates: int) -> float:
        """Adam's learning rate after `updates` (annealed linearly)."""
        fraction = min(1.0, updates / self.anneal_updates)
        return self.learning_rate + (self.learning_rate_end - self.learning_rate) * fraction

    def epsilon(self, actor: int, actors: int, updates: int) -> float:
        """Chance of a random action for `actor` of `actors` after `updates`."""
        if actor == 0:
            return self.epsilon_evaluate
        share = (actor - 1) / max(1, actors - 2)
        ratio = self.epsilon_explore_max / self.epsilon_explore_min
        own: float = self.epsilon_explore_min * ratio**share
        return max(own, 1.0 - updates / self.epsilon_updates)

    def steps_due(self, updates: int) -> int:
        """Steps that all actors together must have appended before the update after `updates`.

        The learner waits for these; the actors wait once they are `lead_steps` beyond. So the
        ratio of draws to steps holds on machines of any speed and load.
        """
        return self.warmup_steps + int(updates * self.batch_rows / self.samples_per_step)
