# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of verl's FSDP engine as a Hugging Face folder, LoRA fused, and the proof that it is right."""
