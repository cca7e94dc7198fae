# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Token traces: every part of every token's advantage, for a few groups of a few steps; docs/trace.md has the format.

Nothing here is imported while ``algorithm.ep_grpo.trace_dir`` is unset, and nothing here needs verl. Reading a trace
needs no torch either, so modules are imported by their own names.

==========  ====================================================================================================
``format``  what writer and reader agree on
``record``  from a result of the maths to records; draws the groups
``text``    the text of single tokens
``writer``  one file per step, whole or not at all, up to a total size
``reader``  reads traces, and says what is wrong with a file that is none
==========  ====================================================================================================
"""
