# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What the EP-GRPO paper (arXiv 2605.04960) reports, to set beside one's own numbers.

How the paper measured is not known to us: neither its models and data for these figures, nor how a token was
perturbed, nor what counted as a step. The figures are for orientation.
"""

SOURCE = "arXiv 2605.04960"

PERTURBATION_RATIO = 3.5
"""Accuracy lost by perturbing tokens of high entropy, over that lost with tokens of low entropy."""
RIGHT_STEPS_PUNISHED = 0.515
"""Share of the right steps in failed responses that get a negative advantage."""
WRONG_STEPS_IN_WINNING = 0.066
"""Share of the steps of winning responses that are wrong."""
ZERO_VARIANCE = 0.5877
"""Share of training steps with zero variance; it rises through training."""
