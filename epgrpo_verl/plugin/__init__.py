# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The one place that touches verl's trainers.

===================  ==================================================================================================
``entry``            what verl loads (entry point ``verl.plugins``): activates the hooks, reports a failure loudly
``symbols``          the table of verl symbols that the hooks need, per version, and the check that they are there
``hooks``            the mechanism: wraps those symbols as verl's modules get imported
``preflight``        checks of the user's config before any model is loaded
``settings``         the keys of ``algorithm.ep_grpo``: those of the maths and those of the plugin
``trainer_v1``       what is wrapped of the V1 trainers (``trainer.use_v1=True``, verl's default)
``trainer_v0``       what is wrapped of V0, separation, one_step_off and fully_async
``feed``             carries entropy and the other inputs from a hook to the estimator
``guards``           checks of those inputs for errors that fail silently elsewhere
``estimator``        ``algorithm.adv_estimator=ep_grpo``
``tracing``          token traces of what the estimator computed, for ``epgrpo view`` (``trace_dir``)
``policy_loss``      ``actor_rollout_ref.actor.policy_loss.loss_mode=ep_grpo`` and ``ep_grpo/<base>``
``transfer_queue``   every call to TransferQueue, verl's data plane
===================  ==================================================================================================
"""

ESTIMATOR = "ep_grpo"
"""The name under which the estimator is registered: ``algorithm.adv_estimator=ep_grpo``."""


class EPGRPOPluginError(RuntimeError):
    """EP-GRPO cannot run as configured; the message names the line to change."""
