/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libringtap-dpdk.so: see ringtap_dpdk.h. Owns the order in which DPDK is asked; what is done with the packets, and when, is the
 * caller's.
 */
#define _GNU_SOURCE
#include "ringtap_dpdk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Most packets asked of a driver at a time. */
#define BURST 64
/* A trial that takes longer than this hangs. */
#define TRIAL_SECONDS 60
/* A card may stop sending for good at a frame that is shorter (IEEE 802.3 has no such). */
#define LEAST_BYTES 60
/* Frames of 2048 bytes behind the head room that drivers want. */
#define ROOM_BYTES (RTE_PKTMBUF_HEADROOM + 2048)

struct ringtap_dpdk {
	uint16_t id;
	uint16_t queues;
	/* Frames that are too short for a card's wire are made longer. */
	int pads;
	uint8_t *memory;
	struct rte_eth_stats before;
	struct queue {
		/* Its buffers. Only the queue's thread takes them and gives them back: pools of several threads are for those that
		 * none of them can hold up for good (DPDK's "Known issues" of the ring library), which real-time threads may. */
		struct rte_mempool *pool;
		/* The same of what is sent. */
		struct rte_mempool *send_pool;
		/* Becomes readable with its interrupt; -1 where it has none. */
		int bell;
	} queue[];
};

/* What DPDK says at the level of errors, and in a trial's process where it goes at once. */
static pthread_mutex_t heard_lock = PTHREAD_MUTEX_INITIALIZER;
static char heard[1024];
static size_t heard_len;
static int heard_by = -1;

static void hear_nothing(void)
{
	pthread_mutex_lock(&heard_lock);
	heard_len = 0;
	pthread_mutex_unlock(&heard_lock);
}

static void copy(char *to, size_t room, const char *from)
{
	if (room > 0)
		snprintf(to, room, "%s", from);
}

/* What was heard since hear_nothing, or the words for `error`. */
static void say(char *said, size_t room, int error)
{
	pthread_mutex_lock(&heard_lock);
	heard[heard_len] = 0;
	copy(said, room, heard_len > 0 ? heard : error != 0 ? strerror(error < 0 ? -error : error) : "");
	pthread_mutex_unlock(&heard_lock);
}

/* The stream of DPDK's log: of errors the first ones are kept, the rest goes nowhere. */
static ssize_t hear(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	if (rte_log_cur_msg_loglevel() > (int)RTE_LOG_ERR)
		return (ssize_t)len;
	if (heard_by >= 0) {
		ssize_t told = write(heard_by, text, len);

		(void)told;
		return (ssize_t)len;
	}
	pthread_mutex_lock(&heard_lock);
	size_t kept = RTE_MIN(len, sizeof(heard) - 1 - heard_len);

	memcpy(heard + heard_len, text, kept);
	heard_len += kept;
	pthread_mutex_unlock(&heard_lock);
	return (ssize_t)len;
}

static int listen_to_log(void)
{
	static FILE *stream;
	cookie_io_functions_t functions = { .write = hear };

	if (stream == NULL)
		stream = fopencookie(NULL, "w", functions);
	return stream == NULL || rte_openlog_stream(stream) != 0 ? -ENOMEM : 0;
}

uint32_t ringtap_dpdk_abi(void)
{
	return RINGTAP_DPDK_ABI;
}

const char *ringtap_dpdk_version(void)
{
	return rte_version();
}

/* The trial's own process. Standard output and error are not for what EAL prints there. */
static void try_here(int argc, char **argv, int report)
{
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (nowhere >= 0) {
		dup2(nowhere, STDIN_FILENO);
		dup2(nowhere, STDOUT_FILENO);
		dup2(nowhere, STDERR_FILENO);
	}
	heard_by = report;
	int error = listen_to_log();

	if (error == 0 && rte_eal_init(argc, argv) < 0)
		error = -(rte_errno > 0 ? rte_errno : EINVAL);
	/* Behind the words: a zero, then whether it went well. */
	char verdict[2] = { 0, error == 0 };
	ssize_t told = write(report, verdict, sizeof(verdict));

	(void)told;
	_exit(0);
}

