"""Atari frames through GEAR: stored once, stacked by windows. Data movement, no learning."""
