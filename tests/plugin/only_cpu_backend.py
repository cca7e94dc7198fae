# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the CPU backend without the plugin's hooks: ``VERL_USE_EXTERNAL_MODULES=only_cpu_backend``."""

from epgrpo_verl import cpu

cpu.activate()