/* Reads until the other side closes or the time is over; returns what fit, or a negative errno value. */
static ssize_t read_all(int fd, char *text, size_t room)
{
	struct timespec now;
	size_t len = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (time_t end = now.tv_sec + TRIAL_SECONDS; now.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &now)) {
		struct pollfd entry = { .fd = fd, .events = POLLIN };
		char beyond[256];
		int ready = poll(&entry, 1, 1000);
		ssize_t got;

		if (ready == 0 || (ready < 0 && errno == EINTR))
			continue;
		if (ready < 0)
			return -errno;
		/* What finds no room still has the verdict at its end. */
		got = read(fd, len < room ? text + len : beyond, len < room ? room - len : sizeof(beyond));
		if (got == 0)
			return (ssize_t)len;
		if (got < 0)
			return -errno;
		if (len < room)
			len += (size_t)got;
		else
			memcpy(text + room - 2, beyond + RTE_MAX(got, 2) - 2, 2);
	}
	return -ETIMEDOUT;
}

int ringtap_dpdk_try(int argc, char **argv, char *said, size_t room)
{
	char words[4096];
	int ends[2], status = 0;
	pid_t child;

	copy(said, room, "");
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	child = fork();
	if (child < 0) {
		int error = errno;

		close(ends[0]);
		close(ends[1]);
		return -error;
	}
	if (child == 0) {
		close(ends[0]);
		try_here(argc, argv, ends[1]);
	}
	close(ends[1]);
	ssize_t len = read_all(ends[0], words, sizeof(words));

	close(ends[0]);
	kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (len < 0)
		return (int)len;
	if (len >= 2 && words[len - 2] == 0) {
		copy(said, room, words);
		return words[len - 1] == 1 ? 0 : -EINVAL;
	}
	/* It ended without a verdict. */
	words[RTE_MIN((size_t)len, sizeof(words) - 1)] = 0;
	copy(said, room, words);
	return -ECHILD;
}

int ringtap_dpdk_start(int argc, char **argv, char *said, size_t room)
{
	int error = listen_to_log();

	hear_nothing();
	if (error == 0 && rte_eal_init(argc, argv) < 0)
		error = -(rte_errno > 0 ? rte_errno : EINVAL);
	/* Also when it went well: why a device is not there is known now and never again. */
	say(said, room, error);
	return error;
}

void ringtap_dpdk_ports(char *names, size_t room)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	size_t len = 0;
	uint16_t id;

	copy(names, room, "");
	RTE_ETH_FOREACH_DEV(id) {
		if (rte_eth_dev_get_name_by_port(id, name) == 0 && len + strlen(name) + 2 <= room)
			len += (size_t)sprintf(names + len, "%s\n", name);
	}
}

/* Kinds of packets whose flows this device spreads, of those that have two ends. */
static uint64_t spread(const struct rte_eth_dev_info *info)
{
	return info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP);
}

/* A key of one word over and over gives both directions of a flow the same hash. */
static uint8_t rss_key[128];

/* Whether both directions of a flow come by one queue: it takes our key. */
static int spreads_alike(const struct rte_eth_dev_info *info)
{
	return spread(info) != 0 && info->hash_key_size > 0 && info->hash_key_size <= sizeof(rss_key);
}

int ringtap_dpdk_limits(const char *name, struct ringtap_dpdk_limits *limits)
{
	struct rte_eth_dev_info info;
	uint16_t id;
	int error = rte_eth_dev_get_port_by_name(name, &id);

	if (error == 0)
		error = rte_eth_dev_info_get(id, &info);
	if (error != 0)
		return error;
	limits->queues = info.max_rx_queues;
	limits->spreads = spreads_alike(&info);
	copy(limits->driver, sizeof(limits->driver), info.driver_name);
	return 0;
}

struct range {
	uintptr_t start, end;
};

static void add_range(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *chunk, unsigned int index)
{
	struct range *range = opaque;
	uintptr_t start = (uintptr_t)chunk->addr;

	(void)pool;
	(void)index;
	range->start = RTE_MIN(range->start, start);
	range->end = RTE_MAX(range->end, start + chunk->len);
}

