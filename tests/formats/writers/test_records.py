"""What the writers of other agents' sessions share."""

import json

from foldline.formats.writers.records import record_line


def test_half_characters_are_written_so_that_they_can_be_read() -> None:
    line = record_line({"text": "a\ud83d", "more": "文\x00"})
    assert json.loads(line.decode()) == {"text": "a\ud83d", "more": "文\x00"}
    assert line.count(b"\n") == 1
