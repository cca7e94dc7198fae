# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The quickstart's reasoning task: chained sums with every step written out.

Only the last digit is kept at each step (arithmetic modulo 10), so that a model of 0.1 M parameters learns it in
seconds. A prompt is a sum of digits, a response is a derivation and an answer::

    prompt    3+5+4+9=
    response  3+5=8,8+4=2,2+9=1#1

Only the answer after ``#`` earns the reward, as in outcome-supervised training of a language model. The steps in
between are checkable one by one, so that a right step in a failed response, or a wrong step in a response that wins by
luck, can be told.
"""

# No "from __future__ import annotations": verl loads a reward function's file without naming it in sys.modules, and
# dataclasses then cannot look up annotations that are strings.
import random
import re
from dataclasses import dataclass
from typing import Any

STEP_SEPARATOR = ","
ANSWER_MARK = "#"

_PROMPT = re.compile(r"[0-9](\+[0-9])+=")
_PROMPT_WITHIN = re.compile(rf"(?<![0-9+]){_PROMPT.pattern}")
_SUM = re.compile(r"([0-9])\+([0-9])=([0-9])")
_ANSWER = re.compile(r"[0-9]")


def last_digit(number: int) -> int:
    """Keeps the last digit of a number."""
    return number % 10


@dataclass(frozen=True)
class Difficulty:
    """How hard the chained sums are, and how sloppy the demonstrations of the warm-up are.

    Attributes:
        num_terms: Digits in one sum, at least 2. A response has ``num_terms - 1`` sums and one answer.
        max_term: Largest digit in a prompt, 1 to 9; digits are drawn from 0 to ``max_term``.
        mistake_rate: Share of sums in the warm-up's demonstrations whose result is wrong. The warmed-up model
            copies that habit, so it starts at an accuracy of roughly ``(1 - mistake_rate) ** (num_terms - 1)``.
        mistakes: By how much a wrong result is off. With both signs mistakes can cancel, so some wrong derivations win.
    """

    num_terms: int
    max_term: int
    mistake_rate: float
    mistakes: tuple[int, ...] = (-2, -1, 1, 2)

    def __post_init__(self) -> None:
        if self.num_terms < 2:
            raise ValueError(f"num_terms must be at least 2, got {self.num_terms}")
        if not 1 <= self.max_term <= 9:
            raise ValueError(f"max_term must be in [1, 9], got {self.max_term}")
        if not 0.0 <= self.mistake_rate < 1.0:
            raise ValueError(f"mistake_rate must be in [0, 1), got {self.mistake_rate}")
        if not self.mistakes or any(last_digit(mistake) == 0 for mistake in self.mistakes):
            raise ValueError(f"mistakes must be numbers that change the last digit, got {self.mistakes}")

    @property
    def prompt_chars(self) -> int:
        """Length of every prompt in characters."""
        return 2 * self.num_terms

    @property
    def response_chars(self) -> int:
        """Length of every right response in characters."""
        return len(derive([0] * self.num_terms))


DIFFICULTIES = {
    # About a quarter of the first answers are right, and most groups are mixed.
    "easy": Difficulty(num_terms=4, max_term=4, mistake_rate=0.4),
    # Few of the first answers are right, and most groups are all wrong.
    "hard": Difficulty(num_terms=6, max_term=4, mistake_rate=0.45, mistakes=(1, 2)),
}


@dataclass(frozen=True)
class Step:
    """One step of a response.

    Attributes:
        start: Index of the step's first character in the response.
        end: Index after the step's last character, its separator included.
        right: Whether the step follows from the prompt and from what the step before it states.
    """

    start: int
    end: int
    right: bool


def solve(terms: list[int]) -> str:
    """Gives the right answer."""
    return str(last_digit(sum(terms)))


def sample_terms(difficulty: Difficulty, rng: random.Random) -> list[int]:
    """Draws the digits of one sum."""
    return [rng.randint(0, difficulty.max_term) for _ in range(difficulty.num_terms)]


def format_prompt(terms: list[int]) -> str:
    """Writes the sum as a prompt, ``3+5+2=``."""
    return "+".join(map(str, terms)) + "="


def parse_prompt(prompt: str) -> list[int]:
    """Reads the digits back from a prompt.

    Raises:
        ValueError: The prompt is not a sum of at least two digits.
    """
    if not _PROMPT.fullmatch(prompt):
        raise ValueError(f"not a chained sum such as '3+5+2=': {prompt!r}")
    return [int(term) for term in prompt[:-1].split("+")]


def derive(terms: list[int], slips: list[int] | None = None) -> str:
    """Writes the derivation of a sum.

    Args:
        terms: The digits to add.
        slips: What to add to the result of each of the ``len(terms) - 1`` sums; later steps go on from the slipped
            result. None for a right derivation.
    """
    slips = slips if slips is not None else [0] * (len(terms) - 1)
    steps, total = [], terms[0]
    for term, slip in zip(terms[1:], slips, strict=True):
        result = last_digit(total + term + slip)
        steps.append(f"{total}+{term}={result}")
        total = result
    return STEP_SEPARATOR.join(steps) + f"{ANSWER_MARK}{total}"


def demonstrate(terms: list[int], difficulty: Difficulty, rng: random.Random) -> str:
    """Writes a derivation in which each sum is wrong with probability ``difficulty.mistake_rate``."""
    slips = [rng.choice(difficulty.mistakes) if rng.random() < difficulty.mistake_rate else 0 for _ in terms[1:]]
    return derive(terms, slips)


def parse_answer(response: str) -> str | None:
    """Returns the digit after the last ``#``, or None where the response states none."""
    _, mark, answer = response.strip().rpartition(ANSWER_MARK)
    return answer if mark and _ANSWER.fullmatch(answer) else None


