"""A certificate of the tests' own for 127.0.0.1 and localhost, and who trusts it."""

import ssl
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

MAKE = [
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
    *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
]


@attrs.frozen(kw_only=True)
class Certificate:
    """A self-signed certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Put both into `folder`: the paths of the certificate and of the key."""
        paths = folder / "cert.pem", folder / "key.pem"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.write_bytes(content)
        paths[1].chmod(0o600)
        return paths

    def server_context(self) -> ssl.SSLContext:
        """The context of a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with TemporaryDirectory() as folder:
            context.load_cert_chain(*self.write(Path(folder)))
        return context

    def client_context(self) -> ssl.SSLContext:
        """The context of a client that trusts it, and nothing else."""
        return ssl.create_default_context(cadata=self.certificate.decode())


@cache
def make_certificate() -> Certificate:
    """Make one, once in a run of the tests."""
    with TemporaryDirectory() as name:
        certificate, key = Path(name) / "cert.pem", Path(name) / "key.pem"
        subprocess.run(
            [*MAKE, "-keyout", key, "-out", certificate], check=True, capture_output=True
        )
        return Certificate(certificate=certificate.read_bytes(), key=key.read_bytes())