/* Configures the port with `queues` queues of about `*slots` descriptors, and about `*send_slots` to send by. */
static int configure(struct ringtap_dpdk *port, const struct rte_eth_dev_info *info, uint16_t *slots,
		     uint16_t *send_slots)
{
	struct rte_eth_conf conf = { .intr_conf.rxq = 1 };
	int error;

	if (port->queues > 1 && spread(info) != 0) {
		for (size_t at = 0; at < sizeof(rss_key); at++)
			rss_key[at] = at % 2 == 0 ? 0x6d : 0x5a;
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = spread(info);
		conf.rx_adv_conf.rss_conf.rss_key = spreads_alike(info) ? rss_key : NULL;
		conf.rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size;
	}
	/* Also where nothing is sent: not every driver has a receive queue without one to send. */
	error = rte_eth_dev_configure(port->id, port->queues, port->queues, &conf);
	if (error == 0)
		error = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, slots, send_slots);
	for (uint16_t queue = 0; error == 0 && queue < port->queues; queue++)
		error = rte_eth_tx_queue_setup(port->id, queue, *send_slots, SOCKET_ID_ANY, NULL);
	return error;
}

/* A pool of `count` buffers, in `range` too. Without caches, which only threads of EAL's have. */
static int make_pool(struct rte_mempool **pool, const char *name, uint32_t count, struct range *range)
{
	*pool = rte_pktmbuf_pool_create_by_ops(name, count, 0, 0, ROOM_BYTES, SOCKET_ID_ANY, "ring_sp_sc");
	if (*pool == NULL)
		return -(rte_errno > 0 ? rte_errno : ENOMEM);
	rte_mempool_mem_iter(*pool, add_range, range);
	return 0;
}

/* Makes the pools, hands their buffers to the queues and lets packets in. */
static int fill_and_start(struct ringtap_dpdk *port, const struct ringtap_dpdk_request *request,
			  const struct rte_eth_dev_info *info, uint16_t slots, uint16_t send_slots,
			  struct ringtap_dpdk_facts *facts)
{
	/* vmxnet3 fills two rings a queue. */
	uint32_t rings = strcmp(info->driver_name, "net_vmxnet3") == 0 ? 2 : 1;
	/* Where there is no room packets are dropped and counted; else a card may have its link's other end pause. */
	struct rte_eth_rxconf receive = info->default_rxconf;

	/* Whatever is lent, a full ring of buffers is left, so that a driver never finds the pool empty. */
	uint32_t lent = request->lent + 2 * BURST;
	struct range range = { .start = UINTPTR_MAX, .end = 0 };
	char name[RTE_MEMPOOL_NAMESIZE];
	int error = 0;

	for (uint16_t at = 0; error == 0 && at < port->queues; at++) {
		snprintf(name, sizeof(name), "ringtap%u.%u", port->id, at);
		error = make_pool(&port->queue[at].pool, name, rings * (uint32_t)slots + lent, &range);
		if (error == 0 && request->send_slots > 0) {
			/* More than the ring and the caller can hold: what was sent is given back when the next one goes. */
			snprintf(name, sizeof(name), "ringtap%u.%u.out", port->id, at);
			error = make_pool(&port->queue[at].send_pool, name, send_slots + request->held + 2 * BURST, &range);
		}
	}
	if (error != 0)
		return error;
	receive.rx_drop_en = 1;
	port->memory = (uint8_t *)range.start;
	facts->memory = port->memory;
	facts->memory_bytes = range.end - range.start;
	for (uint16_t at = 0; error == 0 && at < port->queues; at++)
		error = rte_eth_rx_queue_setup(port->id, at, slots, SOCKET_ID_ANY, &receive, port->queue[at].pool);
	if (error == 0)
		error = rte_eth_stats_get(port->id, &port->before);
	if (error == 0)
		error = rte_eth_dev_start(port->id);
	/* A driver that fills more than it was asked for would find nothing to give for what it hands over. */
	for (uint16_t at = 0; error == 0 && at < port->queues; at++) {
		if (rte_mempool_avail_count(port->queue[at].pool) < lent)
			error = -ENOBUFS;
	}
	return error;
}

