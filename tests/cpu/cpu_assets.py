# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny random Qwen2 model, a byte tokenizer and sums to train on, made in a second and without a network."""

from pathlib import Path

import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from epgrpo_verl.quickstart import model as quickstart

REWARD = '''
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """A dense reward, so that a random model gets both: the share of even bytes."""
    return sum(ord(c) % 2 == 0 for c in solution_str) / max(1, len(solution_str))
'''


def build_tokenizer() -> PreTrainedTokenizerBase:
    """The quickstart's byte tokenizer with a shorter template."""
    tokenizer = quickstart.build_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}="
    return tokenizer


def build_model(tie: bool = False) -> PreTrainedModel:
    """About a hundred thousand random parameters, peaked enough that distributions differ from uniform."""
    changes = {"intermediate_size": 64, "max_position_embeddings": 128, "initializer_range": 0.3}
    return quickstart.build_model(build_tokenizer(), quickstart.WarmUp(), tie_word_embeddings=tie, **changes).eval()


def save(folder: Path, tie: bool = False) -> Path:
    """Save model, tokenizer, train.parquet, test.parquet and reward.py under a folder."""
    build_model(tie).save_pretrained(folder / "model")
    build_tokenizer().save_pretrained(folder / "model")
    for name, rows in (("train", 32), ("test", 8)):
        pd.DataFrame(
            {
                "data_source": "sums",
                "prompt": [{"role": "user", "content": f"{index % 10}+{index // 10}"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(index % 10 + index // 10)},
                "extra_info": {"split": name, "index": index},
            }
            for index in range(rows)
        ).to_parquet(folder / f"{name}.parquet")
    (folder / "reward.py").write_text(REWARD)
    return folder


def overrides(folder: Path, output: Path, steps: int) -> list[str]:
    """Hydra overrides of a run on these files: 4 prompts x 2 samples, at most 6 new tokens."""
    roll = "actor_rollout_ref.rollout"
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files={folder}/train.parquet",
        f"data.val_files={folder}/test.parquet",
        "data.train_batch_size=4",
        "data.max_prompt_length=16",
        "data.max_response_length=6",
        f"actor_rollout_ref.model.path={folder}/model",
        "actor_rollout_ref.actor.use_kl_loss=True",
        "actor_rollout_ref.actor.optim.lr=1e-3",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
        f"{roll}.log_prob_micro_batch_size_per_gpu=8",
        f"{roll}.n=2",
        f"{roll}.max_model_len=64",
        f"{roll}.calculate_log_probs=True",
        f"reward.custom_reward_function.path={folder}/reward.py",
        "reward.custom_reward_function.name=compute_score",
        "trainer.logger=[console]",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        f"trainer.total_training_steps={steps}",
        "trainer.total_epochs=1000",
        f"trainer.default_local_dir={output}/checkpoints",
    ]
