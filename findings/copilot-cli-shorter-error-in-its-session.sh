#!/bin/sh
# GitHub Copilot CLI 1.0.102 keeps a shorter text of a failed call in its session than the model was sent: after
# a resume the model has only the short one. What the first request had cannot be read from `events.jsonl`.
#
# Seen on 29 November 2026, of an `edit` whose `old_str` is not in the file:
#   sent at once:  129 characters; begins with the kept text: True
#   in the file:   14 characters
#   sent resumed:  14 characters; is the kept text: True
# The first length depends on the path of the file.
#
# Foldline's reader counts such calls in a note. Needs Node.js 24, which is installed here as a package.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix node node@24.21.0
PATH="$folder/node/node_modules/node/bin:$PATH"
npm install --silent --no-audit --no-fund --prefix agent @github/copilot@1.0.102
cat > model.py <<'END'
"""A model that edits once, and then says that it is done. Writes each request to `requests.jsonl`."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EDIT = {"path": os.path.abspath("a.txt"), "old_str": "absent", "new_str": "x"}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open("requests.jsonl", "a") as log:
            log.write(json.dumps(asked) + "\n")
        if any(message["role"] == "tool" for message in asked["messages"]):
            delta, reason = {"content": "done"}, "stop"
        else:
            call = {"name": "edit", "arguments": json.dumps(EDIT)}
            delta = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]}
            reason = "tool_calls"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for choice in ({"delta": {"role": "assistant", **delta}}, {"delta": {}, "finish_reason": reason}):
            piece = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}
            self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
with open("port", "w") as file:
    file.write(str(server.server_port))
server.serve_forever()
END
python3 model.py &
model=$!
trap 'kill $model; rm -rf "$folder"' EXIT
while [ ! -s port ]; do sleep 0.1; done
printf 'one\n' > a.txt
export HOME="$folder/home" COPILOT_HOME="$folder/home/.copilot" COPILOT_OFFLINE=true COPILOT_AUTO_UPDATE=false
export COPILOT_PROVIDER_TYPE=openai COPILOT_PROVIDER_BASE_URL="http://127.0.0.1:$(cat port)/v1"
export COPILOT_PROVIDER_API_KEY=x COPILOT_MODEL=scripted
mkdir -p "$COPILOT_HOME"
agent/node_modules/.bin/copilot -p "Edit a.txt." --allow-all-tools > said.txt 2>&1 < /dev/null
session=$(basename "$(dirname "$COPILOT_HOME"/session-state/*/events.jsonl)")
agent/node_modules/.bin/copilot -p "And now?" --allow-all-tools --resume="$session" > again.txt 2>&1 < /dev/null
python3 - "$COPILOT_HOME/session-state/$session/events.jsonl" <<'END'
import json
import sys

requests = [json.loads(line) for line in open("requests.jsonl")]
sent = [[m["content"] for m in asked["messages"] if m["role"] == "tool"] for asked in requests]
first = next(texts for texts in sent if texts)[0]
resumed = sent[-1][0]
events = [json.loads(line) for line in open(sys.argv[1])]
kept = [event["data"] for event in events if event["type"] == "tool.execution_complete"][0]["error"]["message"]
print("sent at once: ", len(first), "characters;", "begins with the kept text:", first.startswith(kept))
print("in the file:  ", len(kept), "characters")
print("sent resumed: ", len(resumed), "characters;", "is the kept text:", resumed == kept)
assert first.startswith(kept) and len(first) > len(kept) and resumed == kept, "the behaviour has changed"
END
