# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import cpu_assets
import pytest


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a tiny model, data and a reward function."""
    return cpu_assets.save(tmp_path_factory.mktemp("assets"))
