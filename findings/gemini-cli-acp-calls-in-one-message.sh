#!/bin/sh
# Gemini CLI 0.61.0 as an ACP server writes all tool calls of a prompt into one message of its session file, whatever
# was said between them. After a resume the model gets them so: every call in the first turn, before the answers that
# came between. The first requests, and sessions that were made without ACP, have a turn for each.
#
# Seen on 29 November 2026, of a prompt with two calls, one after the other:
#   sent at once:       calls by turn [1, 1]
#   in the file:        calls by message [2]
#   sent after resume:  calls by turn [2]
#
# Foldline reads what the file says, which is what is sent after a resume. That each result is then sent twice is
# another, known matter. Needs Node.js 24, which is installed here as a package.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix node node@24.21.0
PATH="$folder/node/node_modules/node/bin:$PATH"
npm install --silent --no-audit --no-fund --prefix agent @google/gemini-cli@0.61.0
mkdir -p work home/.gemini
printf 'one\n' > work/a.txt
printf 'two\n' > work/b.txt
cat > home/.gemini/settings.json <<'END'
{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
 "general": {"enableAutoUpdate": false}, "telemetry": {"enabled": false}, "model": {"name": "gemini-2.5-pro"}}
END
cat > run.py <<'END'
"""A model that reads two files, one after the other; a client of ACP; then a resume on the command line."""

import glob
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = sys.argv[1]
GEMINI = f"{FOLDER}/agent/node_modules/.bin/gemini"
requests = []


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = [part for content in asked["contents"] for part in content["parts"]]
        results = sum("functionResponse" in part for part in parts)
        if asked.get("tools"):
            requests.append(asked["contents"])
        said = [{"text": f"Answer {results + 1}."}]
        if results < 2:
            path = f"{FOLDER}/work/{'ab'[results]}.txt"
            said.append({"functionCall": {"name": "read_file", "args": {"file_path": path}, "id": f"c{results}"}})
        candidate = {"content": {"role": "model", "parts": said}, "finishReason": "STOP", "index": 0}
        counts = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}
        answer = json.dumps({"candidates": [candidate], "usageMetadata": counts}).encode()
        streamed = "stream" in self.path
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
        self.end_headers()
        self.wfile.write(b"data: " + answer + b"\n\n" if streamed else answer)

    def log_message(self, *_):
        pass


def calls_by_turn(contents):
    counts = [sum("functionCall" in part for part in content["parts"]) for content in contents]
    return [count for count in counts if count]


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
environment = {
    **os.environ,
    "HOME": f"{FOLDER}/home",
    "GEMINI_API_KEY": "x",
    "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{server.server_port}",
    "GEMINI_CLI_NO_RELAUNCH": "true",
}
options = {"cwd": f"{FOLDER}/work", "env": environment, "stderr": subprocess.DEVNULL}
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
agent = subprocess.Popen([GEMINI, "--acp", "--yolo", "--skip-trust"], **options, **pipes)


def call(number, method, **parameters):
    asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
    agent.stdin.write(json.dumps(asked).encode() + b"\n")
    agent.stdin.flush()
    while True:
        line = agent.stdout.readline()
        message = json.loads(line) if line.startswith(b"{") else {}
        if message.get("id") == number and "method" not in message:
            return message["result"]


call(1, "initialize", protocolVersion=1, clientCapabilities={})
session = call(2, "session/new", cwd=f"{FOLDER}/work", mcpServers=[])["sessionId"]
call(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Read both files."}])
at_once = calls_by_turn(requests[-1])
agent.stdin.close()
agent.wait(30)
kept = {}
for path in glob.glob(f"{FOLDER}/home/.gemini/tmp/*/chats/session-*.jsonl"):
    for line in open(path):
        record = json.loads(line)
        if record.get("toolCalls"):
            kept[record["id"]] = len(record["toolCalls"])
in_file = list(kept.values())
resume = [GEMINI, "-p", "Go on.", "--yolo", "--skip-trust", "--resume", "latest"]
subprocess.run(resume, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=120, **options)
resumed = calls_by_turn(requests[-1])
print("sent at once:       calls by turn", at_once)
print("in the file:        calls by message", in_file)
print("sent after resume:  calls by turn", resumed)
assert (at_once, in_file, resumed) == ([1, 1], [2], [2]), "the behaviour has changed"
END
python3 run.py "$folder"
