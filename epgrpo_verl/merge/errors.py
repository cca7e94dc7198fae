# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The error of this package."""


class MergeError(Exception):
    """The checkpoint cannot be merged as it is. The message says why, and what to do about it."""
