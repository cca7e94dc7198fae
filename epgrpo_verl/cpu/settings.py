# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What a CPU run of verl has to be told: Hydra overrides and environment variables."""

import os
import re
import sys

ROLLOUTS = ("hf", "vllm")
TRAINER_MODES = ("sync", "colocate_async", "separate_async")

_GPU_ENGINES = ("torchtitan", "veomni", "automodel", "mindspeed", "megatron")


def overrides(rollout: str = "hf", processes: int = 1, trainer_mode: str = "sync") -> list[str]:
    """Give the Hydra overrides that any CPU run of ``verl.trainer.main_ppo`` needs, and none that belong to a task.

    Args:
        rollout: ``hf`` for transformers' ``generate()``, ``vllm`` for vLLM's CPU build.
        processes: FSDP processes of the actor; as many rollout servers are started.
        trainer_mode: ``trainer.v1.trainer_mode``. ``separate_async`` starts one rollout server beside the actor.

    Returns:
        Overrides such as ``trainer.device=cpu``, one item each.

    Raises:
        ValueError: An argument is out of range.
    """
    if rollout not in ROLLOUTS:
        raise ValueError(f"rollout {rollout!r} is not one of {', '.join(ROLLOUTS)}")
    if processes < 1:
        raise ValueError(f"processes={processes} must be at least 1")
    if trainer_mode not in TRAINER_MODES:
        raise ValueError(f"trainer mode {trainer_mode!r} is not one of {', '.join(TRAINER_MODES)}")
    separate = trainer_mode == "separate_async"
    logical_gpus = processes + (1 if separate else 0)
    actor, ref, roll = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
    result = [
        "trainer.device=cpu",
        "trainer.nnodes=1",
        f"trainer.n_gpus_per_node={processes}",
        f"trainer.v1.trainer_mode={trainer_mode}",
        # verl counts its workers in GPUs. These are only numbers to Ray's scheduler, as is num_cpus.
        f"+ray_kwargs.ray_init.num_gpus={logical_gpus}",
        f"ray_kwargs.ray_init.num_cpus={max(8, 4 * logical_gpus, os.cpu_count() or 1)}",
        "+ray_kwargs.ray_init.include_dashboard=False",
        "+ray_kwargs.ray_init.object_store_memory=500000000",
        # One of each helper process: they only hand data on.
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "reward.num_workers=1",
        "data.dataloader_num_workers=0",
        f"{roll}.agent.num_workers=1",
        # No flash attention, no compiler, no padding removal (its kernels need a GPU).
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        "actor_rollout_ref.model.use_remove_padding=False",
        "actor_rollout_ref.model.enable_gradient_checkpointing=False",
        f"{actor}.use_torch_compile=False",
        f"{actor}.fsdp_config.use_torch_compile=False",
        f"{ref}.fsdp_config.use_torch_compile=False",
        f"{actor}.strategy=fsdp2",
        f"{ref}.strategy=fsdp2",
        # float32 throughout: most CPUs compute bfloat16 no faster, and log-ratios then carry no rounding noise.
        *(f"{part}.fsdp_config.dtype=float32" for part in (actor, ref)),
        *(f"{part}.fsdp_config.model_dtype=fp32" for part in (actor, ref)),
        *(
            f"+{part}.fsdp_config.mixed_precision={{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}}"
            for part in (actor, ref)
        ),
        f"{roll}.name={rollout}",
        f"{roll}.dtype=float32",
        f"{roll}.tensor_model_parallel_size=1",
        f"{roll}.free_cache_engine=False",
        f"{roll}.max_num_seqs=64",
    ]
    if rollout == "vllm":
        result += [
            f"+{roll}.enable_sleep_mode=False",
            f"{roll}.enforce_eager=True",
            f"{roll}.checkpoint_engine.update_weights_bucket_megabytes=64",
            f"+{roll}.engine_kwargs.vllm.worker_extension_cls=epgrpo_verl.cpu.vllm_ext.CPUWorkerExtension",
        ]
    if separate:
        result += [
            f"{roll}.nnodes=1",
            f"{roll}.n_gpus_per_node=1",
            f"{roll}.checkpoint_engine.backend=tcpstore",
        ]
    return result


def environment(rollout: str = "hf", threads: int | None = None) -> dict[str, str]:
    """Give the environment variables of a CPU run, without those that are already set; ``threads`` wins over them.

    Args:
        rollout: ``hf`` or ``vllm``.
        threads: Threads of torch in each process; None for OMP_NUM_THREADS if that is set, else 1. A tiny model gains
            nothing from more than one.

    Returns:
        Variables to add to ``os.environ``.

    Raises:
        ValueError: ``threads`` is below 1.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads} must be at least 1")
    variables = {
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HUB_OFFLINE": "1",
        "TQ_NUM_THREADS": "1",  # TransferQueue warns at every message if this is more than the number of cores
        # verl warns in every process about each engine that is not installed; none of them runs on a CPU.
        "PYTHONWARNINGS": ",".join(f"ignore:{name} engine is not available" for name in _GPU_ENGINES),
    }
    if sys.platform == "linux":
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    if rollout == "vllm":
        # vLLM would ask for tens of GiB of cache, and spend its first generation compiling.
        variables |= {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    variables = {name: value for name, value in variables.items() if name not in os.environ}
    return variables if threads is None else variables | {"OMP_NUM_THREADS": str(threads)}


def merge_overrides(base: list[str], given: list[str]) -> list[str]:
    """Put the user's overrides after the base ones, leaving out those of the base that the user set as well.

    Hydra refuses two ``+key=value`` for one key, so the base value has to go.
    """
    keys = {_key(item) for item in given}
    return [item for item in base if _key(item) not in keys] + given


def _key(override: str) -> str:
    return re.match(r"[+~]*([^=]*)", override).group(1)
