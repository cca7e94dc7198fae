# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The table of verl symbols against the installed verl; `scripts/check_verl.sh` runs it against other versions."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

import pytest
import verl

from epgrpo_verl.plugin import hooks, symbols


def test_the_installed_verl_was_tested():
    assert verl.__version__ in symbols.TESTED_VERSIONS


@pytest.mark.parametrize("symbol", symbols.SYMBOLS, ids=lambda symbol: symbol.attribute)
def test_the_installed_verl_has_every_symbol(symbol):
    assert symbols.module_exists(symbol)
    module = importlib.import_module(symbol.module)
    assert symbols.problem(symbol, module) is None
    _, _, value = symbols.resolve(module, symbol.attribute)
    assert hooks.is_hook(value) == (symbol in hooks.WRAPPERS)


def test_every_module_that_takes_a_wrapped_function_by_name_is_listed():
    """A module that is missing from `importers` would keep verl's own function if it was imported before the plugin."""
    root = Path(verl.__file__).parent
    wrapped = {symbol.attribute: symbol for symbol in hooks.WRAPPERS if "." not in symbol.attribute}
    found = {name: set() for name in wrapped}
    for path in root.rglob("*.py"):
        text = path.read_text()
        for statement in re.finditer(r"^from (verl[\w.]+) import (\([^)]*\)|[^\n]*)", text, re.MULTILINE):
            for name in set(re.findall(r"\w+", statement[2])) & set(wrapped):
                if statement[1] == wrapped[name].module:
                    found[name].add(".".join(["verl", *path.relative_to(root).with_suffix("").parts]))
    for name, symbol in wrapped.items():
        missing = found[name] - set(symbol.importers)
        assert not missing, f"{name} is also imported by {missing}"
    assert found["need_reference_policy"], "nothing was found, so nothing was tested"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attribute": "no_such_function"}, "core_algos.no_such_function is gone (needed for registering"),
        ({"parameters": ("name", "no_such_parameter")}, "no longer takes name, no_such_parameter"),
    ],
)
def test_a_symbol_that_does_not_hold_is_described_in_one_sentence(change, words):
    symbol = dataclasses.replace(symbols.REGISTRY, **change)
    assert words in symbols.problem(symbol, importlib.import_module(symbol.module))


def test_a_module_that_is_gone_is_noticed():
    assert not symbols.module_exists(dataclasses.replace(symbols.REGISTRY, module="verl.no_such.module"))
