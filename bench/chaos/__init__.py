"""Everything is killed at random while plugins post and send; then ledgers and rows are compared.

    python -m bench chaos --kills 200 --messages 20000 --seed 1

What takes part are processes: a `muster serve` with its own PostgreSQL (fsync on), plugins on the
SDK and on bare sockets, `muster agent run`. Each plugin keeps a ledger beside the server, a file to
which it appends what it is about to do and what it was answered, synced before it goes on
(ledger.py). Nemeses end, stop and disturb all of them (nemeses.py). At the end, when everything is
calm, the ledgers are held against the rows (verdict.py).

Two more storms are over `muster mail` (mail.py) and over mirror hosts that die with texts in hand
(hosts.py):

    python -m bench chaos --mail --minutes 60
    python -m bench chaos --hosts --minutes 5

No limit of muster's is lifted: a plugin posts at most 60 messages an hour, so many messages need
many plugins and owners.
"""
