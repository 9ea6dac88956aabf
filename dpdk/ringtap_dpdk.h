/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The interface between Ringtap and DPDK: what libringtap-dpdk.so offers, free of DPDK's own types.
 *
 * DPDK's interface is one of inline functions and structures that change from release to release, so only code that was
 * compiled against the installed release can use it. This library is that code; crates/ringtap/src/sys/dpdk.rs loads it.
 * Whatever changes here changes RINGTAP_DPDK_ABI.
 *
 * Functions that can fail return 0 or a negative errno value, and leave in `said` (always ended by a zero) what DPDK said.
 * All but those of the packets' way (receive, give_back, arm, mask, fd, clear, pending, buffer, send) are called by one thread at a time;
 * those by one thread for each queue.
 */
#ifndef RINGTAP_DPDK_H
#define RINGTAP_DPDK_H

#include <stddef.h>
#include <stdint.h>

#define RINGTAP_DPDK_ABI 2

/* A port that is open. */
struct ringtap_dpdk;

/* What is asked of a port. */
struct ringtap_dpdk_request {
	const char *name;
	uint32_t queues;
	/* Descriptors of each queue. */
	uint32_t slots;
	/* Packets of each queue that may be lent out at a time. */
	uint32_t lent;
	/* Descriptors to send by of each queue; 0: nothing is sent. */
	uint32_t send_slots;
	/* Buffers of each queue that may be held at a time without being sent. */
	uint32_t held;
	uint32_t promiscuous;
};

/* What was got. */
struct ringtap_dpdk_facts {
	/* All packets lie in there, until the port is closed. */
	void *memory;
	uint64_t memory_bytes;
	uint32_t slots;
	/* 1: the device spreads flows over its queues, both directions of each to the same one. */
	uint32_t spreads;
	uint32_t promiscuous;
	uint32_t has_link;
	/* 1: no card, but a device whose other end is a program. */
	uint32_t is_virtual;
	char driver[32];
};

/* What a port can have, before it is opened. */
struct ringtap_dpdk_limits {
	uint32_t queues;
	uint32_t spreads;
	char driver[32];
};

/* One packet: where it lies in the port's memory, its length on the wire, and what gives it back. */
struct ringtap_dpdk_packet {
	uint64_t offset;
	uint64_t token;
	uint32_t len;
	uint32_t wire_len;
};

/* Since the port was opened. */
struct ringtap_dpdk_counts {
	/* Taken off the device. */
	uint64_t received;
	/* Refused by the device, whose ring was full. */
	uint64_t missed;
	/* Came damaged. */
	uint64_t errors;
};

uint32_t ringtap_dpdk_abi(void);
const char *ringtap_dpdk_version(void);
/* Starts EAL with these arguments in a forked process, which then ends: whatever EAL does to its process, it does it there. */
int ringtap_dpdk_try(int argc, char **argv, char *said, size_t room);
/* Starts EAL in this process, for good. Binds the calling thread to a CPU. */
int ringtap_dpdk_start(int argc, char **argv, char *said, size_t room);
/* Names of all ports, one a line. */
void ringtap_dpdk_ports(char *names, size_t room);
int ringtap_dpdk_limits(const char *name, struct ringtap_dpdk_limits *limits);
struct ringtap_dpdk *ringtap_dpdk_open(const struct ringtap_dpdk_request *request, struct ringtap_dpdk_facts *facts,
				       char *said, size_t room);
void ringtap_dpdk_close(struct ringtap_dpdk *port);
/* Up to `most` packets that are there now, lent until they are given back. */
uint32_t ringtap_dpdk_receive(struct ringtap_dpdk *port, uint32_t queue, struct ringtap_dpdk_packet *packets,
			      uint32_t most);
void ringtap_dpdk_give_back(struct ringtap_dpdk *port, const uint64_t *tokens, uint32_t count);
/* Lets the queue's interrupt through. Negative: it has none. */
int ringtap_dpdk_arm(struct ringtap_dpdk *port, uint32_t queue);
void ringtap_dpdk_mask(struct ringtap_dpdk *port, uint32_t queue);
/* The descriptor that the interrupt makes readable until it is cleared, or -1: there is none. It stays the same. */
int ringtap_dpdk_fd(struct ringtap_dpdk *port, uint32_t queue);
void ringtap_dpdk_clear(struct ringtap_dpdk *port, uint32_t queue);
/* Packets that wait in the queue; negative: the driver can't tell. */
int ringtap_dpdk_pending(struct ringtap_dpdk *port, uint32_t queue);
/* A buffer to write a packet into, `len` bytes of room: it is sent, or given back. Negative: none is free. */
int ringtap_dpdk_buffer(struct ringtap_dpdk *port, uint32_t queue, struct ringtap_dpdk_packet *buffer);
/* Hands over buffers of which `len` bytes are written; how many the device took, from the first one on. The others stay the caller's.
 * When they leave, not every driver tells (rte_eth_tx_done_cleanup of some gives buffers back twice). */
uint32_t ringtap_dpdk_send(struct ringtap_dpdk *port, uint32_t queue, const struct ringtap_dpdk_packet *packets,
			   uint32_t count);
int ringtap_dpdk_counts(struct ringtap_dpdk *port, struct ringtap_dpdk_counts *counts);

#endif
