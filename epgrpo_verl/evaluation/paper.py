# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of the EP-GRPO paper (arXiv 2605.04960), in percent, to set beside one's own."""

from __future__ import annotations

from dataclasses import dataclass, field

SOURCE = "arXiv 2605.04960"
SIZES = ("3b", "7b")


@dataclass(frozen=True)
class PaperRun:
    """What the paper states about one run. Neither its samples per problem nor its sampling are known to us.

    Attributes:
        name: The method.
        accuracy: Accuracy by set; ``average`` is that over the five sets.
        passes: pass@k by set and k.
    """

    name: str
    accuracy: dict[str, float]
    passes: dict[tuple[str, int], float] = field(default_factory=dict)


PAPER: dict[str, tuple[PaperRun, ...]] = {
    "3b": (
        PaperRun("GRPO", {"average": 18.14}, {("aime25", 16): 9.69}),
        PaperRun("EP-GRPO", {"average": 22.93, "amc23": 39.53}, {("aime25", 16): 38.20}),
    ),
    "7b": (PaperRun("GRPO", {"average": 27.11}), PaperRun("EP-GRPO", {"average": 30.34})),
}
"""Size of Qwen2.5 to the runs."""
