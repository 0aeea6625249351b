"""The HTTP/1.1 edge: bytes of a connection to requests, responses to bytes.

It is small because it is ours, and ours because ASGI costs three quarters of what a connection can do.
It never knows what a queue is, and it logs nothing of what passes through it.

    message     a request and a response, plain values
    encoding    a response to bytes
    router      which function answers, and how long a body it accepts
    framing     what is wrong with a request head that the parser lets pass
    timeouts    how long the edge waits and how much it takes
    budget      how many bytes the bodies of all clients may hold at once
    sweep       all clients of one listener and their deadlines
    listener    the listening socket, start and graceful stop

One client is one object, because a call from one object to another is what a request cannot afford.
Its class is written in layers, each of which knows only those before it:

    judging     the state, and requests that are not plain
    reading     the callbacks of the parser
    feeding     how much the parser gets at a time, and what happens when it stops
    answering   order, handlers, back-pressure, the last answer
    connection  what the transport and the sweep call
"""
