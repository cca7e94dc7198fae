# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny model, tasks with checkable steps and a runner, to see EP-GRPO train on a machine without a GPU."""
