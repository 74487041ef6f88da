"""Who may reach a cluster: addresses that leave this machine are encrypted, unless the user says otherwise."""

import ipaddress
import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

from distributed.security import Security


def check_address(address: str, plain: bool) -> None:
    """Whoever reaches a scheduler can run code on its workers: nothing leaves the machine without encryption."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or port is None or parts.scheme not in ("tcp", "tls"):
        raise ValueError(f"--scheduler is like tls://machine:8786, but saw {address!r}")
    if parts.scheme == "tcp" and not is_loopback(host) and not plain:
        raise ValueError(
            f"{address} leaves this machine without encryption, and whoever reaches it can run code there: use tls:// "
            "with --tls DIR, or --plain-tcp on a network that is yours alone"
        )


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def certificates(folder: Path) -> Security:
    """`cert.pem` and `key.pem` of this machine, and `ca.pem` to check others with; alone, `cert.pem` is for both."""
    cert, key, ca = (folder / name for name in ("cert.pem", "key.pem", "ca.pem"))
    for file in (cert, key):
        if not file.is_file():
            raise ValueError(f"there is no {file}: --tls names a folder with cert.pem, key.pem and, if wanted, ca.pem")
    mode = key.stat().st_mode
    if os.name == "posix" and mode & 0o077:
        raise ValueError(f"{key} can be read by others (mode {stat.filemode(mode)}): chmod 600 {key}")
    sides = {
        f"tls_{side}_{part}": str(file)
        for side in ("client", "scheduler", "worker")
        for part, file in (("cert", cert), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=str(ca if ca.is_file() else cert), **sides)
