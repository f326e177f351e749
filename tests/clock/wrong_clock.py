"""A wall clock that a test sets while a program runs: a small library that is preloaded into the program.

It moves what C calls the real time by the seconds in a file, which test and program share as memory. The clocks that
nobody can set, by which programs wait, stay true. A test that uses it needs("compiler").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.preloaded import library

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *off_ns;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_gettimeofday)(struct timeval *, void *);

static void begin(void) {
    const char *path = getenv("WRONG_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *off_ns, PROT_READ, MAP_SHARED, file, 0);
    static int64_t none;
    if (file >= 0) close(file);
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_gettimeofday = dlsym(RTLD_NEXT, "gettimeofday");
    off_ns = map == MAP_FAILED ? &none : map;
}

__attribute__((constructor)) static void loaded(void) { if (!off_ns) begin(); }

int clock_gettime(clockid_t id, struct timespec *at) {
    if (!off_ns) begin();
    int result = real_clock_gettime(id, at);
    if (!result && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ns = *off_ns + at->tv_nsec, rest = ns % 1000000000;
        at->tv_sec += ns / 1000000000 - (rest < 0);
        at->tv_nsec = rest < 0 ? rest + 1000000000 : rest;
    }
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    if (!off_ns) begin();
    int result = real_gettimeofday(at, zone);
    if (!result && !clock_gettime(CLOCK_REALTIME, &now)) {
        at->tv_sec = now.tv_sec;
        at->tv_usec = now.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class WrongClock:
    """The wall clock of the programs that run in `environment`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.environment = {"LD_PRELOAD": str(library("wrong-clock", SOURCE)), "WRONG_CLOCK": str(file)}
        self.set(0)

    def set(self, off_s: float) -> None:
        """Puts the clock so many seconds ahead of this machine's; below 0 behind."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("<q", round(off_s * 1_000_000_000)))


@contextmanager
def wrong_clock(folder: Path) -> Iterator[WrongClock]:
    """Gives a clock that is right at first, and sets it right in the end."""
    clock = WrongClock(folder / "wall-clock")
    try:
        yield clock
    finally:
        clock.set(0)
