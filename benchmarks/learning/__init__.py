# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Does EP-GRPO learn faster than GRPO, and which part of it does? See README.md in this folder."""
