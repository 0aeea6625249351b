"""Bytes that no client would send, given to every part that reads what clients send (`make fuzz`).

A target is a function of some bytes that raises `Finding`, or anything else, if the server does what it must never do.
`targets.py` lists them, `house.py` is a server without sockets in which most of them work, and `reading.py` and
`signing.py` read HTTP and signatures in ways of their own, to compare with. `__main__.py` runs a target: guided by
coverage where atheris is installed, else by the mutations of `mutation.py`.
"""
