# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by scripts and recipes: `make_environment FOLDER REQUIREMENTS` makes a virtual environment with pinned
# versions and this checkout in it, and sets ENV_PYTHON. It is reused while the pins stay the same.

PROJECT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=${PYTHON:-python3 python3.12 python3.11 python3.10} # the Python to use: the first that fits
TORCH_INDEX_URL=${TORCH_INDEX_URL:-https://download.pytorch.org/whl/cpu} # where the CPU build of torch comes from
ALLOW_CUDA_TORCH=${ALLOW_CUDA_TORCH:-0} # 1 takes PyPI's torch although it is a CUDA build of several GB

_fail() {
    printf '\nerror: %s\n' "$*" >&2
    return 1
}

_find_python() {
    local candidate
    for candidate in $PYTHON; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
            2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    _fail "no Python 3.10, 3.11 or 3.12 with venv was found (tried: $PYTHON)." \
        "Set PYTHON=/path/to/python; on Debian or Ubuntu: apt install python3-venv"
}

# _step TEXT COMMAND...: runs a command into $ENV_LOG, with a line that shows that it is alive, and its end if it fails.
_step() {
    local text=$1 started=$SECONDS pid
    shift
    "$@" >>"$ENV_LOG" 2>&1 &
    pid=$!
    # Ctrl-C does not reach a background job of a script.
    trap 'kill "$pid" 2>/dev/null' EXIT
    while kill -0 "$pid" 2>/dev/null; do
        if [[ -t 1 ]]; then printf '\r  %s ... %ds\033[K' "$text" $((SECONDS - started)); fi
        sleep 1
    done
    local ok=0
    wait "$pid" || ok=1
    trap - EXIT
    if ((ok == 0)); then
        if [[ -t 1 ]]; then printf '\r\033[K'; fi
        printf '  %s: %ds\n' "$text" $((SECONDS - started))
    else
        printf '\n'
        tail -n 25 "$ENV_LOG" >&2
        _fail "'$text' failed; the whole log is $ENV_LOG"
    fi
}

_index_answers() {
    "$ENV_PYTHON" - "$TORCH_INDEX_URL/torch/" <<'PY' 2>>"$ENV_LOG"
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], method="HEAD"), timeout=5)
PY
}

# Whether the torch that pip itself would take is a CPU build: one without CUDA libraries among its requirements.
_pip_has_cpu_torch() {
    "$ENV_PYTHON" -m pip install --quiet --dry-run --ignore-installed --no-deps --report "$1/.torch.json" "$2" \
        >>"$ENV_LOG" 2>&1 || return 1
    "$ENV_PYTHON" - "$1/.torch.json" <<'PY'
import json, sys
torch = json.load(open(sys.argv[1]))["install"][0]["metadata"]
sys.exit("+cpu" not in torch["version"] and any(r.startswith(("nvidia", "cuda")) for r in torch.get("requires_dist", [])))
PY
}

_install_torch() {
    local folder=$1 torch=$2
    if _index_answers; then
        _step "$torch (CPU build)" "$ENV_PYTHON" -m pip install "$torch" --index-url "$TORCH_INDEX_URL"
    elif [[ $ALLOW_CUDA_TORCH == 1 ]] || _pip_has_cpu_torch "$folder" "$torch"; then
        _step "$torch" "$ENV_PYTHON" -m pip install "$torch"
    else
        _fail "$TORCH_INDEX_URL cannot be reached, and the $torch that pip finds is a CUDA build of several GB." \
            "Set TORCH_INDEX_URL to an index with the CPU build, or ALLOW_CUDA_TORCH=1 to download it all the same."
    fi
}

# make_environment FOLDER REQUIREMENTS
make_environment() {
    local folder=$1 requirements=$2 base stamp torch
    base=$(_find_python) || return 1
    # The requirement files include one another, so all of them count.
    stamp=$(cat "$PROJECT_ROOT"/requirements/*.txt "$PROJECT_ROOT/pyproject.toml" <("$base" -VV) <(echo "$folder $PROJECT_ROOT $requirements") | sha256sum)
    ENV_PYTHON=$folder/bin/python
    ENV_LOG=$folder/install.log
    if [[ -f $folder/.stamp && $(<"$folder/.stamp") == "$stamp" ]]; then
        return
    fi
    if [[ -d $folder && -n $(ls -A "$folder") && ! -f $folder/pyvenv.cfg ]]; then
        _fail "$folder has files in it and is no virtual environment: set ENV_DIR to another folder" || return 1
    fi
    echo "Making the virtual environment $folder with $("$base" -V) (once; a few minutes and up to 4 GB)"
    "$base" -m venv --clear "$folder"
    : >"$ENV_LOG"
    torch=$(grep -h '^torch==' "$PROJECT_ROOT"/requirements/cpu.txt)
    _install_torch "$folder" "$torch" || return 1
    # Held, so that pip does not replace it by PyPI's CUDA build of the same version.
    "$ENV_PYTHON" -m pip freeze --all 2>>"$ENV_LOG" | grep -i '^torch==' >"$folder/.torch.txt"
    _step "verl and the rest of $(basename "$requirements")" \
        "$ENV_PYTHON" -m pip install -r "$requirements" -c "$folder/.torch.txt" || return 1
    # vLLM asks for these, but their PyPI builds do not fit a CPU torch: `import vllm` fails with them and works without.
    _step "without torchvision and the like" "$ENV_PYTHON" -m pip uninstall -y torchvision torchaudio torchcodec triton || return 1
    _step "epgrpo_verl" "$ENV_PYTHON" -m pip install --no-deps -e "$PROJECT_ROOT" || return 1
    printf '%s' "$stamp" >"$folder/.stamp"
}
