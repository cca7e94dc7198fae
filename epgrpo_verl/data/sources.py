# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is published where, pinned.

Each revision stands in several public projects that pin the same data set. A checksum is pinned where at least two
independent public projects give the same value; none could be compared with the hub itself when this was written. Where
there is none, the checksum that is met gets recorded in the manifest, and ``--sha256`` makes it a condition.
"""

from __future__ import annotations

from dataclasses import dataclass

TRAIN_DIFFICULTY_MODEL = "DeepSeek-R1-Distill-Qwen-7B"


@dataclass(frozen=True)
class Source:
    """One published file of problems.

    Attributes:
        name: Name on the command line, of the output file, and verl's ``data_source``.
        repo: Data set on the Hugging Face hub.
        revision: Commit of the data set.
        file: File in it.
        rows: Number of rows.
        split: Split that the rows belong to.
        sha256: Checksum of the file, or None where none is known.
        golds_sha256: Checksum of the sorted answers after repair, one a line, or None where no trusted list is known.
        problem: Names of the column that holds the problem; the first that is there is taken.
        answer: Names of the column that holds the answer.
        benchmark: Whether it is a test set: then every row has to be kept.
    """

    name: str
    repo: str
    revision: str
    file: str
    rows: int
    split: str = "test"
    sha256: str | None = None
    golds_sha256: str | None = None
    problem: tuple[str, ...] = ("problem", "question")
    answer: tuple[str, ...] = ("answer",)
    benchmark: bool = True

    def url(self, revision: str | None = None) -> str:
        """Where the file can be downloaded by hand, at the pinned commit or another."""
        return f"https://huggingface.co/datasets/{self.repo}/resolve/{revision or self.revision}/{self.file}"


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="skywork",
            repo="Skywork/Skywork-OR1-RL-Data",
            revision="1cdedc52e0e2db85fdf252f9be682e63a5a38c33",
            file="data/math-00000-of-00001.parquet",
            rows=105_055,
            split="train",
            problem=("prompt",),
            answer=("reward_model",),
            benchmark=False,
        ),
        Source(
            name="math500",
            repo="HuggingFaceH4/MATH-500",
            revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
            file="test.jsonl",
            rows=500,
            sha256="35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
            golds_sha256="4563c132723345af807dfeb0624fbef921b6ce25f08051a0cb4922d9a650d13a",
        ),
        Source(
            name="amc23",
            repo="math-ai/amc23",
            revision="80815d37005feb82cd7f8fbc6901d5d3eff43057",
            file="test-00000-of-00001.parquet",
            rows=40,
            sha256="b696e87ba47be4e879a60fd4ef1d4aa522ba78c5ae013c6aff5cc9788a397c5e",
        ),
        Source(
            name="minerva",
            repo="math-ai/minervamath",
            revision="ee46ddc498933b1977577953250ca5c66be64f96",
            file="test.jsonl",
            rows=272,
            golds_sha256="f24ce0edf9f3484caeb406ab4eac83c918b4eeb2afa3097d82211d76613ac479",
        ),
        Source(
            name="aime24",
            repo="math-ai/aime24",
            revision="83a7f387baaa524a8bda0022eac0541582297103",
            file="test-00000-of-00001.parquet",
            rows=30,
            golds_sha256="26b2e319e14bdec51519f4cbb0a47ad57a80751c03b39c937514c67994cea9f2",
            answer=("answer", "solution"),
        ),
        Source(
            name="aime25",
            repo="math-ai/aime25",
            revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
            file="test.jsonl",
            rows=30,
            sha256="b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331",
            golds_sha256="a0239316151158f3806ad95fec73b0b2189857a41968a29ef2f334aaef4fd367",
        ),
        Source(
            name="gsm8k",
            repo="openai/gsm8k",
            revision="740312add88f781978c0658806c59bc2815b9866",
            file="main/train-00000-of-00001.parquet",
            rows=7_473,
            split="train",
            benchmark=False,
        ),
        Source(
            name="gsm8k_test",
            repo="openai/gsm8k",
            revision="740312add88f781978c0658806c59bc2815b9866",
            file="main/test-00000-of-00001.parquet",
            rows=1_319,
        ),
    )
}

BENCHMARKS = ("math500", "amc23", "minerva", "aime24", "aime25")
"""The paper's five test sets."""
