"""A request that asks for another protocol is read as HTTP/1.1: its body is its body, never a further request."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.server.http.test_connection import listening

INNER = b"POST /v1/hits/smuggled HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: %s\r\nUpgrade: %s\r\n"

# The client of Java's standard library, as a program that java compiles as it runs it. By default it asks for h2c.
JAVA_CLIENT = """
import java.net.URI;
import java.net.http.*;

public class Post {
    public static void main(String[] args) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(args[0] + "/v1/hits"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString("{\\"key\\":\\"java\\"}"))
            .build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.body());
    }
}
"""

# Node's two clients. A fetch may not name Upgrade; what it sends is read on a connection that was just asked for one.
NODE_CLIENT = """
const http = require("http");
const url = process.argv[2] + "/v1/hits";
const json = {"Content-Type": "application/json"};
const body = JSON.stringify({key: "node"});
const post = (agent) => new Promise((resolve, reject) => {
    const headers = {...json, "Connection": "Upgrade", "Upgrade": "h2c", "Content-Length": body.length};
    const asked = http.request(url, {method: "POST", headers, agent}, (answer) => {
        let said = "";
        answer.on("data", (piece) => said += piece).on("end", () => resolve(answer.statusCode + " " + said));
    });
    asked.on("error", reject);
    asked.end(body);
});
(async () => {
    const agent = new http.Agent({keepAlive: true, maxSockets: 1});
    for (let n = 0; n < 2; n++) console.log(await post(agent));
    agent.destroy();
    const answer = await fetch(url, {method: "POST", headers: json, body});
    console.log(answer.status + " " + await answer.text());
})();
"""

# Go's client speaks HTTP/1.1 without TLS; a request that asks for another protocol keeps its body and its connection.
GO_CLIENT = """
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	for _, protocol := range []string{"", "h2c", "h2c", ""} {
		asked, err := http.NewRequest("POST", os.Args[1]+"/v1/hits", strings.NewReader(`{"key":"go"}`))
		if err != nil {
			panic(err)
		}
		asked.Header.Set("Content-Type", "application/json")
		if protocol != "" {
			asked.Header.Set("Connection", "Upgrade")
			asked.Header.Set("Upgrade", protocol)
		}
		answer, err := http.DefaultClient.Do(asked)
		if err != nil {
			panic(err)
		}
		said, err := io.ReadAll(answer.Body)
		if err != nil {
			panic(err)
		}
		fmt.Println(answer.StatusCode, string(said))
	}
}
"""


async def answers(port: int, *pieces: bytes) -> list[bytes]:
    """The bodies of all answers, up to the one to a last request that closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in (*pieces, b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\n."):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    raw = await reader.read()
    writer.close()
    return [part.partition(b"\r\n\r\n")[2] for part in raw.split(b"HTTP/1.1 200 OK")[1:]]


def lengths_of(*pieces: bytes) -> list[int]:
    async def run() -> list[bytes]:
        async with listening() as port:
            return await answers(port, *pieces)

    return [int(body) for body in asyncio.run(run())]


@pytest.mark.parametrize(
    ("connection", "protocol"),
    [(b"upgrade", b"foo"), (b"Upgrade, HTTP2-Settings", b"h2c"), (b"keep-alive, UPGRADE", b"websocket")],
)
def test_the_body_of_a_request_that_asks_for_another_protocol_is_read(connection: bytes, protocol: bytes) -> None:
    head = HEAD % (connection, protocol) + b"Content-Length: %d\r\n\r\n" % len(INNER)
    assert lengths_of(head + INNER) == [len(INNER), 1]
    assert lengths_of(head, INNER) == [len(INNER), 1]
    assert lengths_of(head + INNER + head + INNER) == [len(INNER), len(INNER), 1]


def test_a_chunked_body_is_read_as_well() -> None:
    head = HEAD % (b"upgrade", b"foo") + b"Transfer-Encoding: chunked\r\n\r\n"
    assert lengths_of(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(INNER), INNER)) == [len(INNER), 1]


def test_a_request_without_a_body_is_answered_and_the_next_one_too() -> None:
    assert lengths_of(HEAD % (b"upgrade", b"foo") + b"\r\n") == [0, 1]


def test_it_does_not_matter_where_the_bytes_are_cut() -> None:
    whole = HEAD % (b"upgrade", b"h2c") + b"Content-Length: 3\r\n\r\nabc"
    for cut in range(1, len(whole)):
        assert lengths_of(whole[:cut], whole[cut:]) == [3, 1], cut


def test_a_close_next_to_the_upgrade_still_closes() -> None:
    async def run() -> bytes:
        async with listening() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD % (b"close, upgrade", b"h2c") + b"Content-Length: 3\r\n\r\nabc")
            raw = await reader.read()
            writer.close()
            return raw

    assert asyncio.run(run()).endswith(b"\r\n\r\n3")


def test_a_tunnel_is_refused_and_the_connection_closed() -> None:
    async def run() -> bytes:
        async with listening() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n" + INNER)
            raw = await reader.read()
            writer.close()
            return raw

    raw = asyncio.run(run())
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert raw.count(b"HTTP/1.1") == 1


def go_client(folder: Path) -> Path:
    """Builds the Go program, without the network; what it needs of the standard library is compiled once a user."""
    source, program = folder / "post.go", folder / "post"
    source.write_text(GO_CLIENT)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "go-build"
    offline = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GO111MODULE": "off", "CGO_ENABLED": "0"}
    environment = {**os.environ, **offline, "GOCACHE": str(cache)}
    done = subprocess.run(
        ["go", "build", "-o", program, source],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.needs("java", "curl", "node", "go")
def test_clients_that_ask_for_http_2_post_hits(server: RunningServer, client: Clickcurve, tmp_path: Path) -> None:
    program = tmp_path / "Post.java"
    program.write_text(JAVA_CLIENT)
    done = subprocess.run(["java", str(program), server.url], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.startswith('200 {"counted":1,'), done
    curl = ["curl", "-sS", "--http2", "--json", '{"key":"curl"}', f"{server.url}/v1/hits"]
    done = subprocess.run(curl, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.startswith('{"counted":1,'), done
    script = tmp_path / "post.js"
    script.write_text(NODE_CLIENT)
    done = subprocess.run(["node", str(script), server.url], capture_output=True, text=True, timeout=600, check=True)
    assert [line[:17] for line in done.stdout.splitlines()] == ['200 {"counted":1,'] * 3, done
    done = subprocess.run([go_client(tmp_path), server.url], capture_output=True, text=True, timeout=600, check=True)
    assert [line[:17] for line in done.stdout.splitlines()] == ['200 {"counted":1,'] * 4, done
    assert [client.total(key)["total"] for key in ("java", "curl", "node", "go")] == [1, 1, 3, 4]
    assert "Unsupported upgrade" not in server.output()
