# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What can be looked at: plots of runs, drawn from verl's own logs, and token traces as a page."""
