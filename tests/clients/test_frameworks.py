"""Flask and Django themselves, as Debian packages them, with the middleware in front: their redirects are counted."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from testing.program import Program, running
from testing.server import RunningServer, free_port

BROWSER = {"User-Agent": "Mozilla/5.0"}
SERVE = """
import os, sys
from wsgiref.simple_server import WSGIRequestHandler, make_server

class Quiet(WSGIRequestHandler):
    def log_message(self, *args): pass

make_server("127.0.0.1", int(sys.argv[1]), app, handler_class=Quiet).serve_forever()
"""
FLASK = f"""
import os
from flask import Flask, redirect
from clickcurve.client import Client
from clickcurve.client.redirects import RedirectCounter
from clickcurve.client.wsgi import ClickWsgi

app = Flask("short")

@app.get("/<path:key>")
def follow(key):
    return redirect("https://example.org/") if key != "none" else ("no such link", 404)

app.wsgi_app = ClickWsgi(app.wsgi_app, RedirectCounter(Client(os.environ["URL"], gather_s=0.05)))
{SERVE}
"""
DJANGO = """
import os
from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="__main__",
    SECRET_KEY="x",
    USE_TZ=True,
    MIDDLEWARE=["clickcurve.client.django.click_middleware"],
    CLICKCURVE={"url": os.environ["URL"], "gather_s": 0.05, "prefix": "/r/"},
)

def follow(request, key):
    return HttpResponseRedirect("https://example.org/") if key != "none" else HttpResponse(status=404)

async def follow_async(request, key):
    return follow(request, key)
"""
DJANGO_WSGI = f"""{DJANGO}
urlpatterns = [path("r/<path:key>", follow), path("login", follow, {{"key": ""}})]
from django.core.wsgi import get_wsgi_application
app = get_wsgi_application()
{SERVE}
"""
# Without a server for ASGI there: the application is asked as one would ask it.
DJANGO_ASGI = f"""{DJANGO}
import asyncio, sys
from wsgiref.simple_server import make_server
urlpatterns = [path("r/<path:key>", follow_async), path("login", follow_async, {{"key": ""}})]
from django.core.asgi import get_asgi_application
asgi = get_asgi_application()

def app(environ, start_response):
    said = []
    headers = [(b"user-agent", environ.get("HTTP_USER_AGENT", "").encode()), (b"host", b"short.example")]
    at = environ["PATH_INFO"]
    scope = {{"type": "http", "http_version": "1.1", "method": environ["REQUEST_METHOD"], "path": at,
             "raw_path": at.encode(), "root_path": "", "scheme": "http", "query_string": b"", "headers": headers,
             "client": ("203.0.113.7", 1), "server": ("short.example", 80)}}
    async def receive(): return {{"type": "http.request", "body": b"", "more_body": False}}
    async def send(message): said.append(message)
    asyncio.run(asgi(scope, receive, send))
    start_response(f"{{said[0]['status']}} X", [(k.decode(), v.decode()) for k, v in said[0]["headers"]])
    return [said[1]["body"]]
{SERVE}
"""
# It has Debian's packages and none of ours: so the library is seen to need nothing else, too.
DEBIAN_PYTHON = "/usr/bin/python3"
PROGRAMS = {"flask": FLASK, "django": DJANGO_WSGI, "django-async": DJANGO_ASGI}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.needs("flask", "django", "express")
def test_redirects_are_counted(name: str, server: RunningServer, client: Clickcurve, tmp_path: Path) -> None:
    prefix = "/" if name == "flask" else "/r/"
    (tmp_path / "app.py").write_text(PROGRAMS[name])
    port = free_port()
    command = [DEBIAN_PYTHON, str(tmp_path / "app.py"), str(port)]
    with (
        running(command, tmp_path / "app.log", {"URL": server.url}) as program,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"User-Agent": "Mozilla/5.0"}, trust_env=False
        ) as web,
    ):
        program.until(lambda: answers(web, prefix))
        for _ in range(10):
            assert web.get(f"{prefix}launch").status_code == 302
        assert web.get(f"{prefix}a/b", headers={"User-Agent": "curl/8"}).status_code == 302
        assert web.head(f"{prefix}launch").status_code in (302, 405)
        if name != "flask":
            assert web.get("/login").status_code == 302
        wait_for_total(program, client, "launch", 10)
        program.until(lambda: client.total("a/b", bots="only")["total"] == 1)
    assert client.total(bots="include")["total"] == 11


def answers(web: httpx.Client, prefix: str) -> bool:
    try:
        return web.get(f"{prefix}none").status_code == 404
    except httpx.TransportError:
        return False


def wait_for_total(program: Program, client: Clickcurve, key: str, total: int) -> None:
    program.until(lambda: bool(client.total(key)["total"] == total))
