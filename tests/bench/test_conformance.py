"""The digest on sessions of `compaction-conformance-kit` with planted rules, facts and goals.

The kit needs no model and no network; it comes with `pip install -e '.[bench]'`. A planted item survives if
all its values are in the result of five successive compactions, at a share of the session's characters.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from bench.tables import table
from foldline.compaction.summary_text import framed, notes_of, with_appendix
from foldline.memory.digest import digest
from foldline.memory.language import within_frame
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CompactionDetails,
    SystemMessage,
    UserMessage,
    text_parts,
)

kit = pytest.importorskip(
    "compaction_kit.benchmark", reason="not installed: pip install -e '.[bench]'"
)

from compaction_kit.compacted import CompactedContext  # noqa: E402
from compaction_kit.compactors import (  # noqa: E402
    PinnedRulesCompactor,
    UpdateAwareChecklistCompactor,
)
from compaction_kit.corpus import build_random_session  # noqa: E402
from compaction_kit.generated import build_generated_session  # noqa: E402
from compaction_kit.runner import run_conformance  # noqa: E402
from compaction_kit.session import Turn  # noqa: E402
from compaction_kit.versioning import kit_version  # noqa: E402

Benchmark = Callable[..., object]

SHARES = (0.1, 0.2, 0.3)
SEEDS = (1, 2, 3, 4)
"""Seeds of the kit's own benchmark."""
UNSEEN = tuple(range(101, 113))
"""Seeds of the generated corpus, whose subjects, wording and values differ from seed to seed."""
DEMANDED = 0.85
"""Score of the kit's best compactor at a fifth of the characters."""
_LABEL = re.compile(r"^[A-Z ]+: ")


@dataclass(frozen=True)
class Digest:
    """The digest as one of the kit's compactors.

    Its limit is in characters; later rounds compact its own result.
    """

    name: str = "digest"
    is_framed: bool = False
    """Whether to include a summary's frame and the lists quoted from the history."""

    def compact(
        self, turns: Sequence[Turn], round_num: int = 1, budget_chars: int | None = None
    ) -> CompactedContext:
        most = budget_chars or sum(len(turn.text) for turn in turns)
        messages = [_message(index, turn) for index, turn in enumerate(turns)]
        previous = "\n".join(
            within_frame(m.text) for m in messages if isinstance(m, SystemMessage)
        )
        others = [
            message for message in messages if not isinstance(message, SystemMessage)
        ]
        best = ""
        low = 0
        high = most
        while low < high:
            tokens = (low + high + 1) // 2
            text = self._text(others, previous if round_num > 1 else "", tokens)
            if len(text) <= most:
                best, low = text, tokens
            else:
                high = tokens - 1
        return CompactedContext(
            text=best, compactor_name=self.name, round_num=round_num
        )

    def _text(self, messages: Sequence[BaseMessage], previous: str, tokens: int) -> str:
        notes = digest(
            messages, previous=notes_of(previous) or None, focus=None, max_tokens=tokens
        )
        if not self.is_framed:
            return notes
        return framed(
            with_appendix(notes, messages, previous, CompactionDetails(), tokens)
        ).text


def _message(index: int, turn: Turn) -> BaseMessage:
    match turn.role:
        case "user":
            return UserMessage(index=index, parts=text_parts(turn.text))
        case "assistant":
            return AssistantMessage(index=index, parts=text_parts(turn.text))
        case _:
            return SystemMessage(index=index, parts=text_parts(turn.text))


def survival(
    compactor: object, share: float, build: Callable[[int], tuple], seeds: Sequence[int]
) -> float:
    """Return the share of planted items that survive five rounds within the budget."""
    survivals: list[bool] = []
    for seed in seeds:
        session, canaries = build(seed)[:2]
        run = run_conformance(
            session, compactor, canaries=canaries, budget_fraction=share
        )
        assert all(round_.within_budget for round_ in run.rounds)
        survivals += run.rounds[-1].survived.values()
    return sum(survivals) / len(survivals)


def without_labels(seed: int) -> tuple:
    """Build a session of the kit, without labels such as `FACT: `."""
    session, canaries = build_random_session(seed)
    turns = tuple(
        replace(turn, text=_LABEL.sub("", turn.text)) for turn in session.turns
    )
    return replace(session, turns=turns), canaries


def test_the_digest_keeps_what_the_best_reference_keeps(benchmark: Benchmark) -> None:
    arms = [Digest(), Digest("digest, framed, with its lists", True)]
    arms += [PinnedRulesCompactor(), UpdateAwareChecklistCompactor()]
    corpora = {
        "its benchmark": (build_random_session, SEEDS),
        "generated": (build_generated_session, UNSEEN),
        "without labels": (without_labels, SEEDS),
    }
    scores = {
        (arm.name, corpus, share): survival(arm, share, *corpora[corpus])
        for arm in arms
        for corpus in corpora
        for share in SHARES
    }
    heads = (f"{corpus} {share:.0%}" for corpus in corpora for share in SHARES)
    title = f"compaction-conformance-kit {kit_version()}: canaries that survive five compactions"
    output = table(title, "compactor", *heads)
    for arm in arms:
        output.row(
            arm.name,
            *(
                f"{scores[arm.name, corpus, share]:.1%}"
                for corpus in corpora
                for share in SHARES
            ),
        )
    session, _ = build_random_session(1)
    benchmark(Digest().compact, session.transcript(), budget_chars=1_600)
    assert scores["digest", "its benchmark", 0.2] >= DEMANDED
