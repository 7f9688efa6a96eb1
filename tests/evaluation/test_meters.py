"""How a report counts tokens."""

import pytest

from foldline.context.tokens import MESSAGE_OVERHEAD
from foldline.evaluation.figures import meter_named
from foldline.protocol import FoldlineError
from support.history import history


def test_a_real_vocabulary_counts_the_text_and_the_calls_of_a_message() -> None:
    pytest.importorskip("bpe_openai", reason="no vocabulary installed (pip install -e '.[bench]')")
    built = history().user("hello world").step("read", "a", path="a.py")
    spoken, calling = built.projection().view[:2]
    tokens = meter_named("o200k").tokens
    assert tokens(spoken.message) == MESSAGE_OVERHEAD + 2
    assert tokens(calling.message) > MESSAGE_OVERHEAD


def test_a_tokenizer_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(FoldlineError, match="there are weights, o200k"):
        meter_named("guess")
