"""Prints each packet that pcapy shows of an interface: sniff.py INTERFACE, until SIGINT."""

import sys

import pcapy

sniffer = pcapy.open_live(sys.argv[1], 65535, 1, 100)
sniffer.setfilter("not ip6")


def show(header, data):
    print(header.getlen(), header.getcaplen(), data.hex(), flush=True)


try:
    while True:
        sniffer.dispatch(-1, show)
except KeyboardInterrupt:
    print("received", sniffer.stats()[0] > 0)
