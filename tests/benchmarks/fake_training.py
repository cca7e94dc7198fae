# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Leaves what a training leaves in its folder: ``fake_training.py OUT STEPS [break]``. For tests of the scheduler."""

import json
import sys
from pathlib import Path

LOG = Path(__file__).resolve().parents[1] / "quickstart" / "data" / "quickstart_run.jsonl"

out, steps, broken = Path(sys.argv[1]), int(sys.argv[2]), "break" in sys.argv
lines = LOG.read_text().splitlines(keepends=True)[: steps - broken]
test_problems = json.dumps({"step": steps, "data": {"val-core/chained_sums/acc/mean@2": 0.5}}) + "\n"
(out / "metrics-000.jsonl").write_text("".join([*lines, test_problems]))
(out / "rollouts").mkdir()
for step in range(1, steps + 1):
    # Four groups of two: all wrong, all right, and two mixed ones.
    scores = [(0, 0), (1, 1), (0, 1), (1, 0)]
    records = [
        {"uid": f"some_prompt{group}_{sample}_0", "score": float(score), "step": step}
        for group, both in enumerate(scores)
        for sample, score in enumerate(both)
    ]
    (out / "rollouts" / f"{step}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
