"""TLS under load: certificates that are replaced and broken at a reload, and servers that are killed."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import time

from soak.certificate import Certificate, trusting_anybody
from soak.fault import Counts, Fault, Round, Violation
from soak.load import Load
from soak.look import Look
from soak.plan import all_queues
from soak.server import Server, wait_until

_CHANGES = 10


class Tls:
    name = "tls"
    how = "under load by https: certificate replaced by SIGHUP, unreadable or not its key's at a reload, kill -9"
    goal = 200
    unit = "changes"
    short = 4

    def run(self, round: Round) -> Counts:
        certificate = Certificate(round.folder)
        wanted = min(_CHANGES, round.left)
        plans = all_queues()
        done: dict[str, int] = {}
        workers = 2 if round.seed % 2 else 1
        with Server(round.folder, "sqlite:///data/penstock.db", *certificate.flags, workers=workers) as server:
            server.start()
            load = Load(round.history, [server.url], round.seed, plans, producers=1, consumers=2)
            load.make_queues()
            turn = round.random.randrange(len(_WAYS))
            with load:
                for number in range(wanted):
                    time.sleep(round.random.uniform(0, 0.5))
                    way = _WAYS[(turn + number) % len(_WAYS)]
                    way(server, certificate)
                    name = way.__name__.strip("_").replace("_", " ")
                    done[name] = done.get(name, 0) + 1
                    round.history.note("fault", what=name)
            Look(round.history, [server.url], plans).take()
            counts = Counts(wanted)
            counts.notes.update(done)
        round.judge(counts)
        return counts


def _replaced(server: Server, certificate: Certificate) -> None:
    certificate.again()
    _reload(server, "settings are read again")
    wanted = ssl.PEM_cert_to_DER_cert(certificate.cert.read_text())
    _expect(server, wanted, "the new certificate is shown")


def _unreadable(server: Server, certificate: Certificate) -> None:
    _spoiled(server, certificate, "this is no certificate")


def _not_that_of_its_key(server: Server, certificate: Certificate) -> None:
    key = certificate.key.read_text()
    before = certificate.cert.read_text()
    certificate.again()
    certificate.key.write_text(key)
    spoiled = certificate.cert.read_text()
    certificate.cert.write_text(before)
    _spoiled(server, certificate, spoiled)


def _spoiled(server: Server, certificate: Certificate, text: str) -> None:
    """What cannot be used is not taken over, and the one in use stays."""
    before = certificate.cert.read_text()
    certificate.cert.write_text(text)
    _reload(server, "settings are not taken over")
    certificate.cert.write_text(before)
    _expect(server, ssl.PEM_cert_to_DER_cert(before), "the certificate in use stays")


def _killed(server: Server, _certificate: Certificate) -> None:
    server.kill()
    server.start()


_WAYS = (_replaced, _unreadable, _killed, _not_that_of_its_key)


def _reload(server: Server, told: str) -> None:
    before = server.said().count(told)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: server.said().count(told) > before, f"the log says {told!r}")


def _expect(server: Server, wanted: bytes, what: str) -> None:
    """By every process: the kernel deals connections out, so several are asked. One may still be reading."""

    def shown() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", server.port), 30) as raw,
            trusting_anybody().wrap_socket(raw) as tls,
        ):
            return tls.getpeercert(binary_form=True) or b""

    try:
        wait_until(lambda: {shown() for _ in range(6)} == {wanted}, what, 60, 0.1)
    except TimeoutError as error:
        raise Violation([str(error)]) from None


FAULTS: list[Fault] = [Tls()]
