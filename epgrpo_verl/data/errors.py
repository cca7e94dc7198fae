# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The error of this package."""


class PrepareError(Exception):
    """Something about the data is not as it must be. The message says what, and what to do about it."""
