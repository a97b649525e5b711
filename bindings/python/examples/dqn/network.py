"""A two-hidden-layer Q network and Adam, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class QNetwork:
    """Q(s, .) for a batch of observations: two ReLU layers and a linear head.

    All parameters live in one flat float32 vector, `parameters`, so that publishing them and
    copying them to a target network is one copy. Not safe for use by several threads.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, seed: int = 0) -> None:
        sizes = [(inputs, hidden), (hidden, hidden), (hidden, outputs)]
        self.parameters: Floats = np.zeros(sum(i * o + o for i, o in sizes), np.float32)
        self._layers = self._split(self.parameters, sizes)
        self._sizes = sizes
        rng = np.random.default_rng(seed)
        for weight, _ in self._layers:
            # He et al., Delving Deep into Rectifiers, 2015, eq. 10.
            weight[...] = rng.normal(0.0, np.sqrt(2.0 / weight.shape[0]), weight.shape)
        self._layers[-1][0][...] *= 0.1

    @staticmethod
    def _split(vector: Floats, sizes: list[tuple[int, int]]) -> list[tuple[Floats, Floats]]:
        layers, begin = [], 0
        for inputs, outputs in sizes:
            weight = vector[begin : begin + inputs * outputs].reshape(inputs, outputs)
            begin += inputs * outputs
            layers.append((weight, vector[begin : begin + outputs]))
            begin += outputs
        return layers

    def values(self, observations: Floats) -> Floats:
        """[rows, inputs] -> [rows, actions]."""
        return self._forward(observations)[-1]

    def _forward(self, observations: Floats) -> list[Floats]:
        activations = [observations]
        for weight, bias in self._layers[:-1]:
            activations.append(np.maximum(activations[-1] @ weight + bias, 0.0))
        weight, bias = self._layers[-1]
        activations.append(activations[-1] @ weight + bias)
        return activations

    def gradient(
        self,
        observations: Floats,
        actions: NDArray[np.int64],
        targets: Floats,
        weights: Floats,
        huber_delta: float,
    ) -> tuple[Floats, Floats]:
        """Gradient of the weighted Huber loss of Q(s, a) against `targets`.

        observations [rows, inputs]; actions, targets, weights [rows].
        Returns (gradient [parameters], TD errors [rows]).
        """
        activations = self._forward(observations)
        rows = np.arange(len(actions))
        errors = activations[-1][rows, actions] - targets
        delta = np.zeros_like(activations[-1])
        delta[rows, actions] = np.clip(errors, -huber_delta, huber_delta) * weights / len(rows)

        gradient = np.empty_like(self.parameters)
        parts = self._split(gradient, self._sizes)
        for index in range(len(self._layers) - 1, -1, -1):
            np.matmul(activations[index].T, delta, out=parts[index][0])
            delta.sum(axis=0, out=parts[index][1])
            if index:
                delta = (delta @ self._layers[index][0].T) * (activations[index] > 0.0)
        return gradient, errors


class Adam:
    """Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1."""

    def __init__(self, size: int, gradient_norm_max: float) -> None:
        self._first = np.zeros(size, np.float32)
        self._second = np.zeros(size, np.float32)
        self._steps = 0
        self._gradient_norm_max = gradient_norm_max

    def apply(self, parameters: Floats, gradient: Floats, step_size: float) -> None:
        """Moves `parameters` in place; the gradient is scaled down to the norm allowed."""
        norm = float(np.sqrt(gradient @ gradient))
        if norm > self._gradient_norm_max:
            gradient = gradient * np.float32(self._gradient_norm_max / norm)
        self._steps += 1
        self._first += np.float32(0.1) * (gradient - self._first)
        self._second += np.float32(0.001) * (gradient * gradient - self._second)
        first_scale = 1.0 - 0.9**self._steps
        second_scale = 1.0 - 0.999**self._steps
        denominator = np.sqrt(self._second / np.float32(second_scale))
        denominator += np.float32(1e-8)
        parameters -= np.float32(step_size / first_scale) * self._first / denominator
