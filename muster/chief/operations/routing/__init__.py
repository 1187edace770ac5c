"""A message goes to a session, whose answer becomes its reply (plugins: "Routing a message …").

making.py begins a route, answering.py takes its answer and relays it, ending.py ends the others and
gives the message back to the chief. What is decided is decided in muster/routes/rules.py.

Lock order, everywhere: the chief's row, the message's, the route's, then the queue's.
"""
