"""Readers of a service, in a process of their own: python service_readers.py HOST PORT PATH READERS STOP_FILE.

Prints the seconds of each answer as JSON. A service that is down is waited for.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from pathlib import Path

PAUSE = 0.1


def read(host: str, port: int, path: str, stop: Path, found: list[float]) -> None:
    tag = ""
    while not stop.exists():
        begin = time.monotonic()
        try:
            connection = http.client.HTTPConnection(host, port, timeout=10)
            connection.request("GET", path, headers={"If-None-Match": tag} if tag else {})
            answer = connection.getresponse()
            answer.read()
            connection.close()
        except (OSError, http.client.HTTPException):
            time.sleep(PAUSE)
            continue
        if answer.status in (200, 304):
            tag = answer.headers["ETag"]
            found.append(time.monotonic() - begin)
        elif answer.status != 404:  # nothing is decided yet
            raise SystemExit(f"{answer.status}")
        time.sleep(PAUSE)


def main(host: str, port: str, path: str, readers: str, stop: str) -> None:
    found: list[float] = []
    threads = [
        threading.Thread(target=read, args=(host, int(port), path, Path(stop), found))
        for _ in range(int(readers))
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    print(json.dumps(found))


main(*sys.argv[1:])
