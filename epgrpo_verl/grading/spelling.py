# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""One spelling for characters and LaTeX commands that mean the same."""

import re

_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2013\u2014\u2010\u2011\ufe63\uff0d", "-"),
        **dict.fromkeys("\u00a0\u2009\u200a\u202f\u2002\u2003\u3000", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", ""),
        # The full-width forms of ASCII.
        **{chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F) if chr(code) != "-"},
        **dict(zip("½¼¾⅓⅔", (rf"\frac{{{n}}}{{{d}}}" for n, d in ("12", "14", "34", "13", "23")), strict=True)),
        **{"×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "±": r"\pm ", "∓": r"\mp ", "°": r"^\circ "},
        **{"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "∈": r"\in ", "∪": r"\cup ", "∨": r"\lor "},
        **{"∞": r"\infty ", "√": r"\sqrt ", "π": r"\pi ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta "},
        **{"λ": r"\lambda ", "ω": r"\omega ", "′": "'", "’": "'"},
    }
)
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))

_SYNONYMS = {
    **dict.fromkeys([r"\dfrac", r"\tfrac", r"\cfrac"], r"\frac"),
    **dict.fromkeys([r"\dbinom", r"\tbinom"], r"\binom"),
    **dict.fromkeys([r"\geq", r"\geqslant", r"\geqq"], r"\ge"),
    **dict.fromkeys([r"\leq", r"\leqslant", r"\leqq"], r"\le"),
    **dict.fromkeys([r"\times", r"\ast"], r"\cdot"),
    **{r"\neq": r"\ne", r"\gt": ">", r"\lt": "<", r"\vee": r"\lor", r"\simeq": r"\approx", r"\colon": ":"},
    **{r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]", r"\prime": "'", r"\degree": r"^\circ"},
    **dict.fromkeys([r"\quad", r"\qquad", r"\thinspace"], " "),
    **dict.fromkeys([r"\displaystyle", r"\textstyle", r"\limits", r"\left", r"\right"], ""),
    **dict.fromkeys([r"\big", r"\Big", r"\bigg", r"\Bigg", r"\bigl", r"\bigr", r"\Bigl", r"\Bigr"], ""),
    **dict.fromkeys([r"\mbox", r"\textbf", r"\textit", r"\textrm", r"\textnormal", r"\textsf", r"\mathrm"], r"\text"),
    **dict.fromkeys([r"\rm", r"\operatorname"], r"\text"),
    **dict.fromkeys([r"\mathbf", r"\mathit", r"\boldsymbol", r"\bf"], ""),
}

COMMAND = re.compile(r"\\[a-zA-Z]+")
_MARKED_THOUSANDS = re.compile(r"(?<=\d)\s*(?:\{,\}|,\s*\\!)\s*(?=\d{3}(?!\d))")
_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|ln|log|exp|sqrt|pi"
_BARE_FUNCTION = re.compile(rf"(?<![\\a-zA-Z])(?:{_FUNCTIONS})(?![a-zA-Z])")
_BARE_ROOT = re.compile(r"(?<![\\a-zA-Z])sqrt\s*\(([^()]*)\)")


def one_spelling(text: str) -> str:
    r"""Writes every character and command in one way.

    Covers Unicode signs, ``\dfrac`` and its like, sizes (``\left``), fonts, spaces, matrix brackets, dollar signs,
    marked thousands (``1{,}000``), and plain-text forms such as ``sqrt(2)``, ``np.sin``, ``<=`` and ``**``.
    """
    text = _scripts(_scripts(text.translate(_CHARACTERS), _RAISED, "^"), _LOWERED, "_")
    text = _MARKED_THOUSANDS.sub("", text).replace("{,}", ",").replace("{-}", "-")
    if text.startswith((r"\(", r"\[")):
        text = re.sub(r"\\[()\[\]]", "", text)
    text = text.replace(r"\!", "").replace(r"\$", r"\dollar ").replace("$", "")
    # A backslash before white space or punctuation is a space, but `\\` ends a row of a matrix.
    text = re.sub(r"(?<!\\)\\[,;: \n]|~", " ", text)
    text = COMMAND.sub(lambda match: _SYNONYMS.get(match[0], match[0]), text)
    text = re.sub(r"\\begin\{[bBp]?matrix\}|\\begin\{array\}\{[^{}]*\}", r"\\begin{matrix}", text)
    text = re.sub(r"\\end\{(?:[bBp]?matrix|array)\}", r"\\end{matrix}", text)
    text = text.replace("**", "^").replace("<=", r"\le ").replace(">=", r"\ge ").replace("*", r"\cdot ")
    text = re.sub(r"(?<![a-zA-Z])(?:np|math)\.", "", text)
    text = _BARE_ROOT.sub(r"\\sqrt{\1}", text)
    return _BARE_FUNCTION.sub(lambda match: f"\\{match[0]} ", text).strip()


def _scripts(text: str, characters: dict[str, str], sign: str) -> str:
    """Writes raised or lowered characters (``x¹⁰``) with ``^`` or ``_``."""
    run = re.compile(f"[{''.join(characters)}]+")
    return run.sub(lambda match: f"{sign}{{{''.join(characters[char] for char in match[0])}}}", text)
