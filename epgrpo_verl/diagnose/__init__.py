# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's three failures of GRPO, measured on one's own model, data and runs; see docs/diagnose.md.

=================  ============================================================================================
``concentration``  share of the entropy that the tokens with the most of it hold
``perturbation``   accuracy lost when a token of high or of low entropy is replaced
``polarity``       right steps that are punished, wrong steps that are rewarded
``zero_variance``  groups with equal rewards, over a training
``ratio``          ratios with intervals
``paper``          the paper's figures
``policy``         the model: entropies, replacements, continuations
``collect``        samples, with grade and entropies
``branches``       the two branches at each chosen position
``steps``          steps from a checker or from a file of labels
``traces``         the measures from a token trace
``text``           samples and tokens as text
``diagnosis``      everything that was measured
``table``          the table
``plot``           the picture
``command``        the command line
=================  ============================================================================================
"""
