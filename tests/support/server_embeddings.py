"""What the test server answers at `/v1/embeddings`, well or badly.

Its model of meaning is small on purpose: each text gets one number for each group of words that mean about
the same, so that tests can have texts that are near without a word in common.
"""

import re
from typing import Any

WAYS = ("good", "shuffled", "refused", "torn", "short", "uneven", "nothing", "hang")
"""`good`; `shuffled`: the records in another order; `refused`: a status of 500; `torn`: texts for
vectors; `short`: one too few; `uneven`: of different lengths; `nothing`: another object; `hang`: never."""

MOST = 10
"""Texts of one request, as at DashScope."""

_MEANINGS = (
    r"log ?in|sign[- ]?in|password|token|credential|authenticat\w+|session cookie|登录|密码",
    r"invoice|bill|payment|vat|price|发票",
    r"chart|plot|axis|colour|legend|图表",
)


def embedded(body: dict[str, Any], way: str) -> tuple[int, Any]:
    """Status and body of the answer."""
    texts = body["input"]
    if way == "refused":
        return 500, {"error": {"message": "no worker is free", "type": "server_error"}}
    if body.get("encoding_format") != "float":
        return 400, {"error": {"message": "encoding_format must be float", "type": "invalid_request_error"}}
    if len(texts) > MOST or not all(texts):
        return 400, {"error": {"message": f"1 to {MOST} texts, none empty", "type": "invalid_request_error"}}
    records = [
        {"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(texts)
    ]
    match way:
        case "shuffled":
            records.reverse()
        case "torn":
            records = [{**record, "embedding": "AAAA"} for record in records]
        case "short":
            records.pop()
        case "uneven":
            records[-1]["embedding"] = [1.0]
        case "nothing":
            return 200, {"ok": True}
    return 200, {"object": "list", "model": body["model"], "data": records}


def vector(text: str) -> list[float]:
    counts = [float(len(re.findall(meaning, text, re.IGNORECASE))) for meaning in _MEANINGS]
    return [*counts, 0.05]
