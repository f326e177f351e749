"""A disk that a test makes hang, or be slow, while a program runs: a small library that is preloaded into the program.

It holds the writes and syncs of files whose path has a text in it, for as long as a file says, which test and program
share as memory; so a test can also wait until a write is held. A test that uses it needs("compiler").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.preloaded import library

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

struct control { int32_t held, slow_ms, waiting, calls; };
static volatile struct control *control;
static const char *text;

__attribute__((constructor)) static void begin(void) {
    static struct control none;
    const char *path = getenv("HELD_DISK");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    text = getenv("HELD_FILES");
    control = map == MAP_FAILED || !text ? &none : map;
}

static void wait_for_disk(int fd) {
    char name[64], path[4096];
    ssize_t length;
    if (!control || (!control->held && !control->slow_ms)) return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    length = readlink(name, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (!strstr(path, text)) return;
    __atomic_fetch_add(&control->calls, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&control->waiting, 1, __ATOMIC_SEQ_CST);
    if (control->slow_ms) usleep(control->slow_ms * 1000);
    while (control->held) usleep(2000);
    __atomic_fetch_sub(&control->waiting, 1, __ATOMIC_SEQ_CST);
}

#define HELD(type, name, parameters, arguments)                  \
    type name parameters {                                       \
        static type (*real) parameters;                          \
        if (!real) real = (type (*) parameters)dlsym(RTLD_NEXT, #name); \
        wait_for_disk(fd);                                       \
        return real arguments;                                   \
    }

HELD(int, fsync, (int fd), (fd))
HELD(int, fdatasync, (int fd), (fd))
HELD(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t at), (fd, b, n, at))
HELD(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t at), (fd, b, n, at))
HELD(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
HELD(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at))
HELD(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, how))
HELD(ssize_t, pwritev64v2, (int fd, const struct iovec *v, int n, off64_t at, int how), (fd, v, n, at, how))
"""
CONTROL = struct.Struct("<4i")  # held, slow_ms, waiting, calls


class HeldDisk:
    """The disk of the programs that run in `environment`: the files whose path has this text in it."""

    def __init__(self, file: Path, shared: mmap, text: str) -> None:
        self._shared = shared
        self.environment = {"LD_PRELOAD": str(library("held-disk", SOURCE)), "HELD_DISK": str(file), "HELD_FILES": text}

    def hold(self) -> None:
        self._put(0, 1)

    def let_go(self) -> None:
        self._put(0, 0)

    def slow(self, ms: int) -> None:
        """Makes each write, and each sync, take so long."""
        self._put(1, ms)

    def _put(self, n: int, value: int) -> None:
        struct.pack_into("<i", self._shared, 4 * n, value)

    @property
    def waiting(self) -> int:
        """How many calls are held now."""
        return self._counts()[2]

    @property
    def calls(self) -> int:
        """How many calls were held, or slow."""
        return self._counts()[3]

    def _counts(self) -> tuple[int, ...]:
        return CONTROL.unpack_from(self._shared)


@contextmanager
def held_disk(text: str) -> Iterator[HeldDisk]:
    """A disk that answers until it is told not to; when the block ends it answers again."""
    with NamedTemporaryFile(prefix="held-disk-") as file:
        file.truncate(CONTROL.size)
        with mmap(file.fileno(), CONTROL.size) as shared:
            disk = HeldDisk(Path(file.name), shared, text)
            try:
                yield disk
            finally:
                disk.let_go()
