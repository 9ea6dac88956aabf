/* What the cases share: two ends of a veth pair, a handle on one of them, and what it saw. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <pcap/pcap.h>

#include "check.h"
#include "frames.h"
#include "process.h"

/* Frames sent on `peer` come in on `captured`. */
extern const char *captured, *peer;
/* The library is Ringtap's. */
extern int ours;

void send_frames(int count, int size, int port, int vlan);

/* A promiscuous handle in immediate mode with a timeout of 200 ms, not yet activated. */
pcap_t *create(void);
/* Activates it and takes UDP alone. */
pcap_t *activate(pcap_t *p);
void filter(pcap_t *p, const char *text);

struct seen {
    pcap_t *p;
    unsigned count, break_at, last_number, reordered;
    struct pcap_pkthdr header;
    unsigned char data[4096];
};

/* The callback; `user` is a struct seen. */
void see(u_char *user, const struct pcap_pkthdr *header, const u_char *data);

/* Dispatches until `count` packets were seen in all, or a second has passed. */
void see_all(pcap_t *p, struct seen *seen, unsigned count);

/* Nothing more comes: asked without blocking, as not every libpcap keeps a timeout when nothing comes. */
int is_silent(pcap_t *p, struct seen *seen);

#endif
