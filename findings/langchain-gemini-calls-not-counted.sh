#!/bin/sh
# langchain-core 1.8.3 does not count the tool calls in answers of Gemini 2.5 that also have thinking and text.
# langchain-google-genai 4.4.3 returns such an answer with a list as `content`, and the call only in `tool_calls`.
# `count_tokens_approximately` takes every list for Anthropic's form, in which the calls are part of the content, and
# leaves `tool_calls` out. `trim_messages` therefore keeps messages far above its limit; the summarization middleware
# of langchain uses the same count.
#
# Seen on 29 November 2026, for one answer with a call whose argument has 12,000 characters:
#   types in content: ['thinking', 'text'], calls: 1
#   counted: 22 tokens, with the same content as a string: 3539 tokens
#   trim_messages(max_tokens=100) keeps: ['human', 'ai']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check langchain-core==1.8.3 langchain-google-genai==4.4.3
cat > run.py <<'END_OF_PROGRAM'
"""A local server answers as Gemini does; langchain counts and trims the answer."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from langchain_core.messages import HumanMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_google_genai import ChatGoogleGenerativeAI

PARTS = [
    {"text": "The file is missing.", "thought": True},
    {"text": "Writing."},
    {"functionCall": {"name": "write", "args": {"path": "a.py", "content": "x = 1\n" * 2_000}}},
]


class Gemini(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        candidate = {"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP"}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}
        body = json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Gemini)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
model = ChatGoogleGenerativeAI(model="gemini-2.5-pro", api_key="x", base_url=address)
prompt = HumanMessage("Write the file.")
answer = model.invoke([prompt])
as_string = answer.model_copy(update={"content": "Writing."})
counts = [count_tokens_approximately([message]) for message in (answer, as_string)]
kept = trim_messages([prompt, answer], max_tokens=100, token_counter=count_tokens_approximately)
print(f"types in content: {[block['type'] for block in answer.content]}, calls: {len(answer.tool_calls)}")
print(f"counted: {counts[0]} tokens, with the same content as a string: {counts[1]} tokens")
print(f"trim_messages(max_tokens=100) keeps: {[message.type for message in kept]}")
assert len(answer.tool_calls) == 1, "the behaviour has changed"
assert counts[0] < 100 and counts[1] > 3_000, "the behaviour has changed"
assert [message.type for message in kept] == ["human", "ai"], "the behaviour has changed"
END_OF_PROGRAM
.venv/bin/python run.py
