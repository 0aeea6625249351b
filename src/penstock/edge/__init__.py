"""The HTTP/1.1 edge: bytes of a connection to requests, responses to bytes.

It is ours because ASGI costs three quarters of what a connection can do. It never knows what a queue is,
and it logs nothing of what passes through it.

    http         a request and a response, plain values, and the bytes of a response
    router       which function answers, and how long a body it accepts
    head         what is wrong with a request head that the parser lets pass
    limits       how long the edge waits and how much it takes
    connection   one client
    connections  all clients of one listener and their deadlines
    listener     the listening socket, start and graceful stop
"""
