# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The grader inside verl: its reward manager, its batches, its validation metrics."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.trainer.ppo.reward import get_custom_reward_fn

RESPONSES = [r"\boxed{\frac{1}{2}}", r"\boxed{0.5}", r"\boxed{\sqrt{\frac{1}{4}}}", r"\boxed{3}", "none", r"\boxed{"]
SCORES = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
REASONS = ["text", "number", "symbolic", "different", "no_box", "unterminated_box"]


class CharacterTokenizer:
    """Decodes each id as one character, which is all the reward manager asks of a tokenizer."""

    def decode(self, ids: torch.Tensor, skip_special_tokens: bool = True) -> str:
        return "".join(chr(i) for i in ids.tolist())


def batch_of(responses: list[str]) -> DataProto:
    width = max(map(len, responses))
    ids = torch.tensor([[ord(char) for char in text.ljust(width, "\0")] for text in responses])
    mask = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in responses])
    rows = len(responses)
    return DataProto(
        batch=TensorDict({"responses": ids, "attention_mask": mask}, batch_size=rows),
        non_tensor_batch={
            "data_source": np.array(["math500"] * rows, dtype=object),
            "reward_model": np.array([{"ground_truth": r"\frac12"}] * rows, dtype=object),
            "extra_info": np.array([{"index": row} for row in range(rows)], dtype=object),
        },
    )


@pytest.mark.parametrize("name", ["compute_score", "compute_score_async"])
def test_verl_loads_the_grader_and_its_reward_loop_scores_with_it(name: str) -> None:
    config = OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {
                    "path": "pkg://epgrpo_verl.grading",
                    "name": name,
                    "reward_kwargs": {"deadline_s": 10.0, "workers": 1},
                }
            }
        }
    )
    batch = batch_of(RESPONSES)

    async def score() -> list[dict]:
        manager = NaiveRewardManager(config, CharacterTokenizer(), get_custom_reward_fn(config))
        manager.loop = asyncio.get_running_loop()
        assert manager.is_async_reward_score == (name == "compute_score_async")
        return await asyncio.gather(*(manager.run_single(batch[i : i + 1]) for i in range(len(batch))))

    results = asyncio.run(score())
    assert [result["reward_score"] for result in results] == SCORES
    assert [result["reward_extra_info"]["reason"] for result in results] == REASONS


def extras() -> dict[str, np.ndarray]:
    """Returns the grader's extras as verl gathers them into a batch."""
    from epgrpo_verl.grading import compute_score

    infos = [compute_score("math500", response, r"\frac12") for response in RESPONSES]
    return {key: np.array([info[key] for info in infos]) for key in infos[0]}


def test_the_extras_join_the_batch_of_the_v0_trainers() -> None:
    """``DataProto.union`` refuses an extra named as a column: it compares object strings with fixed-width ones."""
    batch = batch_of(RESPONSES)
    scored = DataProto(TensorDict({"rm_scores": torch.tensor(SCORES)}, batch_size=len(SCORES)), extras())
    joined = batch.union(scored)
    assert joined.non_tensor_batch["graded_data_source"].tolist() == ["math500"] * len(RESPONSES)
    assert joined.non_tensor_batch["acc"].tolist() == SCORES


def test_validation_metrics_take_the_numbers_and_leave_the_strings() -> None:
    infos = {key: values.tolist() for key, values in extras().items()}
    uids = ["a", "a", "a", "b", "b", "b"]
    metrics = process_validation_metrics(["math500"] * len(uids), uids, infos)["math500"]
    assert set(metrics) == {"score", "acc", "grader_error"}
    assert metrics["acc"]["mean@3"] == pytest.approx(0.5)
    assert metrics["grader_error"]["mean@3"] == 0.0


@pytest.mark.nightly
@pytest.mark.slow
def test_two_ray_actors_grade_at_once_and_leave_no_worker_behind() -> None:
    """verl grades in several actors, each with an event loop; Ray ends them with SIGKILL."""
    import ray

    class RewardActor:
        async def grade(self, factors: list[int]) -> list[str]:
            from epgrpo_verl.grading import compute_score_async

            pairs = [(rf"\boxed{{{n}\sqrt2+1}}", rf"1+{n}\sqrt{{2}}") for n in factors]
            pairs.append((r"\boxed{9^{9^{9^{9}}}}", "5"))
            results = await asyncio.gather(*(compute_score_async("ray", *pair, deadline_s=5.0) for pair in pairs))
            return [result["reason"] for result in results]

        def workers(self) -> list[int]:
            from epgrpo_verl.grading.score import _POOLS

            return [worker._process.pid for pool in _POOLS.values() for worker in pool._idle]

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        actors = [ray.remote(RewardActor).options(num_cpus=1).remote() for _ in range(2)]
        reasons = ray.get([actor.grade.remote(list(range(2, 12))) for actor in actors], timeout=240)
        assert reasons == [["symbolic"] * 10 + ["timeout"]] * 2
        workers = sum(ray.get([actor.workers.remote() for actor in actors], timeout=60), [])
        assert workers
        for actor in actors:
            ray.kill(actor)
        end = time.monotonic() + 30.0
        while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < end:
            time.sleep(0.1)
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    finally:
        ray.shutdown()