/*
 * A descriptor that tells of each interrupt once. What the driver gives may be an event counter, or (net_vhost) an epoll of the
 * other end's, which nobody can empty: so it is heard by its edges, and never read.
 */
static int make_bell(uint16_t id, uint16_t queue)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(id, queue);
	int bell = fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);

	if (bell >= 0 && (rte_eth_dev_rx_intr_enable(id, queue) != 0 || epoll_ctl(bell, EPOLL_CTL_ADD, fd, &event) != 0)) {
		close(bell);
		bell = -1;
	}
	if (fd >= 0)
		rte_eth_dev_rx_intr_disable(id, queue);
	return bell;
}

static void give_up(struct ringtap_dpdk *port)
{
	rte_eth_dev_stop(port->id);
	rte_eth_dev_close(port->id);
	for (uint16_t at = 0; at < port->queues; at++) {
		rte_mempool_free(port->queue[at].pool);
		rte_mempool_free(port->queue[at].send_pool);
		if (port->queue[at].bell >= 0)
			close(port->queue[at].bell);
	}
	free(port);
}

struct ringtap_dpdk *ringtap_dpdk_open(const struct ringtap_dpdk_request *request, struct ringtap_dpdk_facts *facts,
				       char *said, size_t room)
{
	struct ringtap_dpdk *port = calloc(1, sizeof(*port) + request->queues * sizeof(struct queue));
	uint16_t slots = (uint16_t)RTE_MIN(request->slots, (uint32_t)UINT16_MAX);
	uint16_t send_slots = (uint16_t)RTE_MIN(request->send_slots > 0 ? request->send_slots : 64, (uint32_t)UINT16_MAX);
	struct rte_eth_rxq_info queue;
	struct rte_eth_dev_info info;
	struct rte_eth_link link = { 0 };
	int error = port == NULL ? -ENOMEM : 0;

	hear_nothing();
	memset(facts, 0, sizeof(*facts));
	if (error == 0)
		error = rte_eth_dev_get_port_by_name(request->name, &port->id);
	if (error == 0)
		error = rte_eth_dev_info_get(port->id, &info);
	if (error != 0) {
		say(said, room, error);
		free(port);
		return NULL;
	}
	port->queues = (uint16_t)request->queues;
	for (uint16_t at = 0; at < port->queues; at++)
		port->queue[at].bell = -1;
	error = configure(port, &info, &slots, &send_slots);
	if (error == 0)
		error = fill_and_start(port, request, &info, slots, send_slots, facts);
	if (error != 0) {
		say(said, room, error);
		give_up(port);
		return NULL;
	}
	copy(facts->driver, sizeof(facts->driver), info.driver_name);
	facts->slots = rte_eth_rx_queue_info_get(port->id, 0, &queue) == 0 && queue.nb_desc > 0 ? queue.nb_desc : slots;
	facts->spreads = port->queues > 1 && spreads_alike(&info);
	facts->is_virtual = strcmp(rte_bus_name(rte_dev_bus(info.device)), "vdev") == 0;
	port->pads = !facts->is_virtual;
	facts->promiscuous = request->promiscuous != 0 && rte_eth_promiscuous_enable(port->id) == 0;
	facts->has_link = rte_eth_link_get_nowait(port->id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
	for (uint16_t at = 0; at < port->queues; at++)
		port->queue[at].bell = make_bell(port->id, at);
	return port;
}

void ringtap_dpdk_close(struct ringtap_dpdk *port)
{
	give_up(port);
}

uint32_t ringtap_dpdk_receive(struct ringtap_dpdk *port, uint32_t queue, struct ringtap_dpdk_packet *packets,
			      uint32_t most)
{
	struct rte_mbuf *got[BURST];
	uint16_t count = rte_eth_rx_burst(port->id, (uint16_t)queue, got, (uint16_t)RTE_MIN(most, (uint32_t)BURST));

	for (uint16_t at = 0; at < count; at++) {
		/* A driver may pass on a length that the other end made up: no more than the buffer is looked at. */
		uint16_t room = got[at]->buf_len - RTE_MIN(got[at]->data_off, got[at]->buf_len);

		/* One that came in several pieces is given as its first, and so as cut. */
		packets[at] = (struct ringtap_dpdk_packet){
			.offset = (uint64_t)(rte_pktmbuf_mtod(got[at], uint8_t *) - port->memory),
			.token = (uint64_t)(uintptr_t)got[at],
			.len = RTE_MIN(rte_pktmbuf_data_len(got[at]), room),
			.wire_len = rte_pktmbuf_pkt_len(got[at]),
		};
	}
	return count;
}

void ringtap_dpdk_give_back(struct ringtap_dpdk *port, const uint64_t *tokens, uint32_t count)
{
	struct rte_mbuf *lent[BURST];

	(void)port;
	while (count > 0) {
		uint32_t now = RTE_MIN(count, (uint32_t)BURST);

		for (uint32_t at = 0; at < now; at++)
			lent[at] = (struct rte_mbuf *)(uintptr_t)tokens[at];
		rte_pktmbuf_free_bulk(lent, now);
		tokens += now;
		count -= now;
	}
}

int ringtap_dpdk_arm(struct ringtap_dpdk *port, uint32_t queue)
{
	return rte_eth_dev_rx_intr_enable(port->id, (uint16_t)queue);
}

void ringtap_dpdk_mask(struct ringtap_dpdk *port, uint32_t queue)
{
	rte_eth_dev_rx_intr_disable(port->id, (uint16_t)queue);
}

int ringtap_dpdk_fd(struct ringtap_dpdk *port, uint32_t queue)
{
	return port->queue[queue].bell;
}

void ringtap_dpdk_clear(struct ringtap_dpdk *port, uint32_t queue)
{
	struct epoll_event event;
	int rung = epoll_wait(port->queue[queue].bell, &event, 1, 0);

	(void)rung;
}

int ringtap_dpdk_pending(struct ringtap_dpdk *port, uint32_t queue)
{
	return rte_eth_rx_queue_count(port->id, (uint16_t)queue);
}

int ringtap_dpdk_buffer(struct ringtap_dpdk *port, uint32_t queue, struct ringtap_dpdk_packet *buffer)
{
	struct rte_mbuf *one = port->queue[queue].send_pool == NULL ? NULL : rte_pktmbuf_alloc(port->queue[queue].send_pool);

	if (one == NULL)
		return -ENOBUFS;
	*buffer = (struct ringtap_dpdk_packet){
		.offset = (uint64_t)(rte_pktmbuf_mtod(one, uint8_t *) - port->memory),
		.token = (uint64_t)(uintptr_t)one,
		.len = rte_pktmbuf_tailroom(one),
	};
	return 0;
}

uint32_t ringtap_dpdk_send(struct ringtap_dpdk *port, uint32_t queue, const struct ringtap_dpdk_packet *packets,
			   uint32_t count)
{
	struct rte_mbuf *out[BURST];
	uint32_t sent = 0;

	while (sent < count) {
		uint16_t now = (uint16_t)RTE_MIN(count - sent, (uint32_t)BURST);
		uint16_t taken;

		for (uint16_t at = 0; at < now; at++) {
			uint32_t len = packets[sent + at].len;

			out[at] = (struct rte_mbuf *)(uintptr_t)packets[sent + at].token;
			if (port->pads && len < LEAST_BYTES) {
				memset(rte_pktmbuf_mtod_offset(out[at], uint8_t *, len), 0, LEAST_BYTES - len);
				len = LEAST_BYTES;
			}
			out[at]->data_len = (uint16_t)len;
			out[at]->pkt_len = len;
		}
		taken = rte_eth_tx_burst(port->id, (uint16_t)queue, out, now);
		sent += taken;
		if (taken < now)
			break;
	}
	return sent;
}

int ringtap_dpdk_counts(struct ringtap_dpdk *port, struct ringtap_dpdk_counts *counts)
{
	struct rte_eth_stats now;
	int error = rte_eth_stats_get(port->id, &now);

	if (error != 0)
		return error;
	/* Some drivers begin anew when they are started. */
#define SINCE(field) (now.field >= port->before.field ? now.field - port->before.field : now.field)
	counts->received = SINCE(ipackets);
	counts->missed = SINCE(imissed);
	counts->errors = SINCE(ierrors);
	return 0;
}
