"""Between edges and the committer, where a server is several processes: the broker's verbs as bytes, and back.

`RemoteBroker` stands in an edge for the broker of another process; `Desk` serves one edge there. Start reading in
`calls.py`.
"""
