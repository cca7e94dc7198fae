# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo doctor``: checks a verl config before any GPU is used.

============  =========================================================================================
``command``   the command line, and the order of the checks
``compose``   composes the config as ``verl.trainer.main_ppo`` does
``values``    types and ranges of single values
``rules``     estimator, settings, the plugin's own preflight rules, verl's own validation
``passes``    what verl's trainer will ask of actor and reference: entropy, log-probs, temperature
``batch``     batch sizes, micro-batch sizes and token budgets
``model``     LoRA rank, memory of the entropy, fused kernels
``process``   whether the plugin works in one process, be it the driver or a Ray worker
``workers``   runs ``process`` on every node of a Ray cluster
``leaves``    the single values of a config, and the keys that lead to them
``report``    a check, the table, and JSON
============  =========================================================================================

A failed check names the line that mends it. Its line is applied to a working copy before the next check, so that one
run shows all that is wrong, and not only what comes first.
"""
