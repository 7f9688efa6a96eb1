"""Start a warm program in place of this process: `warm_start.py SOCKET PROGRAM ARGUMENTS…`.

Ends with the program's exit status. Imports next to nothing, so that it starts fast.
"""

import json
import os
import signal
import socket
import sys

path, program, *arguments = sys.argv[1:]
connection = socket.socket(socket.AF_UNIX)
connection.connect(path)
request = {
    "program": program,
    "arguments": arguments,
    "env": {**os.environ},
    "cwd": os.getcwd(),  # noqa: PTH109 - `pathlib` is slow to import
}
socket.send_fds(connection, [b" "], [0, 1, 2])
connection.sendall(json.dumps(request).encode() + b"\n")
stream = connection.makefile("r")
pid = int(stream.readline())
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
for fd in range(3):
    os.close(fd)  # the program has copies; when it closes one, that must be the last
status = int(stream.readline() or -9)
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
