"""The LLM view: a pure projection of the history.

This package also computes the view's size in tokens, and how a compaction cuts the view.

A compaction changes the view like this:

    view before   system 0, user 1, assistant 2 with a call, its result 3, assistant 4, user 5, assistant 6
    cut           keeps user 5 and assistant 6; compacts entries 1 to 4
    entry 7       Compaction(head=(Written(message=summary, covers=((1, 4),)),), first_kept_index=5)
    view after    system 0, summary, user 5, assistant 6
    fates         1 to 4 are summarised by 7, all others are live

`cut.find_cut` finds the cut, and `derive.derive` makes the entry from the two views. `Projection.append` then
produces the view after the compaction, both now and when the session is reopened. Undoing entry 7 restores
the view before.
"""
