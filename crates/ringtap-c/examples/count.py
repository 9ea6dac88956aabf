#!/usr/bin/env python3
"""Counts the packets of an interface for a while, and says where each of them went.

    python3 count.py INTERFACE [SECONDS [BACKEND]]        BACKEND: auto, xdp or packet

Needs cffi (Debian: python3-cffi), and the library and its header: installed, or named by RINGTAP_LIBRARY and RINGTAP_HEADER.
"""

import os
import re
import signal
import sys
import time

import cffi


def declarations(path):
    """The header without what only a preprocessor understands; numbers stay."""
    with open(path, encoding="utf-8") as header:
        text = header.read()
    text = re.sub(r"#ifdef __cplusplus.*?#endif[^\n]*", "", text, flags=re.DOTALL)
    number = re.compile(r"#define RINGTAP_\w+ -?\d+[ul]*$", re.IGNORECASE)
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.startswith("#") or number.match(line))


ffi = cffi.FFI()
ffi.cdef(declarations(os.environ.get("RINGTAP_HEADER", "/usr/local/include/ringtap.h")))
lib = ffi.dlopen(os.environ.get("RINGTAP_LIBRARY", "libringtap.so.0"))


def text(words):
    return ffi.string(words).decode()


def known(count, unknown):
    """Unknown is told as unknown: it is not 0."""
    return "unknown" if count == unknown else count


def print_ledger(capture):
    ledger = ffi.new("struct ringtap_ledger *")
    lib.ringtap_ledger(capture, ledger, ffi.sizeof("struct ringtap_ledger"))
    for name in ("offered", "delivered", "filtered"):
        print(name, known(getattr(ledger, name), lib.RINGTAP_UNKNOWN))
    for drop in ledger.drops[0 : ledger.causes]:
        if drop.packets:
            print(text(drop.cause), known(drop.packets, lib.RINGTAP_UNKNOWN))
    print("unaccounted", known(ledger.unaccounted, lib.RINGTAP_UNACCOUNTED_UNKNOWN))


def count(capture, seconds):
    """Counts until the time is over or Ctrl-C, and then what is still in the rings."""
    packets = total = 0
    end = time.monotonic() + seconds
    burst = ffi.new("const struct ringtap_packet **")
    stopped = False
    while True:
        # Python's signal handlers run between two calls, so none is longer than a tenth of a second.
        left = min(max(end - time.monotonic(), 0), 0.1)
        found = lib.ringtap_next_burst(capture, int(left * 1000), burst)
        for packet in burst[0][0:found] if found > 0 else ():
            packets += 1
            total += packet.wire_len
        if found < 0 and found != lib.RINGTAP_BROKEN:
            return packets, total, found
        if not stopped and (found == lib.RINGTAP_BROKEN or time.monotonic() >= end):
            lib.ringtap_stop(capture)
            stopped = True


def main():
    backends = {"auto": lib.RINGTAP_BACKEND_AUTO, "xdp": lib.RINGTAP_BACKEND_XDP, "packet": lib.RINGTAP_BACKEND_PACKET}
    arguments = sys.argv[1:]
    try:
        interface = ffi.new("char[]", arguments[0].encode())
        seconds = float(arguments[1]) if len(arguments) > 1 else 10
        backend = backends[arguments[2]] if len(arguments) > 2 else lib.RINGTAP_BACKEND_AUTO
    except (IndexError, KeyError, ValueError):
        print("usage: count.py INTERFACE [SECONDS [auto|xdp|packet]]", file=sys.stderr)
        return 2
    options = ffi.new("struct ringtap_options *")
    lib.ringtap_options_init(options, ffi.sizeof("struct ringtap_options"))
    options.interface = interface
    options.backend = backend
    handle = ffi.new("struct ringtap **")
    if lib.ringtap_open(options, handle) != lib.RINGTAP_OK:
        print("count.py:", text(lib.ringtap_error(ffi.NULL)), file=sys.stderr)
        return 1
    capture = handle[0]
    signal.signal(signal.SIGINT, lambda *_: lib.ringtap_break(capture))
    print("count.py: counting by", text(lib.ringtap_backend(capture)), file=sys.stderr)
    packets, total, code = count(capture, seconds)
    if code != lib.RINGTAP_END:
        print("count.py:", text(lib.ringtap_error(capture)), file=sys.stderr)
    print(f"{packets} packets, {total} bytes")
    print_ledger(capture)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    lib.ringtap_close(capture)
    return 0 if code == lib.RINGTAP_END else 1


if __name__ == "__main__":
    sys.exit(main())
