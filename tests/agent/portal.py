"""A small portal for the agent's tests: real sockets, the messages of nodes/messages.py, everything kept in memory.

It follows the rules of the real one: orders are repeated until they are reported, streams are taken by offset only, an
end is closed when every byte of it has come.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID, uuid4

import numpy

from nodes.messages import (
    POINT_DTYPE,
    BrokerLogin,
    CheckpointAnswer,
    CheckpointOffer,
    Exchange,
    Go,
    JoinReply,
    JoinRequest,
    Launch,
    PlacementReport,
    Reply,
    StopOrder,
    StreamAck,
    StreamAnswer,
    unpack_batches,
)

ORDER = ["accepted", "ready", "running", "ended"]


class FakePortal:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.exchanges: list[Exchange] = []
        self.orders: dict[UUID, list[Launch]] = {}  # node id -> launches
        self.gangs: list[list[UUID]] = []
        self.stops: dict[UUID, StopOrder] = {}
        self.reports: dict[UUID, PlacementReport] = {}
        self.phases: dict[UUID, list[str]] = {}
        self.owner: dict[UUID, UUID] = {}
        self.ends: dict[UUID, int] = {}
        self.closed: set[UUID] = set()
        self.checkpoint_asks: list[UUID] = []
        self.quarantined: list[UUID] = []
        self.conflict: str | None = None
        self.closes = True
        self.down = False
        self.streams_down = False
        self.next_after = 0.2
        self.broker: BrokerLogin | None = None
        self.data: dict[tuple[UUID, int, str], bytearray] = {}
        self.acked: dict[tuple[UUID, int, str], int] = {}
        self.gaps: dict[tuple[UUID, int, str], int] = {}
        self.points: dict[tuple[UUID, int], list[tuple[float, str, float]]] = {}
        self.bad_lines: dict[tuple[UUID, int], int] = {}
        self.duplicated = 0
        self.blobs: dict[str, bytes] = {}
        self.registered: dict[tuple[UUID, int], CheckpointOffer] = {}
        self.superseded: set[UUID] = set()
        self.offers = 0
        self.cut_after: int | None = None  # the next GET sends only so many bytes
        self.ranges: list[str] = []
        self.tokens: dict[str, UUID] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    # --- what a test says --------------------------------------------------------------------------------------------

    def order(self, *launches: tuple[UUID, Launch]) -> None:
        """A gang: one launch per node id."""
        with self.lock:
            for node, launch in launches:
                self.orders.setdefault(node, []).append(launch)
                self.owner[launch.token] = node
            self.gangs.append([launch.token for _, launch in launches])

    def stop(self, node: UUID, token: UUID, reason: str = "cancelled", grace: float = 5.0) -> None:
        with self.lock:
            self.owner[token] = node
            self.stops[token] = StopOrder(token=token, reason=reason, grace_seconds=grace)

    def phase(self, token: UUID) -> str | None:
        report = self.reports.get(token)
        return str(report.phase) if report else None

    def text(self, token: UUID, rank: int = -1) -> str:
        return bytes(self.data.get((token, rank, "log"), b"")).decode(errors="replace")

    # --- what a node says --------------------------------------------------------------------------------------------

    def exchange(self, message: Exchange) -> Reply:
        with self.lock:
            self.exchanges.append(message)
            for report in message.placements:
                self.reports[report.token] = report
                seen = self.phases.setdefault(report.token, [])
                if not seen or seen[-1] != report.phase:
                    seen.append(str(report.phase))
                if report.phase == "ended":
                    self.ends[report.token] = self.ends.get(report.token, 0) + 1
            node = message.node_id
            reached = {token: ORDER.index(str(report.phase)) for token, report in self.reports.items()}
            closed = [token for token in self._complete(node) if self.closes]
            self.closed.update(closed)
            return Reply(
                next_after_seconds=self.next_after,
                launches=[launch for launch in self.orders.get(node, []) if launch.token not in reached],
                gos=[go for gang in self.gangs for go in self._gos(gang, node, reached)],
                stops=[
                    stop for token, stop in self.stops.items() if self.owner[token] == node and reached.get(token) != 3
                ],
                checkpoints=[token for token in self.checkpoint_asks if self.owner[token] == node],
                closed=closed,
                quarantined=self.quarantined,
                conflict=self.conflict,
                broker=self.broker,
            )

    def _gos(self, gang: list[UUID], node: UUID, reached: dict[UUID, int]) -> list[Go]:
        if not all(reached.get(token, -1) in (1, 2) for token in gang):
            return []
        facts = [self.reports[token].facts for token in gang]
        return [Go(token=token, peers=facts) for token in gang if self.owner[token] == node and reached[token] == 1]

    def _complete(self, node: UUID) -> list[UUID]:
        done = []
        for token, report in self.reports.items():
            if report.phase != "ended" or self.owner.get(token) != node or report.exit is None:
                continue
            lengths = {tuple(key.split("/")): length for key, length in report.exit.streams.items()}
            if all(self.acked.get((token, int(rank), kind), 0) == length for (rank, kind), length in lengths.items()):
                done.append(token)
        return done

    def streams(self, body: bytes) -> StreamAnswer:
        with self.lock:
            assert len(body) <= 1 << 20
            return StreamAnswer(acks=[self._take(batch) for batch in unpack_batches(body)])

    def _take(self, batch) -> StreamAck:
        head = batch.head
        key = (head.token, head.rank, head.kind)
        acked = self.acked.get(key, 0)
        if head.offset - head.gap <= acked and head.offset + head.source_bytes > acked:
            if head.offset < acked:
                self.duplicated += 1
            if head.kind == "log":
                at = max(0, acked - head.offset)
                self.data.setdefault(key, bytearray()).extend(batch.payload[at:])
                self.gaps[key] = self.gaps.get(key, 0) + max(0, head.offset - acked)
                acked = head.offset + head.source_bytes
            elif head.offset == acked:
                points = numpy.frombuffer(batch.payload, dtype=POINT_DTYPE)
                rows = [(float(p["step"]), head.names[p["name"]], float(p["value"])) for p in points]
                self.points.setdefault(key[:2], []).extend(rows)
                self.bad_lines[key[:2]] = self.bad_lines.get(key[:2], 0) + head.bad_lines
                acked = head.offset + head.source_bytes
            self.acked[key] = acked
        return StreamAck(token=head.token, rank=head.rank, kind=head.kind, acked=acked)

    def checkpoint(self, offer: CheckpointOffer) -> CheckpointAnswer:
        with self.lock:
            self.offers += 1
            if offer.token in self.superseded:
                return CheckpointAnswer(is_registered=False, refused="superseded by a newer attempt")
            missing = {f.sha256: f"/objects/{f.sha256}" for f in offer.files if f.sha256 not in self.blobs}
            if not missing:
                self.registered[offer.token, offer.step] = offer
            return CheckpointAnswer(is_registered=not missing, missing=missing)

    def join(self, request: JoinRequest) -> JoinReply:
        token = f"token-of-{uuid4()}"
        self.tokens[token] = request.node_id
        return JoinReply(node_id=request.node_id, name=request.hostname[:20], token=token)


def _handler(portal: FakePortal) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path = self.path.rsplit("/", 1)[-1]
            if portal.down or (portal.streams_down and path == "streams"):
                self._answer(503, b"down")
                return
            if path == "join":
                request = JoinRequest.model_validate_json(body)
                if request.code != "good":
                    self._answer(403, b"this code was used or has run out")
                    return
                self._answer(200, portal.join(request).model_dump_json().encode())
                return
            if self.headers.get("Authorization", "").removeprefix("Node ") not in portal.tokens:
                self._answer(401, b"unknown token")
                return
            answers = {
                "exchange": lambda: portal.exchange(Exchange.model_validate(json.loads(body))),
                "streams": lambda: portal.streams(body),
                "checkpoints": lambda: portal.checkpoint(CheckpointOffer.model_validate_json(body)),
            }
            self._answer(200, answers[path]().model_dump_json().encode())

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            name = self.path.rsplit("/", 1)[-1]
            assert hashlib.sha256(body).hexdigest() == name
            portal.blobs[name] = body
            self._answer(204, b"")

        def do_GET(self) -> None:
            data = portal.blobs.get(self.path.rsplit("/", 1)[-1])
            if data is None:
                self._answer(404, b"no such object")
                return
            asked = self.headers.get("Range", "")
            portal.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            cut, portal.cut_after = portal.cut_after, None
            self.wfile.write(data[start:] if cut is None else data[start : start + cut])
            if cut is not None:
                self.close_connection = True

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
