# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of EP-GRPO: the numbers of the equations and nothing else."""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

KEY_PREFIX = "algorithm.ep_grpo"
"""Where the settings live in verl's config; errors name keys in full, so that they can be found."""


@dataclass(frozen=True)
class EPGRPOConfig:
    """Settings of EP-GRPO.

    The paper is arXiv 2605.04960. "ERPO reimplementation" is a public reimplementation of the authors' earlier
    ERPO (arXiv 2603.28204), which has the same gate and signal: its values are not confirmed for EP-GRPO.
    "Choice" marks a value that neither of them gives.

    Attributes:
        gamma: Sharpness of the entropy gate (equation 2), 0 to 1000. Source: ERPO reimplementation.
        lam: Scale of the log-ratio in the progress signal (equation 3), 0 to 1000. Source: ERPO reimplementation.
        eta: Weight of the progress term (equation 7), 0 to 1000. Source: ERPO reimplementation.
        num_buckets: K, the number of buckets of logical progress (equation 4), 1 to 1024. Source: paper.
        reward_threshold: theta, above which a reward counts as right when a group's rewards are all equal
            (equation 6). Source: choice; 0.5 separates both 0/1 and -1/+1 rewards.
        gate: Whether the entropy gate weights the outcome; off means W = 1. Source: paper.
        progress: Whether the progress term is added. Source: paper.
        zero_variance: Whether groups with equal rewards are anchored by `reward_threshold`; off means that they
            get no signal. Source: paper.
        gate_progress: Whether the gate also weights the progress term. Source: inferred (the paper's regulariser is
            entropy-weighted, and ERPO's equation 10 has it).
        gate_normalize: Whether W is divided by its mean over `entropy_scope`, so that the gate keeps GRPO's total
            scale. Source: choice, off.
        entropy_scope: Which valid tokens give the mean and std of the entropy: those of the "group", the "batch" or
            the row ("sequence"). Source: inferred from ERPO's "group-level entropy statistics".
        bucket_scope: Which valid tokens share a bucket's mean and std: those of the "group" or of the "batch".
            Source: inferred, as `entropy_scope`.
        gate_eps: Added to the std of the entropy (equation 2), 1e-12 to 1. Source: choice.
        progress_eps: Added to the std of a bucket (equation 5), 1e-12 to 1. Source: choice; with lam 0.1 it damps
            log-ratio noise below about 1e-3 instead of blowing it up to unit variance.
        zero_variance_atol: Rewards of a group are equal when max - min is at most this, >= 0. Source: choice.
        eta_warmup_steps: Training steps over which eta grows linearly from 0, >= 0; 0 is no warm-up. Source: choice,
            off (the paper notes that the signal needs about 200 steps to settle).
        advantage_clip: Bound on the absolute value of the final advantage, > 0, or None. Source: choice, off.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of its range.
    """

    gamma: float = 5.0
    lam: float = 0.1
    eta: float = 0.2
    num_buckets: int = 10
    reward_threshold: float = 0.5
    gate: bool = True
    progress: bool = True
    zero_variance: bool = True
    gate_progress: bool = True
    gate_normalize: bool = False
    entropy_scope: Literal["group", "batch", "sequence"] = "group"
    bucket_scope: Literal["group", "batch"] = "group"
    gate_eps: float = 1e-6
    progress_eps: float = 1e-4
    zero_variance_atol: float = 1e-6
    eta_warmup_steps: int = 0
    advantage_clip: float | None = None

    _BOOLS: ClassVar[tuple[str, ...]] = ("gate", "progress", "zero_variance", "gate_progress", "gate_normalize")
    _CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        "entropy_scope": ("group", "batch", "sequence"),
        "bucket_scope": ("group", "batch"),
    }
    _INT_RANGES: ClassVar[dict[str, tuple[float, float]]] = {
        "num_buckets": (1, 1024),
        "eta_warmup_steps": (0, math.inf),
    }
    _FLOAT_RANGES: ClassVar[dict[str, tuple[float, float]]] = {
        "gamma": (0.0, 1000.0),
        "lam": (0.0, 1000.0),
        "eta": (0.0, 1000.0),
        "reward_threshold": (-math.inf, math.inf),
        "gate_eps": (1e-12, 1.0),
        "progress_eps": (1e-12, 1.0),
        "zero_variance_atol": (0.0, math.inf),
    }

    def __post_init__(self) -> None:
        for name in self._BOOLS:
            _check_bool(name, getattr(self, name))
        for name, choices in self._CHOICES.items():
            _check_choice(name, getattr(self, name), choices)
        for name, (low, high) in self._INT_RANGES.items():
            object.__setattr__(self, name, _checked_int(name, getattr(self, name), low, high))
        for name, (low, high) in self._FLOAT_RANGES.items():
            object.__setattr__(self, name, _checked_float(name, getattr(self, name), low, high))
        if self.advantage_clip is not None:
            clip = _checked_float("advantage_clip", self.advantage_clip, -math.inf, math.inf)
            if clip <= 0.0:
                raise ValueError(f"{KEY_PREFIX}.advantage_clip must be above 0, or null for no clipping; got {clip:g}")
            object.__setattr__(self, "advantage_clip", clip)

    @classmethod
    def from_config(cls, config: "Mapping[str, Any] | EPGRPOConfig | None") -> "EPGRPOConfig":
        """Builds the settings from a dict or an OmegaConf `DictConfig`; None gives the defaults.

        Args:
            config: Keys are field names; keys left out keep their defaults.

        Returns:
            The settings.

        Raises:
            TypeError: `config` is no mapping, or a value has the wrong type.
            ValueError: A key is unknown (the message names the nearest known one), or a value is out of range.
        """
        if config is None:
            return cls()
        if isinstance(config, cls):
            return config
        check_section(config, [field.name for field in fields(cls)])
        return cls(**config)

    def eta_at(self, step: int | None) -> float:
        """Weight of the progress term at a training step: `eta * min(1, step / eta_warmup_steps)`.

        Args:
            step: Training step, counted from 1 as verl does. May be None when there is no warm-up.

        Returns:
            The weight, in [0, eta].

        Raises:
            ValueError: There is a warm-up and `step` is None or negative.
        """
        if self.eta_warmup_steps == 0:
            return self.eta
        if step is None or step < 0:
            raise ValueError(
                f"{KEY_PREFIX}.eta_warmup_steps={self.eta_warmup_steps} needs the training step, got {step}"
            )
        return self.eta * min(1.0, step / self.eta_warmup_steps)


