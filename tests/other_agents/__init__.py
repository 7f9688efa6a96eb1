"""Other agents, run for real: Foldline's view of their session against the request that they sent last.

`make agents` installs each agent at one version into a folder of its own, lets it do a scripted job against a
scripted model on this machine, lets it compact, and compares. Then it hands a compacted session of Foldline
over to the agents that `foldline handoff` can write for, and compares again. The results are the table in
`docs/sessions.md`. Nothing here runs in CI: installing thirteen agents takes minutes and a network.

- `catalogue`: the agents, and how each is set up and run
- `install`, `workspace`: install one, give it a home and a project of its own
- `drivers`, `terminal`: talk to it by a protocol, or on a screen
- `model`: the scripted model, a process of its own; `script`: what it answers; `wires`: its four APIs
- `comparison`, `known`: request against view, and the differences that are understood
- `runs`: all stages of one agent; `handover`: the last of them; `table`: the table
"""
