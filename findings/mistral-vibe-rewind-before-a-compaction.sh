#!/bin/sh
# mistral-vibe 3.0.2: a rewind to a prompt before a compaction sends neither the answers before that prompt nor the
# summary of them. The model gets the user's prompts alone, under a sentence that speaks of a compaction. Without a
# compaction in between, a rewind sends the answers.
#
# Seen on 29 November 2026, of three prompts, a rewind to the second, and a fourth prompt:
#   no compaction:       first prompt sent: True, first answer sent: True, summary sent: False
#   compaction before 3: first prompt sent: True, first answer sent: False, summary sent: False
#
# Foldline reads what the store holds, which is what is sent. Needs Python 3.12, as `python3.12` or as PYTHON.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mistral-vibe==3.0.2
mkdir -p "$folder/work" "$folder/home/.vibe"
cat > "$folder/rewind.py" <<'END'
"""A model that numbers its answers, and a client of `vibe-acp` that rewinds to the second prompt."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = sys.argv[1]
SETTINGS = """
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
[[providers]]
name = "local"
api_base = "http://127.0.0.1:%d/v1"
api_key_env_var = "SCRIPTED_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "scripted"
provider = "local"
alias = "scripted"
"""
requests = []


def words_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [words_of(message) for message in asked["messages"]]
        prompt = texts[-1]
        if asked.get("tools") and "Prompt " in prompt:
            answer = "Answer to " + prompt[-1]
            requests.append(texts)
        else:
            answer = "THE SUMMARY"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if asked.get("stream") else "application/json")
        self.end_headers()
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        if not asked.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
            self.wfile.write(json.dumps({"id": "1", "choices": [choice], "usage": usage}).encode())
            return
        for delta, reason in (({"role": "assistant", "content": answer}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            piece = {"id": "1", "object": "chat.completion.chunk", "choices": [choice], "usage": usage}
            self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


class Client:
    def __init__(self):
        environment = {**os.environ, "HOME": f"{FOLDER}/home", "SCRIPTED_KEY": "x", "MISTRAL_API_KEY": "x"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        program = f"{FOLDER}/venv/bin/vibe-acp"
        self.agent = subprocess.Popen([program], cwd=f"{FOLDER}/work", env=environment, **pipes)
        self.number, self.prompts = 0, {}
        self.call("initialize", protocolVersion=1, clientCapabilities={})
        self.session = self.call("session/new", cwd=f"{FOLDER}/work", mcpServers=[])["sessionId"]

    def call(self, method, **parameters):
        self.number += 1
        asked = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters}
        self.agent.stdin.write(json.dumps(asked).encode() + b"\n")
        self.agent.stdin.flush()
        while True:
            message = json.loads(self.agent.stdout.readline())
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "user_message_chunk":
                self.prompts[update["content"]["text"]] = update["messageId"]
            if message.get("id") == self.number and "method" not in message:
                return message["result"]

    def prompt(self, text):
        self.call("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])


def sent_after_a_rewind(compact):
    client = Client()
    client.prompt("Prompt 1")
    client.prompt("Prompt 2")
    if compact:
        client.prompt("/compact")
    client.prompt("Prompt 3")
    client.call("_rewind/to", sessionId=client.session, messageId=client.prompts["Prompt 2"])
    client.prompt("Prompt 4")
    client.agent.kill()
    client.agent.wait()
    text = "\n".join(requests[-1][1:])
    assert "Prompt 4" in text and "Prompt 3" not in text, "the rewind did not work"
    return ["Prompt 1" in text, "Answer to 1" in text, "THE SUMMARY" in text]


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(f"{FOLDER}/home/.vibe/config.toml", "w") as file:
    file.write(SETTINGS % server.server_port)
seen = {}
for name, compact in (("no compaction:", False), ("compaction before 3:", True)):
    seen[compact] = prompt, answer, summary = sent_after_a_rewind(compact)
    print(f"{name:20} first prompt sent: {prompt}, first answer sent: {answer}, summary sent: {summary}")
expected = {False: [True, True, False], True: [True, False, False]}
assert {key: list(value) for key, value in seen.items()} == expected, "the behaviour has changed"
END
"$folder/venv/bin/python" "$folder/rewind.py" "$folder"
