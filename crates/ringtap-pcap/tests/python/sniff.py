"""Prints each packet that scapy takes from an interface through libpcap: sniff.py INTERFACE, until SIGINT."""

import sys

from scapy.all import conf, sniff

conf.use_pcap = True
assert "libpcap" in repr(conf.L2listen).lower(), conf.L2listen


def show(packet):
    print(bytes(packet.original).hex(), flush=True)


def started():
    print("capturing", file=sys.stderr, flush=True)


sniff(iface=sys.argv[1], filter="not ip6", prn=show, store=False, started_callback=started)
