# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What EP-GRPO costs beside GRPO on one device. See README.md in this folder."""
