# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The error that the commands show as a message."""


class EvaluationError(Exception):
    """Something is not as it must be. The message says what to change."""
