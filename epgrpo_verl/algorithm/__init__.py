# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The maths of EP-GRPO on torch tensors: one function per equation, no dependency on verl."""

from .config import EPGRPOConfig
from .ep_grpo import ep_grpo_advantage
from .groups import last_output_rows
from .metrics import METRICS, ep_grpo_metrics
from .result import EPGRPOResult

__all__ = ["METRICS", "EPGRPOConfig", "EPGRPOResult", "ep_grpo_advantage", "ep_grpo_metrics", "last_output_rows"]