def parse_steps(prompt: str, response: str) -> list[Step]:
    """Splits a response into its steps and checks each one.

    A sum ``a+b=c`` is right where ``a`` is what the step before it states (the first term for the first sum), ``b`` is
    the prompt's next term, and ``c`` is the last digit of ``a + b``. So a sum that goes on correctly from a wrong
    result is right: the earlier step is to blame. The answer is the last step: right where every term was used and it
    repeats the last result. After a step that cannot be read, the true running total is expected.

    Args:
        prompt: A prompt of :func:`format_prompt`.
        response: The response's text, without special tokens.

    Returns:
        The steps in order; together they cover the response.
    """
    terms = parse_prompt(prompt)
    derivation, mark, answer = response.partition(ANSWER_MARK)
    steps: list[Step] = []
    total, start, used = terms[0], 0, 1
    for piece in derivation.split(STEP_SEPARATOR) if derivation else []:
        end = min(start + len(piece) + len(STEP_SEPARATOR), len(derivation))
        match = _SUM.fullmatch(piece)
        if match and used < len(terms):
            a, b, c = (int(number) for number in match.groups())
            right = a == total and b == terms[used] and c == last_digit(a + b)
            total = c
        else:
            right = False
            total = last_digit(sum(terms[: used + 1]))
        steps.append(Step(start, end, right))
        start, used = end, used + 1
    if mark:
        right = used == len(terms) and answer == str(total)
        steps.append(Step(start, len(response), right))
    return steps


def find_steps(prompt: str, response: str) -> list[Step]:
    """Splits and checks a response whose prompt is as the model got it, for ``epgrpo diagnose --steps``.

    Args:
        prompt: A prompt with the chat template around the sum; the last sum in it counts.
        response: As for :func:`parse_steps`, which does the rest.

    Raises:
        ValueError: There is no sum in the prompt.
    """
    sums = list(_PROMPT_WITHIN.finditer(prompt))
    if not sums:
        raise ValueError(f"no chained sum such as '3+5+2=' in the prompt {prompt!r}")
    return parse_steps(sums[-1].group(), response)


def check_steps(prompt: str, response: str) -> list[bool]:
    """Tells for each step of a response, the answer last, whether it is right. See :func:`parse_steps`."""
    return [step.right for step in parse_steps(prompt, response)]


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **kwargs: Any
) -> dict[str, Any]:
    """Scores a response by its answer alone, for verl's ``reward.custom_reward_function``; the steps earn nothing.

    Args:
        data_source: Unused; verl passes it.
        solution_str: The response's text without special tokens.
        ground_truth: The right answer, one digit.
        extra_info: Unused; verl passes it.
        **kwargs: Unused; verl passes more in some settings.

    Returns:
        ``score`` (1.0 or 0.0), ``acc`` (whether the answer is right) and ``pred`` (the answer, "" where there is none).
    """
    answer = parse_answer(solution_str)
    right = answer is not None and answer == str(ground_truth)
    return {"score": float(right), "acc": right, "pred": answer or ""}
