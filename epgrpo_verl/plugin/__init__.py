# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The one place that touches verl's trainers.

===================  ==================================================================================================
``entry``            what verl loads (entry point ``verl.plugins``): activates the hooks, reports a failure loudly
``symbols``          the table of verl symbols that the hooks need, and the check that they are there
``hooks``            wraps those symbols as verl's modules get imported
``preflight``        checks of the user's config before any model is loaded
``feed``             carries entropy and the other inputs from a hook to the estimator
``estimator``        ``algorithm.adv_estimator=ep_grpo``
``transfer_queue``   every call to TransferQueue, verl's data plane
===================  ==================================================================================================
"""

ESTIMATOR = "ep_grpo"
"""The name under which the estimator is registered: ``algorithm.adv_estimator=ep_grpo``."""


class EPGRPOPluginError(RuntimeError):
    """EP-GRPO cannot run as configured; the message names the line to change."""