def check_section(section: Any, known: Sequence[str]) -> None:
    """Checks that a section of settings is a mapping of known keys.

    Args:
        section: What stands under `KEY_PREFIX`.
        known: All keys that may stand there.

    Raises:
        TypeError: It is no mapping.
        ValueError: A key is unknown; the message names the nearest known one.
    """
    if not isinstance(section, Mapping):
        raise TypeError(f"{KEY_PREFIX} must be a mapping of settings, got {section!r} ({type(section).__name__})")
    for key in section:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)[0]
            raise ValueError(
                f"unknown setting {KEY_PREFIX}.{key}; did you mean {KEY_PREFIX}.{near}? Known: {', '.join(known)}"
            )


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{KEY_PREFIX}.{name} must be true or false (not quoted), got {value!r}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{KEY_PREFIX}.{name} must be one of {', '.join(choices)}; got {value!r}")


def _checked_int(name: str, value: Any, low: float, high: float) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{KEY_PREFIX}.{name} must be an integer, got {value!r}")
    _check_range(name, value, low, high)
    return int(value)


def _checked_float(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{KEY_PREFIX}.{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{KEY_PREFIX}.{name} must be finite, got {value!r}")
    _check_range(name, value, low, high)
    return float(value)


def _check_range(name: str, value: Any, low: float, high: float) -> None:
    if not low <= value <= high:
        allowed = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        raise ValueError(f"{KEY_PREFIX}.{name} must be {allowed}, got {value!r}")
