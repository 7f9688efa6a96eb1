"""The test server's answers at `/v1/embeddings`, correct or faulty.

Its model of meaning is small on purpose: a vector has one number per group of synonyms, so texts can be
similar without sharing a word.
"""

import re
from typing import Any

WAYS = ("good", "shuffled", "refused", "torn", "short", "uneven", "nothing", "hang")
"""`good`; `shuffled`: the records in another order; `refused`: status 500; `torn`: strings for vectors;
`short`: one vector too few; `uneven`: vectors of different lengths; `nothing`: another object; `hang`: no
answer.
"""

MOST = 10
"""Most texts per request, as at DashScope."""

_MEANINGS = (
    r"log ?in|sign[- ]?in|password|token|credential|authenticat\w+|session cookie|登录|密码",
    r"invoice|bill|payment|vat|price|发票",
    r"chart|plot|axis|colour|legend|图表",
)


def embedding_answer(body: dict[str, Any], way: str) -> tuple[int, Any]:
    """Return status and body of the answer."""
    texts = body["input"]
    if way == "refused":
        return 500, {"error": {"message": "no worker is free", "type": "server_error"}}
    if body.get("encoding_format") != "float":
        return 400, {
            "error": {
                "message": "encoding_format must be float",
                "type": "invalid_request_error",
            }
        }
    if len(texts) > MOST or not all(texts):
        return 400, {
            "error": {
                "message": f"1 to {MOST} texts, none empty",
                "type": "invalid_request_error",
            }
        }
    records = [
        {"object": "embedding", "index": at, "embedding": vector(text)}
        for at, text in enumerate(texts)
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
    counts = [
        float(len(re.findall(meaning, text, re.IGNORECASE))) for meaning in _MEANINGS
    ]
    return [*counts, 0.05]
